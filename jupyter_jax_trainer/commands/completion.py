"""Tab completion for the lines of both magics. It never raises and never waits for a cluster."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence

from jupyter_jax_trainer.commands import COMMANDS
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.options.table import OPTIONS, Option

_START = re.compile(r"\s*(?P<magic>%{1,2})?jaxtrain(?=\s|$)")
_FRAGMENT = re.compile(r"[^\s=,]*$")


def fragment(line: str, cursor: int) -> str:
    """Return the part before the cursor that a completion replaces.

    It begins after the last blank, ``=`` or comma, so that lists are completed name by name.
    """
    match = _FRAGMENT.search(line[:cursor])
    return match[0] if match else ""


def complete(line: str, cursor: int, variables: Iterable[str] = ()) -> list[str]:
    """List what could stand in place of `fragment`, in a line of ``%%jaxtrain`` or ``%jaxtrain``.

    Parameters
    ----------
    line
        The whole line, with the magic's name.
    cursor
        Where the cursor is in it.
    variables
        The names of the user's variables, for ``--use`` and ``--out``.
    """
    start = _START.match(line[:cursor])
    if start is None or start.end() >= cursor:
        return []
    part = fragment(line, cursor)
    before = line[start.end() : cursor - len(part)]
    words = before.replace("=", " ").split()
    if start["magic"] == "%%":
        found = _words_for_options(words, before, part, OPTIONS, variables, ())
    elif not words:
        found = list(COMMANDS)
    elif words[0] in COMMANDS:
        command = COMMANDS[words[0]]
        takes: Iterable[str] = _jobs() if command.takes == "job" else ()
        if command.takes == "session":
            takes = _sessions()
        if command.takes == "key" and len(words) == 1:
            takes = ("export", "import")
        found = _words_for_options(words[1:], before, part, command.options, variables, takes)
    else:
        found = []
    return [word for word in found if word.startswith(part)]


def _words_for_options(
    words: Sequence[str],
    before: str,
    part: str,
    options: Sequence[Option],
    variables: Iterable[str],
    positionals: Iterable[str],
) -> list[str]:
    flags = {option.flag: option for option in options}
    flags |= {f"-{option.short}": option for option in options if option.short}
    last = words[-1] if words else ""
    in_list = before.rstrip().endswith(",")
    if in_list and len(words) > 1:
        last = words[-2]  # --out a,| : the word before the list is the option
    option = flags.get(last)
    if option is not None and option.metavar is not None:
        return _values(option, variables, [word for word in words if not word.startswith("-")])
    if in_list:
        return []
    if part.startswith("-"):
        return [*(option.flag for option in options), "--help"]
    return list(positionals) or ([option.flag for option in options] if not part else [])


def _values(option: Option, variables: Iterable[str], jobs: Sequence[str]) -> list[str]:
    if option.choices:
        return list(option.choices)
    if option.name == "session":
        return _sessions()
    if option.name == "out":
        variables = {*variables, *_variables_of(jobs)}
    if option.name in ("out", "use"):
        return sorted(name for name in variables if not name.startswith("_"))
    if option.name == "container":
        return _containers(jobs)
    if option.name == "runtime":
        from jupyter_jax_trainer.backends import registry

        return [runtime.name for runtime in registry.get(registry.DEFAULT).runtimes()]
    return []


def _containers(names: Sequence[str]) -> list[str]:
    """List the containers of the job that is named, else of the newest."""
    from jupyter_jax_trainer.jobdir import layout

    try:
        known = layout.list_all()
    except OSError:
        return []
    named = [directory for directory in known if directory.path.name in names]
    return [name for directory in (named or known)[:1] for name in directory.containers()]


def _sessions() -> list[str]:
    from jupyter_jax_trainer import sessions

    try:
        return [str(job.spec.session) for job in sessions.live()]
    except (OSError, JaxTrainError):
        return []


def _variables_of(words: Sequence[str]) -> list[str]:
    """List the variables of the sessions that are among the words of a line."""
    from jupyter_jax_trainer import sessions

    found: list[str] = []
    for name in words:
        with contextlib.suppress(OSError, JaxTrainError):
            found += sessions.session(name).vars()
    return found


def _jobs() -> list[str]:
    from jupyter_jax_trainer.jobdir import layout

    try:
        return [directory.path.name for directory in layout.list_all()]
    except OSError:
        return []
