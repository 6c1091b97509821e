"""Numbers in ascending order, kept as runs: few bytes whether there are few of them or all."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable


class Runs:
    """Ascending numbers. One run takes 16 bytes, be it one number or a million in a row.

    All methods can be called from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first = array("q")  # the first number of each run
        self._before = array("q", [0])  # how many numbers come before each run, and in all

    def __len__(self) -> int:
        return self._before[-1]

    def append(self, begin: int, end: int) -> None:
        """Add the numbers from `begin` up to `end`; all that were added before are smaller."""
        self.extend([(begin, end)])

    def extend(self, runs: Iterable[tuple[int, int]]) -> None:
        """Add the numbers of runs, begin and end of each, in ascending order."""
        with self._lock:
            firsts, befores = self._first, self._before
            total = befores[-1]
            last = firsts[-1] + total - befores[-2] if firsts else None  # where the last run ends
            for begin, end in runs:
                if end <= begin:
                    continue
                total += end - begin
                if begin == last:
                    befores[-1] = total
                else:
                    firsts.append(begin)
                    befores.append(total)
                last = end

    def part(self, start: int, count: int) -> list[tuple[int, int]]:
        """Return `count` of the numbers from the `start`-th on, as runs: begin and end of each."""
        found: list[tuple[int, int]] = []
        with self._lock:
            stop = min(start + count, self._before[-1])
            start = max(0, start)
            run = bisect_right(self._before, start, 0, len(self._first)) - 1
            while start < stop:
                upto = min(stop, self._before[run + 1])
                shift = self._first[run] - self._before[run]
                found.append((start + shift, upto + shift))
                start, run = upto, run + 1
        return found

    def below(self, number: int) -> int:
        """Count the numbers that are smaller."""
        with self._lock:
            run = bisect_left(self._first, number) - 1
            if run < 0:
                return 0
            return min(self._before[run] + number - self._first[run], self._before[run + 1])

    def within(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return the numbers from `begin` up to `end`, as runs."""
        start = self.below(begin)
        return self.part(start, self.below(end) - start)
