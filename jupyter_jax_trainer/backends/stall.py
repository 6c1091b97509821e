"""Notices ranks that wait in a collective for others that have ended the cell without it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.worker.records import Position

_AGAIN = 5.0  # seconds between questions to the ranks where they are


class StallWatch:
    """For how long all ranks that have not ended a cell have waited for those that have."""

    def __init__(self) -> None:
        self._limit = timeouts.COLLECTIVE.seconds
        self._since: float | None = None
        self._ask_at = 0.0

    @property
    def limit(self) -> float:
        """How long they may, in seconds."""
        return self._limit

    def asks(self, ended: int, ranks: int) -> bool:
        """Return whether it is time to ask the ranks where they are.

        Parameters
        ----------
        ended, ranks
            How many have ended the cell, of how many.
        """
        if not 0 < ended < ranks:
            self._since = None
            return False
        now = time.monotonic()
        if now < self._ask_at:
            return False
        self._ask_at = now + min(_AGAIN, self._limit / 4)
        return True

    def take(self, others: Sequence[Position | None]) -> float | None:
        """Take note of the answers of the ranks that have not ended; one that is silent gives None.

        Returns
        -------
        float or None
            For how many seconds all of them have waited, if they still do when asked again: a rank
            may be about to end the cell. None where one does not wait, or none is left.
        """
        if not others or not all(one is not None and one.get("waits") for one in others):
            self._since = None
            return None
        now = time.monotonic()
        if self._since is None:
            self._since = now
            return None
        return now - self._since
