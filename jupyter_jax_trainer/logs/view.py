"""Which lines of a log book a page shows, and where the first error is among them."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Collection, Iterable

from jupyter_jax_trainer.logs.book import PAGE, SHOWN, Line, LogBook
from jupyter_jax_trainer.logs.intervals import Runs
from jupyter_jax_trainer.logs.patterns import Pattern, visible
from jupyter_jax_trainer.logs.reader import is_noise
from jupyter_jax_trainer.logs.span import Merged, Span

BLOCKS = 8  # that are read at once, so that each log is opened once for all of them
# What chatter can begin with: found many times faster than by asking each line. `is_noise` decides.
_PERHAPS_NOISE = re.compile(
    rb"\n(?:\[Gloo\]|\d* is connected to |[IW]\d{4} |WARNING: All|Additional GRPC|:(?:CANC|UNAV)"
    rb"|=== Source Loc|external/xla|Current alloc)"
)
FEW = 100  # lines that a filter takes from so many blocks, which are kept as they were found
KEPT = 8 << 20  # bytes of lines that are kept
_SET = re.compile(rb"\x01+")


class LogView:
    """Some lines of a book, numbered from 0.

    It fills as `advance` is called; lines that it has keep their numbers while the log grows. All
    methods can be called from any thread.

    Parameters
    ----------
    book
        The lines.
    include, exclude
        What lines must match, and must not match.
    raw
        Show the chatter of libraries, too.
    sources
        Whose lines; None for all in the book.
    """

    def __init__(
        self,
        book: LogBook,
        include: Pattern | None = None,
        exclude: Pattern | None = None,
        raw: bool = False,
        sources: Collection[int | str] | None = None,
    ) -> None:
        self.book = book
        self._include = include
        self._exclude = exclude
        self._raw = raw
        self._slots: set[int] | None = None
        if sources is not None and not set(book.sources) <= set(sources):
            self._slots = {n for n, source in enumerate(book.sources) if source in sources}
        self._plain = raw and include is None and exclude is None and self._slots is None
        self._lock = threading.Lock()
        self._kept = Runs()
        self._scanned = 0
        self._likely = False
        # A page of lines that are far apart would have to read a block for each of them.
        self._found: dict[int, Line] = {}
        self._room = KEPT

    @property
    def length(self) -> int:
        """How many lines it has so far."""
        return self.book.length if self._plain else len(self._kept)

    @property
    def scanned(self) -> int:
        """Up to which position it is known which lines it has."""
        return self.book.length if self._plain else self._scanned

    @property
    def complete(self) -> bool:
        """Whether it has looked at all lines of the book."""
        return self.scanned >= self.book.length

    def advance(self, seconds: float = math.inf) -> bool:
        """Look at lines for some time; give `complete`. It does a little even in no time."""
        until = time.monotonic() + seconds
        with self._lock:
            while not self.complete:
                span = self.book.span(self._scanned, BLOCKS)
                for begin, end in self._choose(span):
                    self._kept.append(max(span.first + begin, self._scanned), span.first + end)
                self._scanned = span.end
                if time.monotonic() >= until:
                    break
        return self.complete

    def lines(self, start: int, count: int, most: int = SHOWN) -> list[Line]:
        """Return lines by their number here; `most` is how many bytes of each."""
        if self._plain:
            return self.book.lines(start, count, most)
        found: list[Line] = []
        for begin, end in self._kept.part(start, min(count, PAGE)):
            known = self._found.get(begin) if end == begin + 1 and most == SHOWN else None
            found += [known] if known else self.book.lines(begin, end - begin, most)
        return found

    def index(self, position: int) -> int:
        """Return the number of the first line at a position or after it."""
        return min(max(0, position), self.length) if self._plain else self._kept.below(position)

    def within(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return the positions of its lines from `begin` up to `end`, as begin and end of runs."""
        end = min(end, self.scanned)
        if self._plain:
            return [(begin, end)] if begin < end else []
        return self._kept.within(begin, end)

    def among(self, runs: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
        """Return the positions of its lines among those of some runs, all scanned before."""
        if self._plain:
            return runs
        kept = self._kept
        return (part for first, last in runs if first < last for part in kept.within(first, last))

    def _choose(self, span: Span) -> Iterable[tuple[int, int]]:
        """Return the lines to show, as runs of numbers in the span."""
        if self._slots is None and not self._likely:
            # Most spans are shown or left out as a whole: for that their order does not matter.
            text = span.unordered()
            seen = visible(text) if self._include or self._exclude else b""
            if self._include and not self._include.any(seen):
                return []
            excluded = self._exclude is not None and self._exclude.any(seen)
            noisy = not self._raw and _PERHAPS_NOISE.search(b"\n" + text) is not None
            if not (self._include or excluded or noisy):
                return [(0, span.count)]
        merged = span.merged(times=self._include is not None)
        flags = self._flags(merged, span.count)
        kept = flags.bit_count()
        # Where a filter takes and leaves lines of one span, it will of the next one, too.
        self._likely = 0 < kept < span.count
        runs = [run.span() for run in _SET.finditer(flags.to_bytes(span.count, "little"))]
        if self._include is not None and kept <= FEW:
            for begin, end in runs:
                self._keep(self.book.lines_of(span, merged, span.first + begin, span.first + end))
        return runs

    def _keep(self, lines: list[Line]) -> None:
        if self._room > 0:
            self._found.update((line.position, line) for line in lines)
            self._room -= sum(len(line.text) + 300 for line in lines)

    def _flags(self, merged: Merged, count: int) -> int:
        """Return a byte for each line, 1 to show it, as one number: that is fast to reckon with."""
        flags = _bytes([(0, count)], count)
        if self._slots is not None:
            begins = [0, *merged.ends]
            # Lost lines have no source, and may be from one of these.
            ours = (n for n, slot in enumerate(merged.slots) if slot is None or slot in self._slots)
            flags &= _bytes(((begins[n], merged.ends[n]) for n in ours), count)
        if self._include or self._exclude:
            text = visible(merged.text)
            if self._include:
                flags &= _bytes(self._include.runs(text), count)
            if self._exclude:
                flags &= ~_bytes(self._exclude.runs(text), count)
        if not self._raw:
            flags &= ~_bytes(_noise(merged.text), count)
        return flags


def _bytes(runs: Iterable[tuple[int, int]], count: int) -> int:
    flags = bytearray(count)
    for begin, end in runs:
        flags[begin:end] = b"\1" * (end - begin)
    return int.from_bytes(flags, "little")


def _noise(text: bytes) -> Iterable[tuple[int, int]]:
    """Yield the lines that are chatter."""
    text = b"\n" + text
    line, before = 0, 0
    for found in _PERHAPS_NOISE.finditer(text):
        begin = found.start() + 1
        line += text.count(b"\n", before, begin) if before else text.count(b"\n", 1, begin)
        before = begin
        if is_noise(text[begin : text.find(b"\n", begin)]):
            yield line, line + 1
