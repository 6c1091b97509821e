"""What is said of a cell: its source, its variables, the modules that travel with it."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Label, Message, identify

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
    "In a job, only !commands, {known} work.",
)
ASKS_USER = Message(
    "Line {line} of the cell calls {name}(), but a session's ranks can't ask for input.",
    "Put %%here above a cell that asks; the answer is sent with the next cell that reads it.",
)
USES_WIDGETS = Message(
    "Line {line} of the cell uses {name}, but widgets only work in this kernel.",
    "Put %%here above a cell with widgets.",
)

UNDEFINED = Message(
    "Line {line} of the cell reads {name!r}, which is not defined in the cell or the notebook."
    "\n    {source}"
)
MISSPELT = Message(
    "Line {line} of the cell reads {name!r}, which is not defined in the cell or the notebook. "
    "Did you mean {near!r}?\n    {source}"
)
NOT_IMPORTED = Message(
    "Line {line} of the cell reads {name!r}, which is not defined in the cell or the notebook. "
    "Import it: from jupyter_jax_trainer import {name}\n    {source}"
)
SEVERAL_UNDEFINED = Message("The cell reads names that are not defined:\n{each}")
HISTORY = Message(
    "Line {line} of the cell reads `{name}`, which belongs to IPython's history and is not sent.",
    "Assign the value to a variable of your own.",
)
USE_UNDEFINED = Message("--use {name}: the notebook has no variable {name!r}.")
OUT_NEVER_SET = Message("--out {name}: the cell never sets {name!r}.")

CANNOT_SEND = Message("`{name}` can't be sent: it is {what}.")
CANNOT_SEND_PART = Message("`{name}` can't be sent: {part}: {what}.")
FUNCTION = Message("the function")
ARGUMENT = Message("argument {which}")

MODULES_TOO_LARGE = Message(
    "Your own modules take {size} MB, more than the {most} MB that can be sent (the last one: "
    "{module}).",
    "Install them in the image, or keep data out of the package.",
)
COMPILED_MODULE = Message(
    "Your module {module!r} can't be sent: {path} is compiled, and may not run on the workers.",
    "Install it there: as a package (--package) or in the image.",
)
FILES_LEFT_OUT = Message(
    "Not sent with your modules, because they look like secrets or link out of the package: "
    "{files}. Rename or move a file that is not a secret; load a secret from a mounted Secret, or "
    "set it with --env-from-secret."
)
NO_FILES = Message("--files {pattern}: {folder} has no such file.")
FILES_IGNORED = Message(
    "--files {pattern}: all matches in {folder} are ignored by .gitignore, .jaxtrainignore or "
    "their names: {files}.",
    "Name a file in full to send it all the same, or re-include it in .jaxtrainignore.",
)
_NOT_SECRET = (
    "Rename or move a file that is not a secret; load a secret from a mounted Secret, or set it "
    "with --env-from-secret."
)
FILES_ALL_STAY = Message(
    "--files {pattern}: files that look like secrets or can't be read, links out of the folder, "
    "and links to folders are not sent: {files}.",
    _NOT_SECRET,
)
FILES_STAY = Message(
    "--files does not send files that look like secrets or can't be read, links out of the folder, "
    f"and links to folders: {{files}}. {_NOT_SECRET}"
)
FILES_TOO_LARGE = Message(
    "--files: {count}, {size}; more than {most:,} files or {bytes} are probably a mistake.",
    "Name fewer files, or add --allow-large.",
)
FILES_TOO_LARGE_AT_ALL = Message(
    "--files: {count}, {size}; a job takes at most {most:,} files and {bytes} along.",
    "Load the data from a volume (--volume PVC:/path), or pack small files into one.",
)
FILE_NAME_UNFIT = Message(
    "--files: the name {file} has characters that can't be sent.", "Rename the file."
)
FILE_UNREADABLE = Message("--files: {file} can't be read: {error}.")
FILES_IN_PLACE = Message(
    "--files: {count}, {size}. The job runs in this folder and reads them there; nothing is copied."
)

CONSTANT_DIFFERS = Message(
    "{module} is sent from its file, where {name} is {there}; in the notebook it is {here}."
)
FUNCTION_DIFFERS = Message(
    "{module} is sent from its file, where {function} differs from the one in the notebook."
)
FUNCTIONS_DIFFER = Message(
    "{module} is sent from its file, where {functions} differ from those in the notebook."
)
CHANGED = Message("changed")
ASSIGNED_AGAIN = Message("assigned again")
USES_CHANGED = Message("what it uses has changed")
SENT_AGAIN = Label("{type} ({why})")
COMPARING_TOOK = Message(
    "It took {time} to check whether {names} changed since the last cell. JAX arrays need no such "
    "check, and variables that session cells assign stay there."
)
DELETED_IN_SESSION = Message(
    "The session has lost the values of {name}: a cell donated its buffers to a call, or the call "
    "that computes it failed."
)
MAY_DIFFER = Message("{names} may differ in the notebook; the session's value counts.")
DIFFERS_IN_SESSION = Message(
    "{name} differs between ranks: a cell with --rank bound it last on {ranks}."
)
ON_SOME_RANKS = Message(
    "Line {line} of the cell reads {name!r}, which only {ranks} of the session can have.\n"
    "    {source}",
    "Add --rank {option}, or bind it on all ranks first.",
)
LOST_IN_SESSION = Message(
    "Line {line} of the cell reads {name!r}, which was lost when the ranks of the session were "
    "restarted.\n    {source}",
    "Run the cells that make it again.",
)

VIRTUAL_DEVICES = Message(
    "Set virtual devices with --devices-per-node N; XLA_FLAGS has no effect once jax runs in the "
    "job."
)

identify(globals())
