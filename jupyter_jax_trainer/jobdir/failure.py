"""Why a job failed: which rank was first, and what to say about it.

The backends collect how each rank ended (:class:`RankEnd`); :func:`diagnose` names the first cause;
:func:`format_failure` writes it for people.
"""

# No `annotations` from `__future__`: TypedDicts would take ten times as long to import.

import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Self, TypedDict, cast

from jupyter_jax_trainer.errors import JobFailed
from jupyter_jax_trainer.jobdir.state import ErrorRecord, FailureState
from jupyter_jax_trainer.messages import Text
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.text import counted, numbers_text, ranks_text, shorten
from jupyter_jax_trainer.worker.exceptions import TRY_AGAIN
from jupyter_jax_trainer.worker.records import Position

# In state files, also those of other versions, which are told by it.
CANCELLED = "cancelled by the user"
_MAX_MESSAGE, _MAX_TRACEBACK = 2_000, 20_000  # characters of them that an error has
_MAX_FUNCTION = 80  # characters of the name of one
_FROM_OUTSIDE = ("killed", "memory", "aborted", "crashed", "cluster")


class EndRecord(TypedDict):
    """A `RankEnd` as JSON."""

    rank: int
    exit: int | None
    order: int
    error: ErrorRecord | None
    joined: bool
    finished: bool
    stopped: bool
    out_of_memory: bool
    cause: str | None
    hint: str | None
    told: str | None


@dataclass(kw_only=True)
class RankEnd:
    """How one rank ended.

    Attributes
    ----------
    rank
        Its number.
    exit
        Exit code, negative for a signal; None if it never ran.
    order
        Its place in the order in which ends and errors became known.
    error
        The record of an exception (see ``worker/exceptions.py``), if there was one.
    joined, finished
        Whether it reached the rendezvous, and the end of the cell.
    stopped
        Whether it was stopped because of another rank, by itself or by the backend.
    out_of_memory
        Whether the system reports that it killed a process of this job for lack of memory.
    cause, hint
        Why it ended according to the cluster, as the rest of a sentence after ``rank 1``, and what
        to do about it.
    told
        Its error as the other ranks know it, in case its own log is gone.
    """

    rank: int
    exit: int | None = None
    order: int = 1 << 30
    error: ErrorRecord | None = None
    joined: bool = False
    finished: bool = False
    stopped: bool = False
    out_of_memory: bool = False
    cause: str | None = None
    hint: str | None = None
    told: str | None = None

    def to_json(self) -> EndRecord:
        """Return the form in files."""
        return cast(EndRecord, asdict(self))

    @classmethod
    def from_json(cls, value: EndRecord) -> Self:
        """Read the form in files; fields of later versions are left out."""
        given: dict[str, Any] = {k: v for k, v in value.items() if k in cls.__dataclass_fields__}
        return cls(**given)


@dataclass(kw_only=True)
class Failure:
    """The first cause of a failed job.

    Attributes
    ----------
    kind
        ``error`` (an exception), ``exit``, ``killed``, ``memory``, ``aborted``, ``crashed``,
        ``rendezvous``, ``timeout``, ``hang``, ``disk``, ``supervisor``, ``start``, ``cluster``
        (which ended the rank) or ``cancelled``.
    message
        A sentence without the rank.
    rank
        The rank that failed first; None if it was none of them.
    exit
        Its exit code.
    error
        The record of the exception, with its traceback.
    others
        Ranks that stopped because of it.
    log
        The last lines of its log, if they may say more than the exit code.
    container
        Whose log that is, if it is not the rank's.
    hint
        What to do.
    usage
        What the rank's memory was in its last minute, where that ran out.
    """

    kind: str
    message: str
    rank: int | None = None
    exit: int | None = None
    error: ErrorRecord | None = None
    others: list[int] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    container: str | None = None
    hint: str | None = None
    usage: list[str] = field(default_factory=list)

    def to_json(self) -> FailureState:
        """Return the form in ``state.json``."""
        return cast(FailureState, asdict(self))

    @classmethod
    def from_json(cls, value: FailureState) -> Self:
        """Read the form in ``state.json``; fields of later versions are left out."""
        known = cls.__dataclass_fields__
        given: dict[str, Any] = {name: item for name, item in value.items() if name in known}
        return cls(**given)


