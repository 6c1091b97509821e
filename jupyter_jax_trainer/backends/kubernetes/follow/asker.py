"""Asks the ranks of one job through its channel, and reports why they can't be asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeGuard

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, Unreachable
from jupyter_jax_trainer.backends.kubernetes.follow.line import (
    Line,
    Reach,
    Refused,
    Target,
    Unready,
    owner_of,
)
from jupyter_jax_trainer.backends.kubernetes.follow.ownership import Ownership
from jupyter_jax_trainer.channel.places import AGAIN, placed, rank_place, unasked
from jupyter_jax_trainer.channel.protocol import RankPlace
from jupyter_jax_trainer.jobdir.state import RankState
from jupyter_jax_trainer.log import log
from jupyter_jax_trainer.messages import channel as say
from jupyter_jax_trainer.worker.records import Position, Whereabouts

_PAUSE = 0.2  # seconds
_AGAIN = 10.0  # seconds after which a failed take-over is tried again
_LASTS = 10.0  # seconds before a channel counts as missing: a pod may have just gone
_SELDOM = 300.0  # seconds between looks for one that is missing for long
_UNKNOWN: Position = {
    "cell": "",
    "cell_line": None,
    "doing": None,
    "frame": None,
    "seconds": 0.0,
}


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
    on_lack
        Called with what keeps from ranks that run, if it lasts, and with None when that is over.
    """

    def __init__(
        self,
        client: Client,
        look: Callable[[], Reach],
        ownership: Ownership,
        on_lack: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self._line = Line(client, owner_of(ownership.epoch))
        self._look = look
        self._ownership = ownership
        self._on_lack = on_lack
        self._thread: threading.Thread | None = None
        self._not_before = 0.0
        self._said: str | None = None
        self._lack: str | None = None
        self._lacks_since: float | None = None
        self._look_again = 0.0

    def places(self) -> list[RankPlace]:
        """Return where ranks are: by their answers, or else by what they have said unasked."""
        reach = self._look()
        found: dict[int, Whereabouts] = {}
        why = reach.barrier
        if reach.target is not None:
            found, why = self._ask(reach.target)
            self._log(reach.target, why)
        now = time.time()
        places = [
            _place(rank, found.get(rank["rank"]), why or _missing(reach.target, rank), now)
            for rank in reach.ranks
        ]
        if reach.target is not None and self._ownership.refusal is None:
            self._note_lack(unasked(places))
        return places

    def profile(self, name: str, seconds: float) -> dict[int, str]:
        """Have all ranks profiled; return why that is not possible, by rank."""
        reach = self._look()
        found: set[int] = set()
        why = reach.barrier
        if reach.target is not None:
            found, why = self._profile(reach.target, name, seconds)
        lacking = [rank for rank in reach.ranks if rank["rank"] not in found]
        return {
            rank["rank"]: why or _missing(reach.target, rank) or say.NO_ANSWER() for rank in lacking
        }

    def _profile(self, target: Target, name: str, seconds: float) -> tuple[set[int], str | None]:
        """Have all ranks profiled; return those that can be reached, or why none can be."""
        epoch, until = self._ownership.epoch, time.monotonic() + timeouts.ANSWER.seconds
        while (refusal := self._ownership.refusal) is None:
            try:
                found = self._line.profile(target, name, seconds)
                return {one["rank"] for one in found if one["process"] is not None}, None
            except Unready as busy:  # somebody asks where they are
                if time.monotonic() > until:
                    return set(), reason_of(busy)
                time.sleep(_PAUSE)
            except Refused as refused:
                self._ownership.note_refusal(refused, epoch)
                return set(), self._ownership.refusal or str(refused)
            except (OSError, ApiError, Unreachable) as error:
                self._doubt()
                return set(), reason_of(error)
        return set(), refusal

    def positions(self) -> list[Position | None]:
        """Return where each rank is; None for one that does not answer.

        For a rank that can't be asked, it is the last report. A rank repeats that while it stays
        at a line; if it has not, it has moved on.
        """
        reach = self._look()
        found = {} if reach.target is None else self._ask(reach.target)[0]
        now = time.time()
        return [
            said["where"] if _is_known(said := found.get(rank["rank"])) else _heard(rank, now)
            for rank in reach.ranks
        ]

    def tick(self) -> None:
        """Keep the line open while it is needed, and take over where the user wants it."""
        self._line.keep()
        if self._thread is not None and self._thread.is_alive():
            return
        now = time.monotonic()
        if now > self._not_before and self._ownership.is_wanted:
            self._start(self._take_over, "take-over")
        elif self._lacks_since is not None and now > self._look_again:
            self._look_again = now + _LASTS
            self._start(self.places, "channel")

    def _start(self, do: Callable[[], object], name: str) -> None:
        self._thread = threading.Thread(target=do, name=name, daemon=True)
        self._thread.start()

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
            self._doubt()
            return {}, reason_of(error)

    def _note_lack(self, lacking: Mapping[str, str]) -> None:
        """Report why ranks can't be reached, once it has lasted a while; recheck until it is over.

        Parameters
        ----------
        lacking
            Which ranks, by the reason.
        """
        found: str | None = None
        if not lacking:
            self._lacks_since = None
        else:
            lasted = self._doubt()
            self._look_again = time.monotonic() + max(_LASTS, min(lasted, _SELDOM))
            if lasted < _LASTS:
                return
            reason, ranks = next(iter(lacking.items()))
            found = say.NO_CHANNEL_TO(ranks=ranks, reason=reason)
        if found != self._lack:
            self._lack = found
            self._on_lack(found)

    def _doubt(self) -> float:
        """Note that ranks can't be reached; return for how long."""
        now = time.monotonic()
        if self._lacks_since is None:
            self._lacks_since, self._look_again = now, now + _LASTS
        return now - self._lacks_since

    def _take_over(self) -> None:
        target = self._look().target
        if target is None:
            return  # there are no pods yet
        try:
            self._ownership.take_over(self._line, target)
        except (OSError, ApiError, Unreachable) as error:
            self._not_before = time.monotonic() + _AGAIN
            self._log(target, reason_of(error))
        else:
            log("info", f"has taken over the channel to {target.pod}")

    def _log(self, target: Target, why: str | None) -> None:
        """Log what is wrong, once."""
        if why is not None and why != self._said:
            log("warning", f"the channel to {target.pod}: {why}")
        self._said = why


def reason_of(error: OSError | ApiError | Unreachable) -> str:
    """Say why no rank could be asked."""
    if isinstance(error, ApiError) and error.status == 403:
        return say.NO_RIGHT(right=f"{error.verb} {error.resource}")
    if isinstance(error, Unready):
        return str(error)
    if isinstance(error, OSError):
        return say.FAILED(error=error)
    return say.NO_FORWARD(error=error.message if isinstance(error, ApiError) else error)


def _is_known(found: Whereabouts | None) -> TypeGuard[Whereabouts]:
    """Return whether the pod of a rank has said anything of it."""
    return found is not None and (found["where"] is not None or found["process"] is not None)


def _heard(rank: RankState, now: float) -> Position:
    """Return the last reported place of a rank that can't be asked, if recent by our clock."""
    where = rank.get("where")
    if where is None:
        return _UNKNOWN
    return where if now - where["time"] <= AGAIN * timeouts.WHERE.seconds else _UNKNOWN


def _missing(target: Target | None, rank: RankState) -> str | None:
    """Say why one rank could not be asked, though the first pod answers."""
    if target is None or not rank["rank"]:
        return None
    address = target.addresses.get(rank["rank"])
    return say.NOT_LISTENING() if address is None else say.NO_WAY_THERE(port=address[1])


def _place(rank: RankState, found: Whereabouts | None, why: str | None, now: float) -> RankPlace:
    if not _is_known(found):
        return rank_place(rank, now, why)
    place = placed(rank["rank"], rank["state"], found["where"])
    return replace(place, process=found["process"], memory=found["memory"])
