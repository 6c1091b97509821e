"""What a page can open on the WebSocket. A topic is looked at now and then, in a thread.

A look gives what has changed since the last one. Nothing here knows of connections.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from jupyter_jax_trainer.jobdir.files import LineReader
from jupyter_jax_trainer.jobdir.records import Event, Metric
from jupyter_jax_trainer.logs import logfiles
from jupyter_jax_trainer.queries.details import OpenedJob, detail
from jupyter_jax_trainer.queries.jobs import JobStamps, Table, stamps_of
from jupyter_jax_trainer.queries.machine import MachineReader
from jupyter_jax_trainer.queries.protocol import Detail, Here, JobSummary, Message
from jupyter_jax_trainer.queries.summary import INTERVAL, SummaryReader, tail
from jupyter_jax_trainer.worker.usage import UsageReader

T = TypeVar("T")
_POINTS = 2000  # reports in one message
_LINES = 10  # the last ones of the log, beside what is known of a job
_MACHINE, _RANKS = 2.0, 32.0  # seconds between looks at resources; ranks that add one more
_SEEN = 26  # bits of a number of bytes: 64 MiB
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
        """Return what has changed since the last look; all there is at the first."""


class HereTopic:
    """What is used of this machine, or of the container that this process is in."""

    every = 5.0

    def __init__(self) -> None:
        self._usage = UsageReader(contained=True)
        self._last: Here | None = None

    def look(self) -> Iterator[Message]:
        """Yield what is used, if that has changed so that it is seen."""
        now = self._usage.read()
        cpu, used = now["cpu"], now["used"]
        found: Here = {
            "kind": "here",
            "cpu": None if cpu is None else round(cpu, 2),
            "cores": now["cores"],
            "used": None if used is None else used >> _SEEN << _SEEN,
            "limit": now["limit"],
        }
        if found != self._last:
            self._last = found
            yield found


class JobsTopic:
    """The list of all jobs."""

    every = 0.2

    def __init__(self, table: Table) -> None:
        self._table = table
        self._version: int | None = None

    def look(self) -> Iterator[Message]:
        """Yield new and changed rows."""
        if self._version is None:
            self._version, rows = self._table.rows()
            yield {"kind": "jobs", "all": True, "rows": rows}
            return
        version, rows, gone = self._table.since(self._version)
        self._version = version
        if rows or gone:
            # By this clock a page tells what is new: the rows have their times from it.
            now = time.time()
            yield {"kind": "jobs", "all": False, "rows": rows, "gone": gone, "now": now}


class _Parts(Generic[T]):
    """What is added to a file of lines, in parts of some thousand."""

    def __init__(self, reader: LineReader[T]) -> None:
        self._reader = reader
        self._count = 0
        self._begun = False

    def read(self) -> Iterator[tuple[int, list[T]]]:
        """Yield parts, each with the number of its first line.

        The first one is given though it is empty: there is nothing from before.
        """
        lines = iter(self._reader.read())
        while (part := list(islice(lines, _POINTS))) or not self._begun:
            yield self._count, part
            self._count += len(part)
            self._begun = True


class JobTopic:
    """One job: its detail, its reports, its events and its last lines."""

    every = 0.1

    def __init__(self, key: str, root: Path | None) -> None:
        self._opened = OpenedJob(key)
        self._root = root
        directory = self._opened.directory
        self._stamps: JobStamps | None = None
        self._check_at = 0.0
        self._points = _Parts(LineReader[Metric](directory.metrics))
        self._events = _Parts(LineReader[Event](directory.events))
        self._machine = MachineReader(self._opened.job)
        self._machine_at = 0.0
        self._last: Detail | None = None
        self._printed: int | None = None  # bytes of the log's index: with it lines change
        self._tail_at = 0.0

    def look(self) -> Iterator[Message]:
        """Yield what has been added, then the detail if it has changed.

        Who shows the job once its detail has come has all that is in it, and nothing has to move.
        """
        self._opened.check()
        for start, points in self._points.read():
            yield {"kind": "metrics", "from": start, "points": points}
        for start, events in self._events.read():
            yield {"kind": "events", "from": start, "events": events}
        yield from self._used()
        stamps, now = stamps_of(self._opened.directory, session=True), time.monotonic()
        if now >= self._tail_at:
            self._tail_at = now + INTERVAL
            printed = logfiles.size(self._opened.directory.log_index)
            if printed != self._printed:
                self._printed = printed
                yield {"kind": "tail", "lines": tail(self._opened.directory, _LINES)}
        if stamps != self._stamps or now >= self._check_at:
            self._stamps, self._check_at = stamps, now + _CHECK
            found = detail(self._opened.job, self._root)
            if found != self._last:
                self._last = found
                yield {"kind": "job", "detail": found}

    def _used(self) -> Iterator[Message]:
        """Yield what the ranks use, more rarely the more there are."""
        now = time.monotonic()
        if now >= self._machine_at:
            self._machine_at = now + max(_MACHINE, self._machine.ranks / _RANKS)
            found = self._machine.read()
            if found is not None:
                yield found


class SummaryTopic:
    """The summary of a job."""

    every = INTERVAL

    def __init__(self, key: str, root: Path | None) -> None:
        self._opened = OpenedJob(key)
        self._reader = SummaryReader(self._opened.job, root)
        self._last: JobSummary | None = None

    def look(self) -> Iterator[Message]:
        """Yield it if it has changed."""
        self._opened.check()
        found = self._reader.read()
        if found != self._last:
            self._last = found
            yield {"kind": "summary", "summary": found}