def diagnose(ends: Sequence[RankEnd]) -> Failure:
    """Name the first cause among the ends of all ranks.

    A rank that says only that it lost a peer is never the cause while there is another candidate.
    """
    failed = [
        end for end in ends if not end.finished and (not end.stopped or end.cause or end.told)
    ]
    failed = failed or [end for end in ends if not end.finished] or list(ends)
    first = min(failed, key=_suspicion)
    failure = _explain(first)
    failure.others = [
        end.rank for end in ends if end is not first and (end.stopped or not end.finished)
    ]
    return failure


def _suspicion(end: RankEnd) -> tuple[int, int]:
    """Tell how likely an end is the effect of another, and when it became known.

    Native code may crash or abort when the rank that coordinates the others is lost.
    """
    if end.cause or (end.error is not None and not end.error["secondary"]):
        return 0, end.order
    if end.error is not None:
        return 3, end.order
    if end.told:
        return 1, end.order
    levels = {None: 2, -signal.SIGABRT: 2, -signal.SIGSEGV: 1}
    return levels.get(end.exit, 0), end.order


def _explain(end: RankEnd) -> Failure:
    """Put the end of one rank into words."""
    rank, code = end.rank, end.exit
    if end.error is not None and not (end.cause and end.error["secondary"]):
        return _explain_error(end, end.error)

    def failure(kind: str, message: str, hint: str | None = None) -> Failure:
        hint = hint or (message.hint if isinstance(message, Text) else None)
        return Failure(kind=kind, message=message, rank=rank, exit=code, hint=hint)

    if end.cause:
        return failure("memory" if end.out_of_memory else "cluster", end.cause, end.hint)
    if end.told:
        return failure("error", say.TOLD_BY_OTHERS(error=end.told))
    if end.out_of_memory:
        return failure("memory", say.OUT_OF_MEMORY())
    if code is None:
        return failure("rendezvous", say.NEVER_STARTED())
    if code == -signal.SIGKILL:
        return failure("killed", say.KILLED())
    if code == -signal.SIGABRT:
        return failure("aborted", say.ABORTED())
    if code == -signal.SIGSEGV and not end.joined:
        return failure("crashed", say.CRASHED_EARLY())
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = "unknown"
        return failure(
            "crashed" if code == -signal.SIGSEGV else "killed",
            say.ENDED_BY_SIGNAL(number=-code, name=name),
        )
    if end.joined:
        return failure("exit", say.EXITED_IN_CELL(code=code))
    return failure("exit", say.EXITED_BEFORE_JOINING(code=code))


_OF_THE_START = ("PythonMismatch", "PortTaken", "PackageError", "FilesError", "SessionError")
_NO_JAX = [f"ModuleNotFoundError: No module named {name!r}" for name in ("jax", "jaxlib")]


def _explain_error(end: RankEnd, error: ErrorRecord) -> Failure:
    text = f"{error['type']}: {error['message']}" if error["message"] else error["type"]
    kind, hint = "error", error.get("hint")
    if error["type"] == "SystemExit":
        kind, text = "exit", error["message"]
    elif error["type"] in _OF_THE_START:
        kind, text = "start", error["message"]
    elif text in _NO_JAX and not error.get("cell_line"):
        said = say.NO_JAX(error=text)
        kind, text, hint = "start", said, said.hint
    elif error["type"] == "RendezvousTimeout":
        kind, text = "rendezvous", error["message"]
    elif "No space left on device" in text:
        kind, hint = "disk", say.FREE_SPACE()
    elif "RESOURCE_EXHAUSTED" in text:
        kind, hint = "memory", say.USE_LESS_DEVICE_MEMORY()
    elif error["type"] == "MemoryError":
        kind, hint = "memory", say.USE_LESS_MEMORY()
    elif error["secondary"]:
        said = say.LOST_RANK(error=text)
        text, hint = said, said.hint
    if error.get("cell_line"):
        text = f"{text} ({_line(error.get('cell', 'Cell'), error['cell_line'])})"
    return Failure(kind=kind, message=text, rank=end.rank, exit=end.exit, error=error, hint=hint)


def _line(cell: str, line: object) -> Text:
    return say.CELL_LINE(cell="cell" if cell == "Cell" else cell, line=line)


def may_run_again(failure: Failure) -> bool:
    """Return whether another attempt may end otherwise: not where the cell itself is broken.

    The policies of ``backends/kubernetes/submit/restarts.py`` say the same to the cluster.
    """
    if failure.error is not None:
        asked = TRY_AGAIN in (failure.exit, failure.error.get("status"))
        return bool(failure.error["secondary"]) or asked
    return failure.kind in _FROM_OUTSIDE or failure.exit == TRY_AGAIN


