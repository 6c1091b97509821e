"""The rows of the job list, updated incrementally and shared by all pages."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import NamedTuple

from jupyter_jax_trainer.jobdir import layout
from jupyter_jax_trainer.jobdir.files import Stamp, stamp_of
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.rows import Row, row_of

_FRESH = 0.1  # seconds for which the last look is good enough
_CHECK = 2.0  # seconds after which an active job is looked at, though its files are as before
_SLOW = 1.0  # seconds between looks at the files of jobs that have ended


class Table:
    """The rows of all jobs, each with the version in which it changed last.

    Parameters
    ----------
    root
        Jupyter's root directory, below which notebooks have names; None where there is none.
    """

    def __init__(self, root: str | None) -> None:
        self.root = None if root is None else Path(root)
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._gone: dict[str, int] = {}
        self._version = 0
        self._looked = self._looked_at_ended = 0.0

    def rows(self) -> tuple[int, list[Row]]:
        """Return the present version, and all rows, the newest first."""
        with self._lock:
            self._refresh()
            found = [entry.row for entry in self._entries.values()]
            return self._version, sorted(found, key=lambda row: -row["created"])

    def since(self, version: int) -> tuple[int, list[Row], list[str]]:
        """Return what has changed.

        Parameters
        ----------
        version
            The version that is known.

        Returns
        -------
        tuple
            The present version, the rows that are new or changed, and the keys that are gone.
        """
        with self._lock:
            if time.monotonic() - self._looked >= _FRESH:  # else another page has just looked
                self._refresh()
            rows = [one.row for one in self._entries.values() if one.version > version]
            gone = [key for key, when in self._gone.items() if when > version]
            return self._version, rows, gone

    def _refresh(self) -> None:
        """Look at the job directories."""
        now = self._looked = time.monotonic()
        all_of_them = now - self._looked_at_ended >= _SLOW
        if all_of_them:
            self._looked_at_ended = now
        found = layout.names()
        for key in self._entries.keys() - found:
            del self._entries[key]
            self._version += 1
            self._gone[key] = self._version
        for key in found:
            entry = self._entries.get(key)
            if entry is None or entry.row["active"] or all_of_them:
                self._look(key, entry, now)

    def _look(self, key: str, entry: _Entry | None, now: float) -> None:
        # Kept, since making the paths of hundreds of jobs anew would be most of the work.
        directory = entry.directory if entry else JobDir(layout.jobs_directory() / key)
        stamps = stamps_of(directory, session=entry is None or entry.row["session"] is not None)
        if entry is not None and entry.stamps == stamps and now < entry.check_at:
            return
        job = entry.job if entry and entry.stamps.manifest == stamps.manifest else None
        job = job or Job(directory)
        row = row_of(job, self.root)
        if row["session"] is None:
            stamps = stamps._replace(session=None)
        if entry is None or row != entry.row:
            self._version += 1
            self._gone.pop(key, None)
            version = self._version
        else:
            version = entry.version
        check_at = now + _CHECK if row["active"] else float("inf")
        kept = job if row["active"] else None  # its manifest is not read again
        self._entries[key] = _Entry(directory, kept, row, stamps, version, check_at)


class _Entry(NamedTuple):
    directory: JobDir
    job: Job | None  # while it is active
    row: Row
    stamps: JobStamps
    version: int
    check_at: float


class JobStamps(NamedTuple):
    """What changes when a job's state or manifest is written, or what a session has."""

    state: Stamp | None
    manifest: Stamp | None
    session: Stamp | None


def stamps_of(directory: JobDir, *, session: bool) -> JobStamps:
    """Return the stamps of a job's files; of a session's only where it may be one."""
    return JobStamps(
        stamp_of(directory.state),
        stamp_of(directory.manifest),
        stamp_of(directory.session) if session else None,
    )
