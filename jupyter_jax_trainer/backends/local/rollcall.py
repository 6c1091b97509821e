"""Where the ranks of a job are: all are asked at once, and those who asked get one answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.local.ranks import LocalRank
from jupyter_jax_trainer.channel.listener import Asked
from jupyter_jax_trainer.channel.places import placed
from jupyter_jax_trainer.channel.protocol import RankPlace


class RollCall:
    """An open question to all ranks, and the requests that wait for its answer."""

    def __init__(self) -> None:
        self._waiting: list[Asked] = []
        self._began: float | None = None

    def ask(self, ranks: Sequence[LocalRank], asked: Asked | None = None) -> None:
        """Ask the ranks where they are, unless they are being asked.

        Parameters
        ----------
        asked
            A request that gets the answer.
        """
        if asked is not None:
            self._waiting.append(asked)
        if self._began is None:
            self._began = time.monotonic()
            for rank in ranks:
                rank.where = None
                rank.tell(kind="where")

    def is_over(self, ranks: Sequence[LocalRank]) -> bool:
        """Return whether the roll call is over, by answers or time; if so, send the answers out."""
        if self._began is None:
            return True
        silent = [rank for rank in ranks if not (rank.gone or rank.end.finished or rank.where)]
        if silent and time.monotonic() - self._began < timeouts.LAST_WORDS.seconds:
            return False
        self._began = None
        places = [_place(rank) for rank in ranks]
        for asked in self._waiting:
            asked.answer(places)
        self._waiting.clear()
        return True


def _place(rank: LocalRank) -> RankPlace:
    from jupyter_jax_trainer.worker.whereabouts import look_at  # no job's start waits for it

    process, memory = (None, None) if rank.gone else look_at(rank.process.pid)
    place = placed(rank.number, rank.state, rank.where)
    return replace(place, process=process, memory=memory)
