"""Time bounds that scale with the machine: longer where it is slower or busier than the reference.

On the reference machine, idle or running all tests, each bound is as written.
"""

from __future__ import annotations

import os
import time

TURNS = 5_000_000
TAKES_S = 0.3  # of CPU time for as many turns, on the reference machine
BUSY = 3.0  # load per core while all tests run there
MOST = 10.0


def slowness() -> float:
    """Return how many times longer things take now than on the reference machine: 1 to `MOST`.

    The speed of a core is measured in CPU time, so that other processes count only as load.
    """
    began = time.process_time()
    for _ in range(TURNS):
        pass
    slower = max((time.process_time() - began) / TAKES_S, 1.0)
    busier = max(os.getloadavg()[0] / ((os.cpu_count() or 1) * BUSY), 1.0)
    return min(slower * busier, MOST)


def within(took: float, seconds: float) -> bool:
    """Return whether something took less than a bound."""
    return took < seconds or took < seconds * slowness()


class Deadline:
    """How long a test waits.

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
