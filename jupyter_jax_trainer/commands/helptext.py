"""The help of the magics and of the command line; docs/generate.py has pages of the same."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from jupyter_jax_trainer.commands.table import COMMANDS, Command
from jupyter_jax_trainer.options.table import OPTIONS, Option

EXAMPLES = (
    ("%%jaxtrain", "run this cell as a job, and wait for it"),
    ("%%jaxtrain digits -n 2 --out params,loss", "2 processes; bring two variables back"),
    ("%%jaxtrain -n 4 -d gpu --timeout 2h --detach", "4 processes on GPUs, in the background"),
    ("%jaxtrain attach digits", "watch a job again, from any kernel"),
)
_WIDTH = 92
_COLUMN = 30


def groups() -> dict[str, list[Option]]:
    """Return the options of a job under their headings."""
    found: dict[str, list[Option]] = {}
    for option in OPTIONS:
        heading = option.group
        if heading == "Kubernetes":
            heading = "Only on Kubernetes"
        found.setdefault(heading, []).append(option)
    return found


def help_text() -> str:
    """Return the help of ``%%jaxtrain`` and ``%jaxtrain``."""
    lines = [
        "Run a notebook cell as a distributed JAX job: N processes under jax.distributed.",
        "",
        *_columns(EXAMPLES, 46),
        "",
        "%%jaxtrain [NAME] [options]",
    ]
    for heading, options in groups().items():
        lines += ["", f"{heading}:", *_option_lines(options)]
    lines += ["", "%jaxtrain COMMAND (in a terminal: jaxtrain COMMAND)", ""]
    lines += _columns([(command.usage, command.summary) for command in COMMANDS.values()])
    lines += ["", "%jaxtrain COMMAND --help shows more. Without NAME, commands use the newest job."]
    lines += ["In a job: from jupyter_jax_trainer import report, checkpoint_dir"]
    return "\n".join(lines)


def command_help(command: Command) -> str:
    """Return the help of one command."""
    lines = [f"jaxtrain {command.usage}", "", *textwrap.wrap(command.help, _WIDTH)]
    if command.options == OPTIONS or len(command.options) > 10:
        lines += ["", "Options: those of %%jaxtrain; `jaxtrain --help` lists them."]
        own = [option for option in command.options if option not in OPTIONS]
    else:
        own = list(command.options)
    if own:
        lines += ["", *_option_lines(own)]
    return "\n".join(lines)


def _option_lines(options: Iterable[Option]) -> list[str]:
    # Long names stand under one another, whether or not there is a short one.
    return _columns(
        (option.usage if option.short else f"    {option.usage}", option.help) for option in options
    )


def _columns(pairs: Iterable[tuple[str, str]], column: int = _COLUMN) -> list[str]:
    lines: list[str] = []
    for left, right in pairs:
        wrapped = textwrap.wrap(right, _WIDTH - column - 4) or [""]
        if len(left) > column:
            lines.append(f"  {left}")
        else:
            lines.append(f"  {left:<{column}}  {wrapped.pop(0)}")
        lines += [f"  {'':<{column}}  {text}" for text in wrapped]
    return lines
