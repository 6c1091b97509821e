"""Notifications of ended jobs: the setting, and the notes of ends that are yet to be reported.

A note is stored before the job's end is, and removed once that was reported. So a process that dies
in between leaves it to the next one (`endrunner`), and nothing is reported twice.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NotRequired, TypedDict, cast

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir.files import open_regular, write_private
from jupyter_jax_trainer.jobdir.formats import Shape, misfit
from jupyter_jax_trainer.jobdir.manifest import Manifest, attached_of
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.states import ENDED, State

ALLOW = "JAXTRAIN_ALLOW_ON_END"
SETTINGS = "settings.toml"
NOTES = "on-end"  # the directory of the store with the notes
_TABLE: dict[str, Shape] = {
    "command": (str,),
    "url": (str,),
    "states": [str],
    "cells": bool,
    "link": str,
}
_UID = re.compile(r"[\w-]+")
_WEB = re.compile(r"https?://[^\s/?#]+(?:[/?#]\S*)?")


class _Table(TypedDict):
    """The table ``[on_end]``, with one of the first two."""

    command: NotRequired[str]
    url: NotRequired[str]
    states: NotRequired[list[str]]
    cells: NotRequired[bool]
    link: NotRequired[str]


@dataclass(frozen=True, slots=True)
class Hook:
    """What is done at the end of a job.

    Attributes
    ----------
    kind, target
        A shell command, or an address. Either may hold a secret: neither is ever shown.
    states
        The ends that are told.
    cells
        Whether those of the cells of sessions are, too.
    link
        Where a job can be seen, with ``{name}`` for its name.
    """

    kind: Literal["command", "url"]
    target: str
    states: tuple[State, ...] = ENDED
    cells: bool = False
    link: str | None = None

    def wants(self, manifest: Manifest, state: State) -> bool:
        """Return whether the end of a job is to be told; other stores tell of theirs."""
        is_cell = "cell_of" in manifest
        return (
            state in self.states and attached_of(manifest) is None and (self.cells or not is_cell)
        )


def allowed() -> bool:
    """Return whether administrators let jobs be told of; a setting that makes no sense means no."""
    return os.environ.get(ALLOW, "").strip().lower() in ("", "1", "on", "yes", "true")


def read(home: Path) -> Hook | None:
    """Read the setting of a store; None where there is none.

    Raises
    ------
    UsageError
        It makes no sense. What stands in it is not repeated.
    """
    path = home / SETTINGS
    try:
        with open_regular(path) as file:
            mode, data = os.fstat(file.fileno()).st_mode, file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(say.SETTINGS_UNREADABLE(path=path, error=error.strerror)) from None
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(say.SETTINGS_WRITABLE(path=path))
    import tomllib  # here, for a supervisor has to start fast

    try:
        found = tomllib.loads(data.decode())
    except ValueError:
        raise UsageError(say.SETTINGS_NO_TOML(path=path)) from None
    table = found.get("on_end")
    return None if table is None else _hook(path, table)


def _hook(path: Path, table: JsonValue) -> Hook:
    if not isinstance(table, dict) or not table.keys() <= _TABLE.keys():
        raise UsageError(say.ON_END_UNKNOWN(path=path, keys=", ".join(_TABLE)))
    for key, value in table.items():
        if misfit({key: value}, {key: _TABLE[key]}):
            raise UsageError(say.ON_END_WRONG(path=path, key=key))
    given = cast(_Table, table)
    command, url = given.get("command", "").strip(), given.get("url", "").strip()
    if bool(command) == bool(url):
        raise UsageError(say.ON_END_NEITHER(path=path))
    if url and not _WEB.fullmatch(url):
        raise UsageError(say.ON_END_WRONG(path=path, key="url"))
    states = given.get("states", [*ENDED])
    if not set(states) <= set(ENDED):
        raise UsageError(say.ON_END_WRONG(path=path, key="states"))
    return Hook(
        kind="command" if command else "url",
        target=command or url,
        states=tuple(map(State, states)),
        cells=given.get("cells", False),
        link=given.get("link"),
    )


def note(job: Path, manifest: Manifest, state: State) -> None:
    """Note that the end of a job is to be told, if the user wants that; the end is written next.

    Parameters
    ----------
    job
        Its directory.

    Raises
    ------
    UsageError
        The setting makes no sense.
    OSError
        It can't be noted.
    """
    home, uid = job.parent.parent, manifest["uid"]
    if not allowed() or (hook := read(home)) is None or not hook.wants(manifest, state):
        return
    if _UID.fullmatch(uid):
        (home / NOTES).mkdir(mode=0o700, exist_ok=True)
        write_private(home / NOTES / uid, job.name.encode())
