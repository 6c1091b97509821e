"""Search a view: hits as they are found, those next to a line, and how many there are."""

from __future__ import annotations

import math
import threading
import time

from jupyter_jax_trainer.logs.intervals import Runs
from jupyter_jax_trainer.logs.patterns import Pattern, visible
from jupyter_jax_trainer.logs.span import Span
from jupyter_jax_trainer.logs.view import BLOCKS, LogView


class Search:
    """The lines of a view that match. All methods can be called from any thread.

    It begins a little before a position and goes on to the end, then from the begin to there: so
    the hits that a person sees next are found first. It goes on as the log grows.

    Parameters
    ----------
    view
        Where to search.
    pattern
        What for.
    start
        The position near which to begin.
    """

    def __init__(self, view: LogView, pattern: Pattern, start: int = 0) -> None:
        self.view = view
        self._pattern = pattern
        self._lock = threading.Lock()
        book = view.book
        here = book.span(min(max(0, start), book.length)).first
        self._start = book.span(max(0, here - 1)).first
        self._goal = book.length  # up to which it searches before it turns to the begin
        self._ahead, self._ahead_at = Runs(), self._start
        self._behind, self._behind_at = Runs(), 0
        self._likely = False
        self._blocks = 1  # to read at once: few at first, so that the first hits come soon

    @property
    def count(self) -> int:
        """How many hits there are so far; a line is one hit."""
        return len(self._behind) + len(self._ahead)

    @property
    def complete(self) -> bool:
        """Whether all lines of the book were searched."""
        searched = self._behind_at >= self._start and self._ahead_at >= self.view.book.length
        return searched and self.view.complete

    def advance(self, seconds: float = math.inf) -> bool:
        """Search for some time; give `complete`. It does a little even in no time.

        The first hit ends it sooner: somebody waits for that.
        """
        until, before = time.monotonic() + seconds, self.count
        while not self.complete:
            self.view.advance(max(0.0, until - time.monotonic()) / 2)
            with self._lock:
                moved = self._step()
            first = self.count > 0 == before and until < math.inf
            if time.monotonic() >= until or first or not moved:
                break
        return self.complete

    def near(self, position: int, count: int) -> list[int]:
        """Return up to `count` hits next to a position, half of them before it, in order."""
        number = self._below(position)
        begin = max(0, min(number - count // 2, self.count - count))
        return self._positions(begin, count)

    def next(self, position: int) -> int | None:
        """Return the first hit after a position, else the first of all; None without any."""
        return self._at(self._below(position + 1))

    def previous(self, position: int) -> int | None:
        """Return the last hit before a position, else the last of all; None without any."""
        return self._at(self._below(position) - 1)

    def before(self, position: int) -> int | None:
        """Return the last hit up to a position, as soon as no nearer one can be found."""
        found = self.previous(position + 1)
        if found is None or found > position or self._ahead_at <= position:
            return None
        return found if found >= self._start else None

    def number(self, position: int) -> int:
        """Tell the number of a hit among those that are known; the first one is 1."""
        return self._below(position) + 1

    def _step(self) -> bool:
        """Search some blocks; say whether there were any that the view knows."""
        known = self.view.scanned
        if self._ahead_at >= self._goal and self._behind_at >= self._start:
            self._goal = self.view.book.length
        if self._ahead_at < min(self._goal, known):
            span = self.view.book.span(self._ahead_at, self._blocks)
            self._find(span, self._ahead, self._ahead_at, end := min(span.end, known))
            self._ahead_at = end
        elif self._behind_at < min(self._start, known):
            span = self.view.book.span(self._behind_at, self._blocks)
            end = min(span.end, known, self._start)
            self._find(span, self._behind, self._behind_at, end)
            self._behind_at = end
        else:
            return False
        self._blocks = min(2 * self._blocks, BLOCKS)
        return True

    def _find(self, span: Span, hits: Runs, begin: int, end: int) -> None:
        # Without their order lines are read much faster; most spans have no hit.
        if not self._likely and not self._pattern.any(visible(span.unordered())):
            return
        runs = self._pattern.runs(visible(span.merged(times=False).text))
        found = [(span.first + first, span.first + last) for first, last in runs]
        self._likely = bool(found)
        if found and (found[0][0] < begin or found[-1][1] > end):
            found = [(max(begin, first), min(end, last)) for first, last in found]
        hits.extend(self.view.among(found))

    def _below(self, position: int) -> int:
        return self._behind.below(position) + self._ahead.below(position)

    def _at(self, number: int) -> int | None:
        """Return a hit by its number from 0; those before the first are counted from the end."""
        count = self.count
        found = self._positions(number % count, 1) if count else []
        return found[0] if found else None

    def _positions(self, begin: int, count: int) -> list[int]:
        behind = len(self._behind)
        runs = self._behind.part(begin, min(count, max(0, behind - begin)))
        runs += self._ahead.part(max(0, begin - behind), count - sum(b - a for a, b in runs))
        return [position for first, last in runs for position in range(first, last)]
