"""Which ended jobs' files have to go to keep within bounds of age and size; nothing else goes."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import Self

from jupyter_jax_trainer.errors import JobDirError, UsageError
from jupyter_jax_trainer.jobdir import layout, session
from jupyter_jax_trainer.jobdir.files import disk_use
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.options import amounts, checks
from jupyter_jax_trainer.states import ENDED

DAYS, BYTES = "JAXTRAIN_KEEP_DAYS", "JAXTRAIN_KEEP_BYTES"
_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is kept.

    Attributes
    ----------
    age
        Seconds since a job's end; None for any.
    size
        Bytes of all jobs together; None for any.
    """

    age: float | None = None
    size: int | None = None

    def __bool__(self) -> bool:
        return self.age is not None or self.size is not None

    @classmethod
    def of_environment(cls) -> Self:
        """Read the bounds that hold without being asked for; none where nothing is set.

        Raises
        ------
        UsageError
            A value makes no sense.
        """
        days, size = os.environ.get(DAYS), os.environ.get(BYTES)
        return cls(_seconds(days) if days else None, amounts.size(BYTES, size) if size else None)


def _seconds(days: str) -> float:
    with contextlib.suppress(ValueError):
        if float(days) > 0:
            return float(days) * _DAY
    raise UsageError(say.STORE_DAYS(variable=DAYS, value=checks.shown(days)))


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that has ended.

    Attributes
    ----------
    ended
        When, in seconds since the epoch.
    size
        Bytes on the disk.
    session
        The uid of the session whose cell it is; None for a job of its own.
    """

    directory: JobDir
    state: str
    ended: float
    size: int
    session: str | None


def surplus(bounds: Bounds, spare: float = 0.0) -> list[Ended]:
    """Return what has to be deleted, the oldest first: no more than the bounds need.

    Jobs that have not ended, that are kept by name or whose files are damaged are never among it,
    but count for the size. The cells of a session count as one job: for the size its earlier cells
    go before any job does, and those that are spared make no other job go.

    Parameters
    ----------
    spare
        Seconds since its end in which a job is not deleted for its size.
    """
    total, found = 0, []
    for directory in layout.list_all():
        size = disk_use(directory.path) if bounds.size is not None else 0
        total += size
        if (end := _end(directory)) is not None and not directory.keep.exists():
            found.append(Ended(directory, *end, size, session.session_of(directory)))
    found.sort(key=lambda one: one.ended)
    last = {one.session: one for one in found if one.session}
    earlier = [one for one in found if one.session and last[one.session] is not one]
    others = [one for one in found if not one.session or last[one.session] is one]
    now, going = time.time(), []
    for number, one in enumerate((*earlier, *others)):
        since = max(0.0, now - one.ended)  # another machine's clock may be ahead
        old = bounds.age is not None and since > bounds.age
        goes = old or (bounds.size is not None and total > bounds.size and since >= spare)
        if goes:
            going.append(one)
        if goes or number < len(earlier):
            total -= one.size
    return going


def _end(directory: JobDir) -> tuple[str, float] | None:
    """Return how and when a job ended; None where it has not, or where that can't be read."""
    with contextlib.suppress(JobDirError):
        state = directory.read_state()
        if state is not None and state["state"] in ENDED:
            times = [entry["time"] for entry in state["history"] if entry["state"] in ENDED]
            return (state["state"], times[0]) if times else None
    return None


def remove(one: Ended) -> bool:
    """Delete the files of a job that has ended; say whether they were there and free to go."""
    return _remove(one.directory)


def remove_cells(uid: str) -> None:
    """Delete the files of the cells of a session, but not of those that are kept by name."""
    for directory in layout.list_all():
        if session.session_of(directory) == uid:
            _remove(directory)


def _remove(directory: JobDir) -> bool:
    """Delete the files of a job that has ended; say whether they were there and free to go.

    The cluster is not asked and keeps what it has. Dying in between is harmless: the directory
    has lost its name first, and what is left of it goes with the next submission.
    """
    with contextlib.suppress(OSError):
        lock = directory.take_lock()
        if lock is None:
            return False  # somebody still writes there, or deletes it
        try:
            # Another job may have the name by now.
            same = os.path.samestat(os.fstat(lock), directory.lock.stat())
            if same and _end(directory) is not None and not directory.keep.exists():
                directory.remove()
                return True
        finally:
            os.close(lock)
    return False


def apply_environment() -> None:
    """Keep within the bounds of the environment, where it sets some.

    Nobody is asked, so what ended in the last day, and whose results may still be fetched, is not
    deleted for its size.
    """
    if bounds := Bounds.of_environment():
        for one in surplus(bounds, _DAY):
            remove(one)
