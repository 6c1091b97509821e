"""Notices ranks that wait in vain: in a collective, or as they meet after the cell."""

from __future__ import annotations

import time
from collections.abc import Sequence

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.worker.records import Position

_AGAIN = 5.0  # seconds between questions to the ranks where they are
_LOOKS = 3  # that show the same


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


class MeetWatch:
    """Whether ranks that meet after a cell wait for each other in vain.

    They do if several looks in a row find each rank that has not met the others waiting, with
    nothing else to do. A rank that is merely slow is busy, or does not answer.
    """

    def __init__(self) -> None:
        self._pause = timeouts.AGREE.seconds / 8
        self._ask_at = 0.0
        self._found = 0

    @property
    def in_vain(self) -> bool:
        """Whether they do."""
        return self._found >= _LOOKS

    def begin(self) -> None:
        """Forget what was: they meet from now on, or were stopped meanwhile."""
        self._found, self._ask_at = 0, time.monotonic() + self._pause

    def asks(self) -> bool:
        """Return whether it is time to ask the ranks where they are."""
        now = time.monotonic()
        if now < self._ask_at:
            return False
        self._ask_at = now + self._pause
        return True

    def take(self, others: Sequence[Position | None]) -> None:
        """Take note of the answers of the ranks that have not met the others."""
        stand = all(one is not None and one.get("meets") for one in others)
        self._found = self._found + 1 if others and stand else 0
