"""Bounds in seconds hold on a machine that keeps pace: where it is slower or busier, they are longer.

A bound stays what it is on the machine it was set on, idle or as busy as a run of all tests makes that.
"""

from __future__ import annotations

import os
import time

TURNS = 5_000_000
TAKES_S = 0.3  # for as many turns, on that machine when idle
BUSY = 3.0  # processes that run or wait for each core while all tests run there
MOST = 10.0


def slowness() -> float:
    """Measure how many times as long as there things take here and now: 1 to `MOST`.

    It counts how long Python takes, and how many processes have run or waited in the last minute:
    what a test waits for often has several, one after the other.
    """
    began = time.perf_counter()
    for _ in range(TURNS):
        pass
    slower = max((time.perf_counter() - began) / TAKES_S, 1.0)
    busier = max(os.getloadavg()[0] / ((os.cpu_count() or 1) * BUSY), 1.0)
    return min(slower * busier, MOST)


def within(took: float, seconds: float) -> bool:
    """Return whether something took less than a bound."""
    return took < seconds or took < seconds * slowness()


class Deadline:
    """The time until which a test waits.

    Parameters
    ----------
    seconds
        From now; the machine is measured once, and only when they have passed.
    """

    def __init__(self, seconds: float) -> None:
        self._began, self._seconds, self._factor = time.monotonic(), seconds, 0.0

    @property
    def left(self) -> float:
        """The seconds that are left; 0 once it has passed."""
        passed = time.monotonic() - self._began
        if passed >= self._seconds and not self._factor:
            self._factor = slowness()
        return max(0.0, self._seconds * (self._factor or 1.0) - passed)

    @property
    def passed(self) -> bool:
        """Whether it has passed."""
        return not self.left
