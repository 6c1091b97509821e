"""``state.json`` as JSON, and states that no file holds; `parts` has it as Python objects."""

# No `annotations` from `__future__`: TypedDicts would take ten times as long to import.

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.jobdir.files import damaged
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.states import Phase, State, Unstarted
from jupyter_jax_trainer.worker import profiling
from jupyter_jax_trainer.worker.records import KINDS, Pace, Position, Profiled, Program, Spent
from jupyter_jax_trainer.worker.records import ErrorRecord as ErrorRecord
from jupyter_jax_trainer.worker.records import ResultInfo as ResultInfo

_MOST_OF_PROBLEM = 300  # characters
_MOST, _LONGEST = 10, 80  # functions that a rank tells of, and characters of their names


class HistoryEntry(TypedDict):
    """A state that the job has entered, and when (seconds since the epoch)."""

    state: State
    time: float


class HeardPosition(Position):
    """Where a rank was when it said so, and at what time it did."""

    time: float


class NotFinite(TypedDict):
    """A metric that was NaN or infinite, the first time that a rank reported it so."""

    metric: str
    value: str
    step: int
    rank: int


class CompiledFunction(TypedDict):
    """A function, how many programs it became, and how long XLA took for all of them."""

    name: str
    count: int
    seconds: float


class CompiledState(TypedDict):
    """What XLA had to compile in a rank, as `Compiled`, and the functions that took longest.

    `cache` is false where there was no compile cache.
    """

    hits: int
    misses: int
    saved: float
    seconds: float
    cache: NotRequired[bool]
    functions: NotRequired[list[CompiledFunction]]


class UsageState(TypedDict):
    """What the ranks of a job use now; None for what is not known.

    Attributes
    ----------
    cpu, power
        Cores and watts of all ranks.
    memory, limit, rank
        Bytes that the largest rank uses, bytes that are available to it, and its number.
    used
        Bytes in use there by whomever, where ranks share them.
    device_memory, device_limit, device_rank
        The same of the device that is fullest.
    gpu
        The part of the time in which devices compute, on average.
    """

    time: float
    cpu: float | None
    memory: int | None
    limit: int | None
    used: int | None
    rank: int | None
    device_memory: int | None
    device_limit: int | None
    device_rank: int | None
    gpu: float | None
    power: float | None


class Tight(TypedDict):
    """Memory that is about to run out: a rank's, its machine's, or a device's of it."""

    rank: int
    device: int | None
    shared: bool
    share: float
    limit: int


class RankState(TypedDict):
    """One process of the job, as `Rank`; `where` is what a rank said that can't be asked.

    `spent` and `pace` say where the time of this attempt goes.
    """

    rank: int
    pid: int | None
    state: Phase
    exit: int | None
    restarts: int
    host: str | None
    pod: NotRequired[str | None]
    where: NotRequired[HeardPosition | None]
    compiled: NotRequired[CompiledState]
    spent: NotRequired[Spent]
    pace: NotRequired[Pace | None]


class ProfileOfRank(TypedDict):
    """What a rank has given to a profile; see `worker.records.Profiled`."""

    rank: int
    seconds: float
    files: dict[str, int]
    left_out: dict[str, int]
    problem: str | None


class ProfileState(TypedDict):
    """A profile of the job; `whole` once no rank is waited for any more."""

    name: str
    time: float
    whole: bool
    ranks: list[ProfileOfRank]


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
    usage: NotRequired[list[str]]


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
    cell: NotRequired[int]  # its number in its session, once it has begun
    initializers: NotRequired[list[InitializerState]]
    restarts: NotRequired[list[Restart]]
    paused_at: NotRequired[int]
    not_finite: NotRequired[list[NotFinite]]
    profiles: NotRequired[list[ProfileState]]
    usage: NotRequired[UsageState]
    tight: NotRequired[list[Tight]]
    warnings: NotRequired[list[str]]
    no_channel: NotRequired[str]  # to which ranks, and why


class Announced(TypedDict):
    """What is shown of a job before there is one; its keys are those of `JobState`."""

    state: Unstarted
    reason: str | None
    hint: None
    history: list[HistoryEntry]
    ranks: list[RankState]
    progress: None
    results: None
    restarts: list[Restart]
    not_finite: NotRequired[list[NotFinite]]
    usage: NotRequired[UsageState]
    tight: NotRequired[list[Tight]]
    warnings: NotRequired[list[str]]
    no_channel: NotRequired[str]


