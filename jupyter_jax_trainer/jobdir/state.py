"""``state.json``: its parts as JSON and as Python objects, and states that no file holds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NotRequired, Self, TypedDict, cast

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.jobdir.files import damaged
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.states import Phase, State, Unstarted
from jupyter_jax_trainer.worker.records import ErrorRecord as ErrorRecord
from jupyter_jax_trainer.worker.records import Position
from jupyter_jax_trainer.worker.records import ResultInfo as ResultInfo


class HistoryEntry(TypedDict):
    """A state that the job has entered, and when (seconds since the epoch)."""

    state: State
    time: float


class HeardPosition(Position):
    """Where a rank was when it said so, and at what time it did."""

    time: float


class RankState(TypedDict):
    """One process of the job, as `Rank`; `where` is what a rank said that can't be asked."""

    rank: int
    pid: int | None
    state: Phase
    exit: int | None
    restarts: int
    host: str | None
    pod: NotRequired[str | None]
    where: NotRequired[HeardPosition | None]


class InitializerState(TypedDict):
    """An initializer of the job, as `Initializer`."""

    name: str
    state: Phase
    exit: int | None
    restarts: int
    host: str | None
    pod: str | None


class ProgressState(TypedDict):
    """What rank 0 reported last, as `Progress`."""

    step: int
    total: int | None
    fraction: float | None
    metrics: dict[str, float]
    time: float


class Restart(TypedDict):
    """One restart of all ranks.

    `reached` is the step before it, `step` the first one after it; None while unknown.
    """

    time: float
    most: int
    reason: str
    reached: int | None
    step: int | None


class FailureState(TypedDict):
    """Why the job failed, as `jobdir.failure.Failure`."""

    kind: str
    message: str
    rank: int | None
    exit: int | None
    error: ErrorRecord | None
    others: list[int]
    log: list[str]
    container: str | None
    hint: str | None


class JobState(TypedDict):
    """The whole of ``state.json``."""

    state: State
    reason: str | None
    hint: str | None
    history: list[HistoryEntry]
    ranks: list[RankState]
    progress: ProgressState | None
    failure: FailureState | None
    results: list[ResultInfo] | None
    submitting: NotRequired[bool]  # a TrainJob may lack its Secrets
    initializers: NotRequired[list[InitializerState]]
    restarts: NotRequired[list[Restart]]
    paused_at: NotRequired[int]


class Announced(TypedDict):
    """What is shown of a job before there is one; its keys are those of `JobState`."""

    state: Unstarted
    reason: str | None
    hint: None
    history: list[HistoryEntry]
    progress: None
    results: None
    restarts: list[Restart]


Snapshot = JobState | Announced


def announced(state: Unstarted, reason: str | None = None) -> Announced:
    """Return what is shown before there is a job."""
    return {
        "state": state,
        "reason": reason,
        "hint": None,
        "history": [],
        "progress": None,
        "results": None,
        "restarts": [],
    }


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


def _known(
    kind: type[Rank | Initializer | Progress], entry: Mapping[str, object]
) -> dict[str, Any]:
    """Return the fields of a kind: later versions may have more."""
    return {field.name: entry.get(field.name) for field in fields(kind)}


def new_rank(number: int, *, host: str | None = None, restarts: int = 0) -> RankState:
    """Return a rank that has no process yet."""
    return {
        "rank": number,
        "pid": None,
        "state": Phase.WAITING,
        "exit": None,
        "restarts": restarts,
        "host": host,
        "pod": None,
    }


def first_state(
    state: State,
    reason: str | None = None,
    hint: str | None = None,
    ranks: list[RankState] | None = None,
    *,
    entered: bool = True,
) -> JobState:
    """Return the first state of a job.

    Parameters
    ----------
    entered
        It goes into the history: False for what is on no disk.
    """
    return {
        "state": state,
        "reason": reason,
        "hint": hint,
        "history": [{"state": state, "time": time.time()}] if entered else [],
        "ranks": ranks or [],
        "progress": None,
        "failure": None,
        "results": None,
    }


def read(value: dict[str, JsonValue], source: Path) -> JobState:
    """Take over a checked ``state.json``.

    Raises
    ------
    JobDirError
        It has a state that this version doesn't know.
    """
    state = cast(JobState, value)
    try:
        state["state"] = State(state["state"])
        for entry in state["history"]:
            entry["state"] = State(entry["state"])
        for rank in state["ranks"]:
            rank["state"] = Phase(rank["state"])
        for initializer in state.get("initializers", ()):
            initializer["state"] = Phase(initializer["state"])
    except ValueError as error:
        raise damaged(source, error) from None
    return state


def submitting() -> JobState:
    """Return the state of a job that has none on disk yet."""
    return first_state(State.QUEUED, say.SUBMITTING(), entered=False)


def cut_off() -> JobState:
    """Return the state of a job whose submitter died before it was started."""
    said = say.SUBMISSION_CUT_OFF()
    return first_state(State.FAILED, said, said.hint, entered=False)


def directory_deleted() -> JobState:
    """Return the state of a job that has no directory any more."""
    return first_state(State.CANCELLED, say.DIRECTORY_DELETED(), entered=False)


def about_restart(restarts: Sequence[Restart], *, ended: bool = False) -> str | None:
    """Return why all ranks last restarted, then at which step they go on; None without restarts."""
    if not restarts:
        return None
    last = restarts[-1]
    number, most, step = len(restarts), last["most"], last["step"]
    if step is None:
        return say.RESTART(number=number, most=most, reason=last["reason"])
    if ended:
        restart = say.RESTART_CONTINUED(number=number, most=most, step=step)
    else:
        restart = say.RESTART_CONTINUES(number=number, most=most, step=step)
    reached = last["reached"]
    if reached is None:
        return restart
    return say.ATTEMPT_HAD_REACHED(restart=restart, reached=reached)


def error_record(message: Mapping[str, JsonValue]) -> ErrorRecord:
    """Read the record of an exception that a rank has sent.

    Raises
    ------
    KeyError, TypeError
        It is none.
    """
    found: ErrorRecord = {
        "type": str(message["type"]),
        "message": str(message["message"]),
        "traceback": str(message["traceback"]),
        "cell": str(message.get("cell", "Cell")),
        "cell_line": _number(message["cell_line"]),
        "secondary": bool(message["secondary"]),
        "hint": _text(message.get("hint")),
    }
    if "status" in message:
        found["status"] = _number(message["status"])
    return found


def position_record(message: Mapping[str, JsonValue]) -> Position:
    """Read the record of where in the cell a rank is, which it has sent.

    Raises
    ------
    KeyError, TypeError
        It is none.
    """
    return {
        "cell": str(message["cell"]),
        "cell_line": _number(message["cell_line"]),
        "doing": _text(message["doing"]),
        "frame": _text(message.get("frame")),
        "seconds": _seconds(message.get("seconds")),
    }


def _number(value: JsonValue) -> int | None:
    if value is not None and not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _seconds(value: JsonValue) -> float | None:
    if value is not None and not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is no number")
    return value


def _text(value: JsonValue) -> str | None:
    return None if value is None else str(value)