def after_restarts(failure: Failure, restarts: int) -> Failure:
    """Say of a failure that no restart was left for it; others stay as they are."""
    if restarts and may_run_again(failure):
        times = f"{counted(restarts, 'restart')} (--max-restarts)"
        failure.message = say.OUT_OF_RESTARTS(message=failure.message, restarts=times)
    return failure


def positions(ranks: Sequence[tuple[RankEnd, Position | None]]) -> str:
    """Return where ranks are: ``rank 1 has finished, rank 0 is in psum (cell line 3)``.

    Parameters
    ----------
    ranks
        Of each rank what is known of its end, and the record of where it was last.
    """
    groups: dict[_Doing, list[int]] = {}
    for end, where in ranks:
        doing = _Doing(finished=True) if end.finished else _doing(where)
        if doing is not None:
            groups.setdefault(doing, []).append(end.rank)
    return ", ".join(_position(doing, numbers) for doing, numbers in groups.items())


class _Doing(NamedTuple):
    """What a rank does, and where."""

    place: str = ""
    finished: bool = False
    waits: bool = False
    compiles: str | None = None


def _doing(where: Position | None) -> _Doing | None:
    """Return what a rank does; None where it is not in the cell."""
    place = _place(where)
    if where is None or not place:
        return None
    return _Doing(place, waits=where.get("waits", False), compiles=where.get("compiles"))


def _position(doing: _Doing, ranks: Sequence[int]) -> Text:
    """Say what some ranks do."""
    one = len(ranks) == 1
    if doing.finished:
        message = say.RANK_FINISHED if one else say.RANKS_FINISHED
    elif doing.compiles:
        message = say.RANK_COMPILES if one else say.RANKS_COMPILE
    elif doing.waits:
        message = say.RANK_WAITS if one else say.RANKS_WAIT
    else:
        message = say.RANK_IS_AT if one else say.RANKS_ARE_AT
    return message(
        rank=ranks[0],
        ranks=numbers_text(ranks),
        place=doing.place,
        function=shorten(doing.compiles or "", _MAX_FUNCTION),
    )


def _place(where: Position | None) -> str:
    if where is None or where["cell_line"] is None:
        return ""
    line = _line(where["cell"], where["cell_line"])
    return say.IN_CALL(call=where["doing"], line=line) if where["doing"] else say.AT_LINE(line=line)


def summary(failure: Failure) -> str:
    """Return the failure in one line."""
    if failure.rank is None:
        return failure.message
    first_line = failure.message.splitlines()[0] if failure.message else ""
    if failure.error is None:
        return say.RANK_ENDED(rank=failure.rank, how=first_line)
    if failure.others:
        return say.RANK_FAILED_FIRST(rank=failure.rank, error=first_line)
    return say.RANK_FAILED(rank=failure.rank, error=first_line)


def failed(name: str, failure: Failure) -> JobFailed:
    """Make the error for a job that has not ended well."""
    return JobFailed(format_failure(_shortened(failure), job=name), name, failure)


def _shortened(failure: Failure) -> Failure:
    """Cut what a cell can make as long as it likes."""
    rest = "" if failure.rank is None else say.REST_IN_LOG(rank=failure.rank)
    error = failure.error
    if error and error.get("traceback"):
        error = {**error, "traceback": shorten(error["traceback"], _MAX_TRACEBACK, rest)}
    return replace(failure, message=shorten(failure.message, _MAX_MESSAGE, rest), error=error)


def format_failure(failure: Failure, job: str) -> str:
    """Write a failure for people: what, the traceback, who stopped because of it, what to do."""
    if failure.kind == "cancelled":
        if failure.message == CANCELLED:
            return say.JOB_CANCELLED(job=job)
        return say.JOB_CANCELLED_BECAUSE(job=job, reason=failure.message)
    lines: list[str] = [say.JOB_FAILED(job=job, failure=summary(failure))]
    if failure.error and failure.error.get("traceback"):
        lines += ["", failure.error["traceback"], ""]
    if failure.others:
        stopped = ranks_text(failure.others).capitalize()
        lines.append(say.STOPPED_BECAUSE_OF_IT(ranks=stopped))
    lines += failure.usage
    if failure.log:
        whose = failure.container or f"rank {failure.rank}"
        lines += [say.LAST_LINES(whose=whose), *(f"  {text}" for text in failure.log)]
    if failure.hint:
        lines.append(failure.hint)
    if failure.container:
        lines.append(say.FULL_CONTAINER_LOG(job=job, container=failure.container))
    else:
        lines.append(say.FULL_LOGS(job=job))
    return "\n".join(lines)