Snapshot = JobState | Announced


def announced(state: Unstarted, reason: str | None = None) -> Announced:
    """Return what is shown before there is a job."""
    return {
        "state": state,
        "reason": reason,
        "hint": None,
        "history": [],
        "ranks": [],
        "progress": None,
        "results": None,
        "restarts": [],
    }


def compiled_record(message: Mapping[str, JsonValue]) -> CompiledState:
    """Read what a rank has said of what it compiled.

    Raises
    ------
    KeyError, TypeError
        It is none.
    """
    functions = message.get("functions")
    return {
        "hits": _number(message["hits"]) or 0,
        "misses": _number(message["misses"]) or 0,
        "saved": _seconds(message["saved"]) or 0.0,
        "seconds": _seconds(message["seconds"]) or 0.0,
        "cache": message.get("cache") is not False,
        "functions": [
            _function(one) for one in (functions if isinstance(functions, list) else ())[:_MOST]
        ],
    }


def _function(found: JsonValue) -> CompiledFunction:
    if not isinstance(found, dict):
        raise TypeError(f"{found!r} is no function")
    return {
        "name": str(found["name"])[:_LONGEST],
        "count": _number(found["count"]) or 0,
        "seconds": _seconds(found["seconds"]) or 0.0,
    }


def spent_record(message: Mapping[str, JsonValue]) -> tuple[Spent, Pace | None]:
    """Read what a rank has said of how its time is spent, and of its pace.

    Raises
    ------
    KeyError, TypeError
        It is none.
    """
    spent, pace = message["spent"], message["pace"]
    if not isinstance(spent, dict):
        raise TypeError(f"{spent!r} is no time")
    found: Spent = {kind: _seconds(spent.get(kind)) or 0.0 for kind in KINDS}
    if not isinstance(pace, dict):
        return found, None
    steps, seconds, host = pace["steps"], pace["seconds"], pace["host"]
    read: Pace = {
        "steps": _number(steps) or 0,
        "seconds": _seconds(seconds) or 0.0,
        "host": _seconds(host) or 0.0,
    }
    return found, read


def program_record(message: Mapping[str, JsonValue]) -> Program:
    """Read which program a rank is about to compile.

    Raises
    ------
    KeyError, TypeError
        It is none.
    """
    ranks = message["ranks"]
    if not isinstance(ranks, list):
        raise TypeError(f"{ranks!r} are no ranks")
    return {
        "ranks": [one for one in ranks if isinstance(one, int)],
        "number": _number(message["number"]) or 0,
        "runs": message["runs"] is True,
        "name": str(message["name"]),
        "digest": str(message["digest"]),
        "cell": str(message["cell"]),
        "cell_line": _number(message["cell_line"]),
    }


def profile_record(rank: int, message: Profiled | Mapping[str, JsonValue]) -> ProfileOfRank:
    """Read what a rank has said of a profile.

    Raises
    ------
    KeyError, TypeError
        It is none.
    """
    problem = message["problem"]
    return {
        "rank": rank,
        "seconds": _seconds(message["seconds"]) or 0.0,
        "files": _sizes(message["files"]),
        "left_out": _sizes(message["left_out"]),
        "problem": None if problem is None else str(problem)[:_MOST_OF_PROBLEM],
    }


def not_taken(rank: int, why: str) -> ProfileOfRank:
    """Return what there is of a profile that a rank has not taken."""
    return {"rank": rank, "seconds": 0.0, "files": {}, "left_out": {}, "problem": why}


def _sizes(found: JsonValue | Mapping[str, int]) -> dict[str, int]:
    """Return the sizes of files of a profile; other names are left out."""
    if not isinstance(found, Mapping):
        raise TypeError(found)
    sizes = {name: found.get(name) for name in profiling.FILES}
    return {name: size for name, size in sizes.items() if type(size) is int and 0 <= size < 1 << 60}


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
    # A killed rank takes its last reports with it: it was further than is known.
    if reached is None or reached < step - 1:
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
        "waits": message.get("waits") is True,
        "meets": message.get("meets") is True,
        "compiles": _text(message.get("compiles")),
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
