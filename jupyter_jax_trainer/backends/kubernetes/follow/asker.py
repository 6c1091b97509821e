"""Asks the ranks of one job through its channel, and says what they can't be asked for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, Unreachable
from jupyter_jax_trainer.backends.kubernetes.follow.line import (
    Line,
    Reach,
    Refused,
    Target,
    owner_of,
)
from jupyter_jax_trainer.backends.kubernetes.follow.ownership import Ownership
from jupyter_jax_trainer.channel.places import placed, rank_place
from jupyter_jax_trainer.channel.protocol import RankPlace
from jupyter_jax_trainer.jobdir.state import RankState
from jupyter_jax_trainer.log import log
from jupyter_jax_trainer.messages import channel as say
from jupyter_jax_trainer.worker.records import Whereabouts

_AGAIN = 10.0  # seconds after which a failed take-over is tried again


class Asker:
    """Asks the ranks of a job.

    Parameters
    ----------
    client
        The cluster.
    look
        Gives how they can be asked, and what is known of them; called in other threads.
    ownership
        Whether this store is the one that may ask.
    """

    def __init__(self, client: Client, look: Callable[[], Reach], ownership: Ownership) -> None:
        self._line = Line(client, owner_of(ownership.epoch))
        self._look = look
        self._ownership = ownership
        self._taking: threading.Thread | None = None
        self._not_before = 0.0
        self._said: str | None = None

    def places(self) -> list[RankPlace]:
        """Return where ranks are: by their answers, or else by what they have said unasked."""
        reach = self._look()
        found: dict[int, Whereabouts] = {}
        why = reach.barrier
        if reach.target is not None:
            found, why = self._ask(reach.target)
            self._log(reach.target, why)
        now = time.time()
        return [
            _place(rank, found.get(rank["rank"]), why or _missing(reach.target, rank), now)
            for rank in reach.ranks
        ]

    def tick(self) -> None:
        """Keep the line open while it is needed, and take over where the user wants it."""
        self._line.keep()
        busy = self._taking is not None and self._taking.is_alive()
        if not busy and time.monotonic() > self._not_before and self._ownership.is_wanted:
            self._taking = threading.Thread(target=self._take_over, name="take-over", daemon=True)
            self._taking.start()

    def close(self) -> None:
        """Close the line."""
        self._line.close()

    def _ask(self, target: Target) -> tuple[dict[int, Whereabouts], str | None]:
        """Ask the ranks, unless the pods answer to another store; or return why that failed."""
        epoch, refusal = self._ownership.epoch, self._ownership.refusal
        if refusal is not None:
            return {}, refusal
        try:
            return {one["rank"]: one for one in self._line.where(target)}, None
        except Refused as refused:
            self._ownership.note_refusal(refused, epoch)
            return {}, self._ownership.refusal or str(refused)
        except (OSError, ApiError, Unreachable) as error:
            return {}, _reason(error)

    def _take_over(self) -> None:
        target = self._look().target
        if target is None:
            return  # there are no pods yet
        try:
            self._ownership.take_over(self._line, target)
        except (OSError, ApiError, Unreachable) as error:
            self._not_before = time.monotonic() + _AGAIN
            self._log(target, _reason(error))
        else:
            log("info", f"has taken over the channel to {target.pod}")

    def _log(self, target: Target, why: str | None) -> None:
        """Log what is wrong, once."""
        if why is not None and why != self._said:
            log("warning", f"the channel to {target.pod}: {why}")
        self._said = why


def _reason(error: OSError | ApiError | Unreachable) -> str:
    """Say why no rank could be asked."""
    if isinstance(error, ApiError) and error.status == 403:
        return say.NO_RIGHT(right=f"{error.verb} {error.resource}")
    if isinstance(error, OSError):
        return say.FAILED(error=error)
    return say.NO_FORWARD(error=error.message if isinstance(error, ApiError) else error)


def _missing(target: Target | None, rank: RankState) -> str | None:
    """Say why one rank could not be asked, though the first pod answers."""
    if target is None or not rank["rank"]:
        return None
    address = target.addresses.get(rank["rank"])
    return say.NOT_LISTENING() if address is None else say.NO_WAY_THERE(port=address[1])


def _place(rank: RankState, found: Whereabouts | None, why: str | None, now: float) -> RankPlace:
    if found is None or (found["where"] is None and found["process"] is None):
        return rank_place(rank, now, why)
    place = placed(rank["rank"], rank["state"], found["where"])
    return replace(place, process=found["process"], memory=found["memory"])
