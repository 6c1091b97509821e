"""Parts of ``state.json`` as Python objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from jupyter_jax_trainer.jobdir.state import InitializerState, ProgressState, RankState
from jupyter_jax_trainer.states import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One process of a job; `exit` is its exit code, negative for a signal, None while it runs.

    On Kubernetes `host` is the node on which its `pod` runs.
    """

    rank: int
    pid: int | None = None
    state: Phase = Phase.WAITING
    exit: int | None = None
    restarts: int = 0
    host: str | None = None
    pod: str | None = None

    @classmethod
    def from_json(cls, entry: RankState) -> Self:
        """Read the form in ``state.json``; fields of later versions are left out."""
        return cls(**_known(cls, entry))


@dataclass(frozen=True, slots=True, kw_only=True)
class Initializer:
    """What fetches a data set or a model before the training begins; like a rank, with a name."""

    name: str
    state: Phase = Phase.STARTING
    exit: int | None = None
    restarts: int = 0
    host: str | None = None
    pod: str | None = None

    @classmethod
    def from_json(cls, entry: InitializerState) -> Self:
        """Read the form in ``state.json``; fields of later versions are left out."""
        return cls(**_known(cls, entry))


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What rank 0 reported last; `fraction` is between 0 and 1, or None without a total."""

    step: int
    total: int | None
    fraction: float | None
    metrics: dict[str, float]
    time: float

    @classmethod
    def from_json(cls, entry: ProgressState) -> Self:
        """Read the form in ``state.json``; fields of later versions are left out."""
        return cls(**_known(cls, entry))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What XLA compiled in a job, and what the compile cache had.

    Attributes
    ----------
    hits, misses
        Programs of all ranks that the cache had, and that it had not.
    saved
        Seconds of compilation that the cache saved the rank that it saved most.
    seconds
        Seconds that the rank took that took longest, for both.
    """

    hits: int = 0
    misses: int = 0
    saved: float = 0.0
    seconds: float = 0.0

    @classmethod
    def of(cls, ranks: Iterable[RankState]) -> Self:
        """Sum up what ranks have said: they work at the same time."""
        found = [rank["compiled"] for rank in ranks if "compiled" in rank]
        return cls(
            hits=sum(one["hits"] for one in found),
            misses=sum(one["misses"] for one in found),
            saved=max((one["saved"] for one in found), default=0.0),
            seconds=max((one["seconds"] for one in found), default=0.0),
        )


def _known(
    kind: type[Rank | Initializer | Progress], entry: Mapping[str, object]
) -> dict[str, Any]:
    """Return the fields of a kind: later versions may have more."""
    return {field.name: entry.get(field.name) for field in fields(kind)}
