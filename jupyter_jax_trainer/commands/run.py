"""Run what the words of a command say."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.commands.helptext import command_help, help_text
from jupyter_jax_trainer.commands.table import COMMANDS
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.options import checks
from jupyter_jax_trainer.options.table import HelpRequested, read_words


def run_command(words: Sequence[str], context: Context) -> None:
    """Run the command that the words name.

    Raises
    ------
    JaxTrainError
        The words are wrong, or the command could not do what it should.
    """
    if not words or words[0] in ("-h", "--help", "help"):
        context.print(help_text())
        return
    name, *rest = words
    command = COMMANDS.get(name)
    if command is None:
        if name.startswith("-"):
            raise UsageError(
                f"A command has to come first, and {name} is an option.",
                "Options that start a job stand in a cell's first line: %%jaxtrain "
                + " ".join(words),
            )
        raise UsageError(f"There is no command {name}.", checks.did_you_mean(name, COMMANDS))
    passed: list[str] = []
    if command.takes == "file" and "--" in rest:
        at = rest.index("--")
        rest, passed = rest[:at], rest[at + 1 :]
    try:
        values, names = read_words(rest, command.options)
    except HelpRequested:
        context.print(command_help(command))
        return
    least, most = command.words
    if len(names) < least:
        raise UsageError(f"{name} needs more words: jaxtrain {command.usage}")
    if most is not None and len(names) > most:
        raise UsageError(
            f"{name} doesn't know what to do with {checks.shown(names[most])}.",
            f"It is used like this: jaxtrain {command.usage}",
        )
    if command.takes == "file":
        values["arguments"] = passed
    command.handler(context, values, names)
