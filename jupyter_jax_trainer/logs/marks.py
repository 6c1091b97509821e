"""Count the lines of a merged log, and set marks in it.

A mark says how far each log was read there. There is one for about every megabyte, so that a
million lines need some kilobytes, and the lines between two marks are read quickly.
"""

from __future__ import annotations

import contextlib
import io
import math
import threading
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from jupyter_jax_trainer.jobdir.files import open_regular
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.logs import logfiles
from jupyter_jax_trainer.logs.index import IndexParser, Rows
from jupyter_jax_trainer.logs.span import Span

BLOCK_TEXT = 1 << 20  # bytes of logs between two marks
BLOCK_INDEX = 128 << 10  # bytes of the index between two marks
_PART = 64 << 10  # bytes of the index that are read at once


class Marks:
    """The marks of the merged log of some sources.

    The order is that of `logs.MergedReader`: a line belongs to the piece of the index in which its
    newline is. All methods can be called from any thread.

    Parameters
    ----------
    directory
        The job.
    sources
        Whose logs, each once.

    Attributes
    ----------
    ended
        Whether `finish` was called: nothing more will come.
    begin
        Where the line begins in each log that is not finished.
    """

    def __init__(self, directory: JobDir, sources: Sequence[int | str]) -> None:
        self.ended = False
        self.paths = [directory.log(source) for source in sources]
        self._index = directory.log_index
        self._parser = IndexParser(sources)
        self._lock = threading.RLock()
        self._read = 0  # bytes of the index
        self._now = array("q", bytes(8 * len(sources)))  # how far each log was read
        self.begin = self._now[:]
        self._text = 0  # bytes of logs in the last block
        # Logs that had less than the index says. When they grow, a block begins, or else the new
        # bytes would be taken for those of the old line of the index when the block is read.
        self._short: set[int] = set()
        # Of each block: the mark at its begin, the lines of the index in it, and the latest time.
        self._low = [self._now[:]]
        self._begins = [self._now[:]]
        self._index_begin = array("q", [0])
        self._index_end = array("q", [0])
        self._latest = array("d", [-math.inf])
        self._first = array("q", [0, 0])  # the position of its first line; in the end, the length
        self._rest: int | None = None  # the first block that no index covers
        self._closed: dict[int, int] = {}

    @property
    def length(self) -> int:
        """How many lines there are."""
        return self._first[-1]

    def refresh(self, seconds: float = math.inf) -> bool:
        """Take in what the index has come to hold.

        Parameters
        ----------
        seconds
            After which to stop, for a log that is very long.

        Returns
        -------
        bool
            Whether all that was there was taken in.
        """
        until = time.monotonic() + seconds
        with self._lock:
            if self.ended:
                return True
            before, block = self._now[:], len(self._low) - 1
            limits = self._now.tolist()  # how much the files are known to have
            complete = True
            for part in self._parts():
                self._take(part, self._read, limits)
                self._read += len(part)
                if time.monotonic() > until:
                    complete = False
                    break
            if self._now != before or len(self._low) > block + 1:
                self._count(block, before)
            return complete

    def finish(self) -> None:
        """Take in what is left when no more will come: lines without an end, or an index."""
        with self._lock:
            if self.ended:
                return
            self.refresh()
            before, block = self._now[:], len(self._low) - 1
            self._seal(self._read)
            self._rest = len(self._low) - 1
            for slot, path in enumerate(self.paths):
                size, closed = logfiles.length(path)
                if not closed:
                    self._closed[slot] = size
                self._cover(slot, size if closed else size + 1, self._read, self._read)
            self._count(block, before)
            self.ended = True

    def span(self, position: int, blocks: int = 1) -> Span:
        """Return the block that a line is in, and some after it, to be read as a whole.

        Its last lines are those of now; lines that come later are in another span.
        """
        with self._lock:
            block = min(bisect_right(self._first, position), len(self._low)) - 1
            end = min(block + blocks, len(self._low))
            if self._rest is not None and block < self._rest:
                end = min(end, self._rest)
            covered = self._rest is None or block < self._rest
            return Span(
                paths=self.paths,
                index=self._index,
                parser=self._parser,
                low=self._low[block],
                high=self._low[end] if end < len(self._low) else self._now[:],
                begins=self._begins[block],
                index_begin=self._index_begin[block],
                index_end=self._index_end[end - 1] if covered else None,
                closed=self._closed,
                first=self._first[block],
                count=self._first[end] - self._first[block],
            )

    def block_at(self, moment: float) -> int:
        """Return the first position of the first block that has a time as late as this."""
        with self._lock:
            return self._first[bisect_left(self._latest, moment)]

    def _parts(self) -> Iterator[bytes]:
        """Yield what is new of the index, in parts that end with a line."""
        try:
            with open_regular(self._index) as file:
                want = _PART
                while True:
                    file.seek(self._read)
                    data = file.read(want)
                    end = data.rfind(b"\n") + 1
                    if end:
                        want = _PART
                        yield data[:end]
                    elif len(data) < want:
                        return
                    else:
                        want *= 4  # a damaged line without an end
        except OSError:
            return

    def _take(self, part: bytes, at: int, limits: list[int]) -> None:
        """Take in lines of the index; `at` is where they begin in it."""
        rows = self._parser.rows(part, times=False)
        tops = self._now.tolist()
        for slot, end in zip(rows.slots, rows.ends, strict=True):
            if end > tops[slot]:
                tops[slot] = end
        short = set()
        for slot, top in enumerate(tops):
            if top > limits[slot]:
                limits[slot] = max(limits[slot], logfiles.size(self.paths[slot]))
                if top > limits[slot]:
                    # What the index says, the file need not have: it may have been cut.
                    tops[slot] = limits[slot]
                    short.add(slot)
        added = sum(tops) - sum(self._now)
        grown = any(tops[slot] > self._now[slot] for slot in self._short)
        stop = at + len(part)
        if added <= BLOCK_TEXT:
            full = self._text + added > BLOCK_TEXT or stop - self._index_begin[-1] > BLOCK_INDEX
            if full or grown:
                self._seal(at)
            self._short |= short
            self._now = array("q", tops)
            self._text += added
            self._index_end[-1] = stop
            self._note_time(rows)
        elif (middle := part.rfind(b"\n", 0, -1) + 1) > 0:
            half = part.find(b"\n", len(part) // 2) + 1
            middle = half if half < len(part) else middle
            self._take(part[:middle], at, limits)
            self._take(part[middle:], at + middle, limits)
        else:
            if grown:
                self._seal(at)
            self._short |= short
            for slot, end in zip(rows.slots, rows.ends, strict=True):
                self._cover(slot, min(end, limits[slot]), at, stop)
            self._note_time(rows)

    def _cover(self, slot: int, end: int, at: int, stop: int) -> None:
        """Go on in one log, through as many blocks as it takes."""
        while self._now[slot] < end:
            if self._text >= BLOCK_TEXT:
                self._seal(at)
            step = min(end - self._now[slot], BLOCK_TEXT - self._text)
            self._now[slot] += step
            self._text += step
            self._index_end[-1] = stop

    def _seal(self, at: int) -> None:
        """Set a mark: a block begins."""
        self._low.append(self._now[:])
        self._begins.append(self.begin[:])
        self._index_begin.append(at)
        self._index_end.append(at)
        self._short.clear()
        self._latest.append(self._latest[-1])
        self._text = 0

    def _note_time(self, rows: Rows) -> None:
        self._latest[-1] = max(self._latest[-1], *filter(math.isfinite, rows.times), -math.inf)

    def _count(self, block: int, before: array[int]) -> None:
        """Count the lines from a block on; `before` says how far each log was counted.

        Each log is read from its begin to its end, which is faster than block by block.
        """
        marks = [*self._low[block + 1 :], self._now]
        begins = [*self._begins[block + 1 :], self.begin]
        counts = [self.length - self._first[block]] + [0] * (len(marks) - 1)
        for slot, known in enumerate(before):
            if self._now[slot] > known:
                self._count_log(slot, known, marks, begins, counts)
        first = self._first[: block + 1]
        for count in counts:
            first.append(first[-1] + count)
        self._first = first  # at once, since `length` is read without the lock

    def _count_log(
        self,
        slot: int,
        at: int,
        marks: list[array[int]],
        begins: list[array[int]],
        counts: list[int],
    ) -> None:
        begin = self.begin[slot]
        with contextlib.ExitStack() as stack:
            file: BinaryIO = io.BytesIO()
            with contextlib.suppress(OSError):
                file = stack.enter_context(open_regular(self.paths[slot], 256 << 10))
                file.seek(at)
            for block, mark in enumerate(marks):
                want = mark[slot] - at
                if want > 0:
                    data = logfiles.read(file, want)
                    if len(data) == want - 1 and at + len(data) == self._closed.get(slot):
                        data += b"\n"
                    if last := data.rfind(b"\n") + 1:
                        counts[block] += data.count(b"\n")
                        begin = at + last
                    at += len(data)
                if mark[slot] > at:  # the file was cut meanwhile
                    mark[slot] = at
                    self._short.add(slot)
                begins[block][slot] = begin
