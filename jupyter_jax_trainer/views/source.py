"""What a job has printed and displayed, in its order; and what shows it."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_jax_trainer.datatypes import MimeBundle
from jupyter_jax_trainer.jobdir.files import LineReader, open_regular
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.records import Display
from jupyter_jax_trainer.jobdir.state import JobState, Snapshot
from jupyter_jax_trainer.logs.reader import LogReader, is_noise
from jupyter_jax_trainer.states import ENDED, Phase
from jupyter_jax_trainer.trust.policy import harmless
from jupyter_jax_trainer.views.card import Facts
from jupyter_jax_trainer.worker.exceptions import STOPPED_LINE

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.job import Job

_HOLD = 1.0  # seconds for which a traceback waits that may be the last word of the job
_TAIL = 1 << 16  # bytes at the end of the log among which it is looked for
_STOPPED = STOPPED_LINE.encode()
_LAST_WORDS = re.compile(
    rb"^(?:.*Traceback \(most recent call last\):|%s)$" % _STOPPED, re.MULTILINE
)


class Sink(Protocol):
    """Takes what a job prints and displays."""

    def log(self, lines: list[bytes], unfinished: bytes) -> None:
        """Show new lines, and the line that is being written (a progress bar, say)."""

    def show(self, data: MimeBundle, metadata: MimeBundle, name: str | None, update: bool) -> None:
        """Show what was displayed; an update replaces what was displayed under this name."""


class View(Sink, Protocol):
    """Shows one job."""

    def begin(self, facts: Facts, snapshot: Snapshot, job: Job | None = None) -> None:
        """Show at once what the job is; called again, with the job, when there is one."""

    def status(self, snapshot: Snapshot, note: str | None) -> None:
        """Show the state; called often, with the same state, too."""

    def close(self, snapshot: Snapshot, note: str | None) -> None:
        """Show the last of it, when the job has ended or the view is left."""


class Source:
    """What a rank of a job has printed and displayed since the last look, in its order."""

    def __init__(self, job: Job, rank: int = 0) -> None:
        directory = JobDir(job.directory)
        self._job, self._rank = job, rank
        self._path = directory.log(rank)
        self._log = LogReader(self._path)
        self._displays = LineReader[Display](directory.displays)
        self._index = LineReader[list[Any]](directory.log_index)
        self._indexed = 0
        self._before = deque([(-math.inf, 0)])  # how much was indexed, and when

    def pump(self, view: Sink, snapshot: JobState) -> None:
        """Give to `view` what is new.

        The traceback of the failure is left out where it is the rank's last word: the error that
        ends the cell has it.
        """
        last = snapshot["state"] in ENDED
        end = self._end(snapshot) if last else self._hold(self._settled(), snapshot)
        for entry in self._displays.read():
            if entry.get("rank", 0) != self._rank:
                continue
            data, metadata = entry["data"], entry["metadata"]
            if not self._job.trusted:
                data, metadata = harmless(data), {}
            name, update = entry.get("id"), entry.get("update") is True
            # A figure belongs after the lines that were printed before it.
            self._print(view, entry["log_offset"])
            if not update:
                view.log(self._log.finish(), b"")
            view.show(data, metadata, name if isinstance(name, str) else None, update)
        self._print(view, end)
        if last:
            view.log(self._log.finish(), b"")

    def _settled(self) -> int:
        """Return the offset in the log up to which every display is known."""
        for row in self._index.read():
            if row[:1] == [self._rank] and row[1:2]:
                self._indexed = max(self._indexed, int(row[1]))
        now = time.monotonic()
        self._before.append((now, self._indexed))
        while self._before[1][0] <= now - _HOLD:
            self._before.popleft()
        return self._indexed

    def _hold(self, end: int, snapshot: JobState) -> int:
        """Return where something begins that may be the last word of the rank, else `end`.

        From there on lines come a moment later, and only at the end when it has failed.
        """
        start = max(self._log.offset, end - _TAIL)
        found = _LAST_WORDS.search(self._read(start, end))
        if found is None:
            return end
        place = start + found.start()
        ended = any(
            rank["rank"] == self._rank and rank["state"] in (Phase.FAILED, Phase.STOPPED)
            for rank in snapshot["ranks"]
        )
        return place if ended else max(place, self._before[0][1])

    def _end(self, snapshot: JobState) -> int | None:
        """Return where the job's failure begins, if it is the rank's last output; else None.

        Ranks often fail alike, so it may be another rank that was the first.
        """
        failure = snapshot["failure"]
        if failure is None or failure["error"] is None or not failure["error"]["traceback"]:
            return None
        text = failure["error"]["traceback"]
        words = text.encode(errors="backslashreplace")
        size = self._size()
        start = max(0, size - len(words) - _TAIL)
        data = self._read(start, size)
        # It may stand behind a line that was left open, as by input().
        same = re.compile(rb"(?:%s|^%s)\n" % (re.escape(words), _STOPPED), re.MULTILINE)
        for found in same.finditer(data):
            if all(map(is_noise, data[found.end() :].splitlines())):
                return start + found.start()
        return None

    def _size(self) -> int:
        with contextlib.suppress(OSError):
            return self._path.stat().st_size
        return 0

    def _read(self, start: int, end: int) -> bytes:
        with contextlib.suppress(OSError), open_regular(self._path) as file:
            file.seek(start)
            return file.read(max(0, end - start))
        return b""

    def _print(self, view: Sink, end: int | None) -> None:
        for lines in self._log.read(end):
            view.log(lines, b"")
        view.log([], self._log.unfinished)
