"""Pods of a session that are told to end: what its ranks hold is saved before.

All ranks hear of it, whichever pod it is, and agree how far they go: to the end of the last cell
that one of them has begun; or, of one that runs, to a report at which all stop. A cell that does
not report is not waited for.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypedDict

from jupyter_jax_trainer.worker import rendezvous, timeouts
from jupyter_jax_trainer.worker.reporting import Reporter


class _Place(TypedDict):
    """How far a rank has come: its last cell, and how many reports that made; None if it ended."""

    cell: int
    reports: int | None


class Notice:
    """The notice that a pod is about to end, as a rank takes it.

    Parameters
    ----------
    rank, nodes
        This rank, of how many.
    reporter
        That of the process.
    wake
        Has the main thread look at `due`.

    Attributes
    ----------
    stops
        The cell that runs is stopped at a report.
    """

    def __init__(self, rank: int, nodes: int, reporter: Reporter, wake: Callable[[], None]) -> None:
        self.stops = False
        self._rank, self._nodes = rank, nodes
        self._reporter, self._wake = reporter, wake
        self._lock = threading.Lock()
        self._given = self._runs = False
        self._begun = self._done = 0  # cells
        self._last: int | None = None  # cell that is to end
        self._decided, self._over = threading.Event(), threading.Event()
        rendezvous.watch_notice(self._take)

    # -- in the thread that has it from the system -------------------------------------------

    def give(self) -> None:
        """Tell all ranks, and return when they have saved what they hold, or it takes too long."""
        rendezvous.give_notice()
        threading.Thread(target=self._take, name="jaxtrain-notice", daemon=True).start()
        self._over.wait(timeouts.NOTICE.seconds)

    def _take(self) -> None:
        """Agree with the other ranks how far they go; it is done once."""
        with self._lock:
            if self._given:
                return
            self._given = True
            reports = self._reporter.hold() if self._runs else None
            own: _Place = {"cell": self._begun, "reports": reports}
        places = rendezvous.share("notice", self._rank, self._nodes, own)
        cells = {place["cell"] for place in places}
        made = [place["reports"] for place in places]
        counts = [number for number in made if number]
        if all(number is None for number in made):
            self._last = max(cells)
        elif len(counts) == len(made) and len(cells) == 1:
            self._last, self.stops = max(cells), True
        self._reporter.stop_at(1 + max(counts) if self.stops else sys.maxsize)
        self._decided.set()
        if self._last is None:
            self._over.set()
        self._wake()

    # -- in the main thread ------------------------------------------------------------------

    def may_begin(self, number: int) -> bool:
        """Note that a cell begins, unless the ranks go no further."""
        with self._lock:
            if not self._given:
                self._begun, self._runs = number, True
                return True
        self._decided.wait()
        return self._last is None or number <= self._last

    def note_end(self) -> None:
        """Note that the cell makes no more reports."""
        with self._lock:
            self._runs = False

    def note_done(self, number: int) -> None:
        """Note that all ranks have ended a cell, or have stopped in it."""
        self._done = number

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return self._last is not None and self._done >= self._last and not self._over.is_set()

    def end(self) -> None:
        """Note that it was saved, or can't be."""
        self._over.set()
