"""Run what the words of a command say."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.commands.helptext import command_help, help_text
from jupyter_jax_trainer.commands.table import COMMANDS
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.messages import options
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
            raise UsageError(say.OPTION_FIRST(option=name, words=" ".join(words)))
        raise UsageError(say.UNKNOWN_COMMAND(name=name), checks.did_you_mean(name, COMMANDS))
    passed: list[str] = []
    if command.takes == "file" and "--" in rest:
        at = rest.index("--")
        rest, passed = rest[:at], rest[at + 1 :]
    try:
        values, names = read_words(rest, command.options)
    except HelpRequested:
        context.print(command_help(command))
        return
    except UsageError as error:
        if command.takes == "file" and error.id == options.UNKNOWN.id:
            error.hint = f"{error.hint} {say.OPTIONS_OF_SCRIPT()}"
        raise
    least, most = command.words
    if len(names) < least:
        raise UsageError(say.TOO_FEW_WORDS(command=name, usage=command.usage))
    if most is not None and len(names) > most:
        raise UsageError(
            say.TOO_MANY_WORDS(command=name, word=checks.shown(names[most]), usage=command.usage)
        )
    if command.takes == "file":
        values["arguments"] = tuple(passed)
    command.handler(context, values, names)
