"""Ranks grouped by where they are, the odd ones first: those that the others may be waiting for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.channel.protocol import RankPlace
from jupyter_jax_trainer.jobdir.state import RankState
from jupyter_jax_trainer.messages import Text, jobs
from jupyter_jax_trainer.messages import channel as say
from jupyter_jax_trainer.states import Phase
from jupyter_jax_trainer.text import joined, ranks_text
from jupyter_jax_trainer.worker.records import Position

_ASKABLE = (Phase.ARRIVED, Phase.JOINED, Phase.RUNNING)
AGAIN = 2  # intervals after which a rank that says nothing is taken to have got on


def placed(rank: int, state: Phase, where: Position | None) -> RankPlace:
    """Return where a rank is, in a state, by what it has answered; None where it has not."""
    if where is None:
        return RankPlace(rank=rank, state=str(state))
    return RankPlace(
        rank=rank,
        state=str(state),
        cell=where["cell"],
        line=where["cell_line"],
        call=where["doing"],
        frame=where["frame"],
        seconds=where["seconds"],
        answered=True,
    )


def rank_place(rank: RankState, now: float, why: str | None = None) -> RankPlace:
    """Return the place of a rank that can't be asked, if it reported one a moment ago.

    Parameters
    ----------
    rank
        What is known of it.
    now
        The time.
    why
        The reason, which matters only while there is a process that could be asked.
    """
    where, state = rank.get("where"), rank["state"]
    age = 0.0 if where is None else now - where["time"]
    # It says so again and again while it stays there.
    if state != Phase.RUNNING or age > AGAIN * timeouts.WHERE.seconds:
        where = None
    place = placed(rank["rank"], state, where)
    seconds = None if place.seconds is None else place.seconds + age
    return replace(place, seconds=seconds, unasked=why if state in _ASKABLE else None)


def notes(places: Sequence[RankPlace]) -> list[Text]:
    """Say which ranks could not be asked, once for each reason."""
    return [say.UNASKED(ranks=ranks, reason=reason) for reason, ranks in unasked(places).items()]


def unasked(places: Sequence[RankPlace]) -> dict[str, str]:
    """Return which ranks could not be asked, in words, by the reason."""
    found: dict[str, list[int]] = {}
    for one in places:
        if one.unasked is not None:
            found.setdefault(one.unasked, []).append(one.rank)
    return {
        reason: say.ALL_RANKS() if len(ranks) == len(places) > 1 else ranks_text(ranks)
        for reason, ranks in found.items()
    }


@dataclass(frozen=True)
class Group:
    """Ranks that are in one place.

    Attributes
    ----------
    places
        What is known of each.
    """

    places: Sequence[RankPlace]

    @property
    def ranks(self) -> list[int]:
        """Their numbers."""
        return [one.rank for one in self.places]

    @property
    def first(self) -> RankPlace:
        """One of them: they are all in the same place."""
        return self.places[0]

    @property
    def is_silent(self) -> bool:
        """Whether they were asked and have not answered."""
        return not self.first.answered and self.first.process is not None

    @property
    def where(self) -> str:
        """Where they are, in words: ``Cell 3 line 12 in psum, model.py:40 in loss``."""
        one = self.first
        if not one.answered:
            return f"{one.state}, {say.NO_ANSWER()}" if self.is_silent else one.state
        if one.line is None:
            place = one.state
        else:
            place = jobs.CELL_LINE(cell=one.cell, line=one.line)
            if one.call is not None:
                place = say.IN_CALL(line=place, call=one.call)
        return place if one.frame is None else f"{place}, {one.frame}"

    @property
    def process(self) -> str | None:
        """What the system says of their processes."""
        found = sorted({one.process for one in self.places if one.process is not None})
        return joined(found) or None

    @property
    def memory(self) -> int | None:
        """The most memory that one of them uses, in bytes."""
        return max((one.memory for one in self.places if one.memory is not None), default=None)

    @property
    def seconds(self) -> float | None:
        """How long the first of them to come there has been there."""
        return max((one.seconds for one in self.places if one.seconds is not None), default=None)


def grouped(places: Iterable[RankPlace]) -> list[Group]:
    """Group ranks by place: small groups first, of these the silent, then who is there longest.

    Parameters
    ----------
    places
        Of each rank, in order.
    """
    found: dict[tuple[object, ...], list[RankPlace]] = {}
    for one in places:
        place = (one.state, one.answered, one.cell, one.line, one.call, one.frame)
        found.setdefault(place, []).append(one)
    groups = [Group(ranks) for ranks in found.values()]
    return sorted(
        groups,
        key=lambda group: (len(group.places), not group.is_silent, -(group.seconds or 0.0)),
    )
