"""All lines of some of a job's logs by their position in the merged order.

A book keeps no lines: it knows where they are (marks.py), and reads them from the files when
they are asked for. A position never changes.
"""

from __future__ import annotations

import math
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from jupyter_jax_trainer.jobdir.files import open_regular
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.logs.marks import Marks
from jupyter_jax_trainer.logs.span import GONE, Merged, Span

SHOWN = 4 << 10  # bytes of a line in a list
FULL = 1 << 20  # bytes of a line that is asked for alone
PAGE = 5_000  # lines that are given at once
OPEN = 4 << 10  # bytes of the end of a line that is not finished
BOOKS = 16  # books that are kept
_KEPT = 4  # blocks that are kept as they were read last


class Line(NamedTuple):
    """One line.

    Attributes
    ----------
    position
        Its number in the merged order, from 0.
    source
        Whose; None for a line that can't be read any more.
    time
        When it was seen, in seconds since the epoch, where the index knows.
    text
        Its bytes without its end, cut.
    size
        How many bytes it has in all.
    """

    position: int
    source: int | str | None
    time: float | None
    text: bytes
    size: int


class LogBook:
    """The lines of some logs of a job. All methods can be called from any thread.

    Parameters
    ----------
    directory
        The job.
    sources
        Whose logs: ranks, or names of other containers' logs.
    """

    def __init__(self, directory: JobDir, sources: Sequence[int | str]) -> None:
        self.directory = directory
        self.sources = tuple(dict.fromkeys(sources))
        self._marks = Marks(directory, self.sources)
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, int], Merged] = OrderedDict()

    @property
    def length(self) -> int:
        """How many lines there are."""
        return self._marks.length

    @property
    def ended(self) -> bool:
        """Whether `finish` was called: nothing more will come."""
        return self._marks.ended

    def refresh(self, seconds: float = math.inf) -> bool:
        """Take in what the index has come to hold; it costs next to nothing when that is nothing.

        Parameters
        ----------
        seconds
            After which to stop, for a log that is very long.

        Returns
        -------
        bool
            Whether all that was there was taken in.
        """
        return self._marks.refresh(seconds)

    def finish(self) -> None:
        """Take in what is left when no more will come: lines without an end, or an index."""
        self._marks.finish()

    def span(self, position: int, blocks: int = 1) -> Span:
        """Return the block that a line is in, and some after it, to be read as a whole."""
        return self._marks.span(position, blocks)

    def lines(self, start: int, count: int, most: int = SHOWN) -> list[Line]:
        """Return lines by position, those that exist.

        Parameters
        ----------
        start, count
            The first one, and how many; at most `PAGE` are given.
        most
            Bytes of each line that are given.
        """
        at = max(0, start)
        end = min(start + count, at + PAGE, self.length)
        found: list[Line] = []
        while at < end:
            span, merged = self._block(at)
            stop = min(end, span.end)
            found += self.lines_of(span, merged, at, stop, most)
            at = stop
        return found

    def lines_of(
        self, span: Span, merged: Merged, begin: int, end: int, most: int = SHOWN
    ) -> list[Line]:
        """Return the lines from one position up to another from a span that was read."""
        return [
            self._line(begin + number, merged, piece, nth, text, most)
            for number, (piece, nth, text) in enumerate(
                merged.lines(begin - span.first, end - span.first)
            )
        ]

    def line(self, position: int) -> Line | None:
        """Return one line, with up to `FULL` bytes of its text; None when there is no such line."""
        if not 0 <= position < self.length:
            return None
        span, merged = self._block(position)
        found = self.lines_of(span, merged, position, position + 1, FULL)[0]
        piece, nth, _ = merged.lines(position - span.first, position - span.first + 1)[0]
        slot = merged.slots[piece]
        if nth == 0 and piece in merged.long and slot is not None:
            begin = merged.long[piece][0]
            try:
                with open_regular(self._marks.paths[slot]) as file:
                    file.seek(begin)
                    return found._replace(text=file.read(min(FULL, found.size)))
            except OSError:
                return found._replace(text=GONE, size=len(GONE))
        return found

    def position_at(self, moment: float) -> int | None:
        """Return the first line that was seen at a time or later; None when there is none.

        Where times do not only grow, as on clusters whose clocks differ, it is a line nearby.
        """
        position = self._marks.block_at(moment)
        while position < self.length:
            span, merged = self._block(position)
            for piece, seen in enumerate(merged.times):
                if merged.pieces[piece] and seen is not None and seen >= moment:
                    return span.first + (merged.ends[piece - 1] if piece else 0)
            position = span.end
        return None

    def open(self) -> dict[int | str, bytes]:
        """Return what each log has after its last newline: the end of it, up to `OPEN` bytes.

        Whoever shows it leaves out what a carriage return has overwritten.
        """
        found: dict[int | str, bytes] = {}
        if self.ended:
            return found
        logs = zip(self.sources, self._marks.paths, self._marks.begin, strict=True)
        for source, path, begin in logs:
            try:
                size = os.lstat(path).st_size
                if size <= begin:
                    continue
                with open_regular(path) as file:
                    file.seek(max(begin, size - OPEN))
                    text = file.read(OPEN).rpartition(b"\n")[2]
            except OSError:
                continue
            if text:
                found[source] = text
        return found

    def _block(self, position: int) -> tuple[Span, Merged]:
        """Read the block of a line; a page asks for the same one again and again."""
        span = self.span(position)
        key = span.first, span.count
        with self._lock:
            merged = self._kept.pop(key, None)
        merged = merged or span.merged()
        with self._lock:
            self._kept[key] = merged
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return span, merged

    def _line(
        self, position: int, merged: Merged, piece: int, nth: int, text: bytes, most: int
    ) -> Line:
        size = len(text)
        if nth == 0 and piece in merged.long:
            size += merged.long[piece][1]
        if text.endswith(b"\r"):
            text, size = text[:-1], size - 1
        slot, seen = merged.slots[piece], merged.times[piece]
        source = None if slot is None else self.sources[slot]
        seen = seen if seen is not None and math.isfinite(seen) else None
        return Line(position, source, seen, text[:most], size)


class Books:
    """The books that are open: pages that show the same logs share one.

    Parameters
    ----------
    most
        How many are kept; the one that was not asked for longest goes first.
    """

    def __init__(self, most: int = BOOKS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._books: OrderedDict[tuple[object, ...], LogBook] = OrderedDict()

    def get(self, directory: JobDir, sources: Sequence[int | str]) -> LogBook:
        """Return the book of some logs of a job, a new one at first; `refresh` is the caller's."""
        try:
            # By its name alone, a job that was deleted and made again would be taken for the first.
            found = os.stat(directory.manifest)
            which: tuple[object, ...] = found.st_dev, found.st_ino, found.st_mtime_ns
        except OSError:
            which = ()
        key = (directory.path, tuple(sources), which)
        with self._lock:
            book = self._books.pop(key, None) or LogBook(directory, sources)
            self._books[key] = book
            while len(self._books) > self._most:
                self._books.popitem(last=False)
            return book


books = Books()
