"""``session.json``: what the ranks of a session have, and its cells that have not ended."""

from __future__ import annotations

import contextlib
import time
from typing import NotRequired, TypedDict, cast

from jupyter_jax_trainer.errors import JobDirError
from jupyter_jax_trainer.jobdir.files import read_json, write_json
from jupyter_jax_trainer.jobdir.formats import SESSION
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import CellOf
from jupyter_jax_trainer.worker.records import Saved as Saved
from jupyter_jax_trainer.worker.records import Variable as Variable

IDLE = 1800.0  # seconds that a session may be idle, where nobody says
WARNING = 300.0  # seconds before its end; half of a limit that is shorter than twice that


class SessionRecord(TypedDict):
    """The whole of ``session.json``.

    Attributes
    ----------
    idle
        How many seconds it may be idle; 0 for ever.
    idle_since
        When its last cell ended, in seconds since the epoch; None while one runs.
    idle_ends
        When it ends by itself, on the same clock; None while a cell runs, and for never.
    running, waiting
        Jobs: the cell that runs, and those behind it.
    variables
        As of the last cell that ended.
    restarts
        How often the ranks were restarted.
    lost
        Variables that were lost by that the last time.
    saved
        What was saved last; None where nothing was.
    restored
        With what of it the ranks have begun; None where they began with nothing.
    packages
        That cells have brought: name → version.
    """

    idle: float
    idle_since: float | None
    idle_ends: NotRequired[float | None]
    running: str | None
    waiting: list[str]
    variables: dict[str, Variable]
    restarts: int
    lost: list[str]
    saved: NotRequired[Saved | None]
    restored: NotRequired[Saved | None]
    packages: NotRequired[dict[str, str]]


def first(idle: float | None) -> SessionRecord:
    """Return what is known of a session that begins."""
    return {
        "idle": IDLE if idle is None else idle,
        "idle_since": None,
        "running": None,
        "waiting": [],
        "variables": {},
        "restarts": 0,
        "lost": [],
    }


def read(directory: JobDir) -> SessionRecord | None:
    """Read what is known of a session; None where it has not begun.

    Raises
    ------
    JobDirError
        The file is damaged.
    """
    if not directory.session.exists():
        return None
    return cast(SessionRecord, read_json(directory.session, SESSION))


def known(directory: JobDir) -> SessionRecord:
    """Return what is known of a session, also where it has not begun.

    Raises
    ------
    JobDirError
        The file is damaged.
    """
    return read(directory) or first(None)


def ends_soon(cell_of: CellOf, directory: JobDir) -> float | None:
    """Return when the session of a cell ends for being idle; None where that is not soon.

    Parameters
    ----------
    directory
        That of the cell.
    """
    holder = JobDir(directory.path.with_name(cell_of["session"]))
    with contextlib.suppress(JobDirError):
        record = read(holder)
        since, ends = record and record["idle_since"], record and record.get("idle_ends")
        if since and ends and 0 < ends - time.time() <= min(WARNING, (ends - since) / 2):
            same = holder.read_manifest()["uid"] == cell_of["uid"]
            return ends if same and holder.is_live() else None
    return None


def write(directory: JobDir, record: SessionRecord) -> None:
    """Write it, for readers that see the old one or the new one."""
    write_json(directory.session, record)


def session_of(directory: JobDir) -> str | None:
    """Return the uid of the session whose cell a job is; None for one that is none, or damaged."""
    with contextlib.suppress(JobDirError):
        cell_of = directory.read_manifest().get("cell_of")
        return cell_of["uid"] if cell_of else None
    return None
