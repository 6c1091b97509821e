"""The parts of a job's state, as Python sees them, and states that no file holds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One process of a job; `exit` is its exit code, negative for a signal, None while it runs.

    On Kubernetes `host` is the node on which its `pod` runs.
    """

    rank: int
    pid: int | None = None
    state: str = "Waiting"
    exit: int | None = None
    restarts: int = 0
    host: str | None = None
    pod: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Initializer:
    """What fetches a data set or a model before the training begins; like a rank, with a name."""

    name: str
    state: str = "Starting"
    exit: int | None = None
    restarts: int = 0
    host: str | None = None
    pod: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What rank 0 reported last; `fraction` is between 0 and 1, or None without a total."""

    step: int
    total: int | None
    fraction: float | None
    metrics: dict[str, float]
    time: float


def known(kind: type, entry: dict[str, Any]) -> dict[str, Any]:
    """Leave out the fields of later versions."""
    return {field.name: entry.get(field.name) for field in fields(kind)}


def submitting() -> dict[str, Any]:
    """Give the state of a job that has none on disk yet."""
    return without_files("Queued", "is being submitted")


def cut_off() -> dict[str, Any]:
    """Give the state of a job whose submitter died before it was started."""
    return {
        **without_files("Failed", "its submission was cut off; nothing was started"),
        "hint": "Run the cell again.",
    }


def without_files(state: str, reason: str) -> dict[str, Any]:
    """Give a state that is nowhere on disk."""
    return {
        "state": state,
        "reason": reason,
        "hint": None,
        "history": [],
        "ranks": [],
        "progress": None,
        "failure": None,
        "results": None,
    }
