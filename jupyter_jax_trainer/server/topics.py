"""What a page can open on the WebSocket. A topic is looked at now and then, in a thread.

A look gives what has changed since the last one. Nothing here knows of connections.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from jupyter_jax_trainer.files import LineReader
from jupyter_jax_trainer.jobdir import JobDir
from jupyter_jax_trainer.server.details import detail, find
from jupyter_jax_trainer.server.table import Table, stamp

Message = dict[str, Any]
_POINTS = 2000  # reports in one message
_CHECK = 1.0  # seconds after which a job is looked at, though its files are as before


class Topic(Protocol):
    """Something that a page has opened.

    Attributes
    ----------
    every
        Seconds between looks.
    """

    every: float

    def look(self) -> Iterable[Message]:
        """Give what has changed since the last look; all there is at the first."""


class JobsTopic:
    """The list of all jobs."""

    every = 0.2

    def __init__(self, table: Table) -> None:
        self._table = table
        self._version: int | None = None

    def look(self) -> Iterator[Message]:
        """Give new and changed rows."""
        if self._version is None:
            self._version, rows = self._table.rows()
            yield {"kind": "jobs", "all": True, "rows": rows}
            return
        version, rows, gone = self._table.since(self._version)
        self._version = version
        if rows or gone:
            yield {"kind": "jobs", "all": False, "rows": rows, "gone": gone}


class JobTopic:
    """One job: its detail, its reports and its events."""

    every = 0.1

    def __init__(self, key: str, root: Path) -> None:
        self._job = find(key)
        self._root = root
        directory = self._directory = JobDir(self._job.directory)
        self._stamp: object = None
        self._check_at = 0.0
        self._readers = {
            "metrics": (LineReader(directory.metrics), "points"),
            "events": (LineReader(directory.events), "events"),
        }
        self._counts = dict.fromkeys(self._readers, 0)
        self._last: dict[str, Any] | None = None

    def look(self) -> Iterator[Message]:
        """Give the detail if it has changed, then what has been added."""
        now_stamp, now = stamp(self._directory), time.monotonic()
        if now_stamp != self._stamp or now >= self._check_at:
            self._stamp, self._check_at = now_stamp, now + _CHECK
            found = detail(self._job, self._root)
            if found != self._last:
                self._last = found
                yield {"kind": "job", "detail": found}
        for kind, (reader, name) in self._readers.items():
            lines = iter(reader.read())
            while part := list(islice(lines, _POINTS)):
                yield {"kind": kind, "from": self._counts[kind], name: part}
                self._counts[kind] += len(part)
