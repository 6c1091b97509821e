"""What is said of a cell: its source, its variables, the modules that travel with it."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Message, identify

CANNOT_COMPILE = Message("The cell can't be compiled: {error}.")
SYNTAX_ERROR = Message("Syntax error in line {line} of the cell: {error}\n    {source}{caret}")
CELL_MAGIC = Message(
    "Line {line} of the cell: %%{name} does not work in a job.",
    "A job's cell is Python; remove that line.",
)
ASKS_FOR_HELP = Message(
    "Line {line} of the cell: `{source}` asks for help, which a job can't show.",
    "Ask in another cell.",
)
INSTALLS = Message(
    "Line {line} of the cell: `{source}` would install on every node while the job runs.",
    "Name the packages with --package, or use an image that has them.",
)
LINE_MAGIC = Message(
    "Line {line} of the cell: `{source}` does not work in a job: %{name} is a notebook command.",
    "In a job, !commands and {known} work.",
)

identify(globals())
