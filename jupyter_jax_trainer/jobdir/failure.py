"""Why a job failed: which rank was first, and what to say about it.

The backends collect how each rank ended (:class:`RankEnd`); :func:`diagnose` names the first cause;
:func:`format_failure` writes it for people.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self, cast

from jupyter_jax_trainer.errors import JobFailed
from jupyter_jax_trainer.jobdir.state import ErrorRecord, FailureState
from jupyter_jax_trainer.text import ranks_text, shorten
from jupyter_jax_trainer.worker.exceptions import TRY_AGAIN

CANCELLED = "cancelled by the user"
_MAX_MESSAGE, _MAX_TRACEBACK = 2_000, 20_000  # characters of them that an error has
_FROM_OUTSIDE = ("killed", "memory", "aborted", "crashed", "cluster")


@dataclass(kw_only=True)
class RankEnd:
    """How one rank ended.

    Attributes
    ----------
    rank
        Which.
    exit
        Exit code; negative is a signal; None when it never ran.
    order
        The place in the order in which the ends and errors became known.
    error
        The record of an exception (see ``worker/exceptions.py``), if there was one.
    joined, finished
        Whether it came to the rendezvous, and to the end of the cell.
    stopped
        True when it was ended because of another rank, by itself or by the backend.
    out_of_memory
        True when the system says that it ended a process of this job for lack of memory.
    cause, hint
        What the cluster says of its end, to stand after ``rank 1``, and what to do about it.
    told
        What it told the other ranks of its error: known from them where its own log is gone.
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


@dataclass(kw_only=True)
class Failure:
    """The first cause of a failed job.

    Attributes
    ----------
    kind
        ``error`` (an exception), ``exit``, ``killed``, ``memory``, ``aborted``, ``crashed``,
        ``rendezvous``, ``timeout``, ``disk``, ``supervisor``, ``start``, ``cluster`` (which ended
        the rank) or ``cancelled``.
    message
        One line.
    rank
        The rank that failed first; None when it was none of them.
    exit
        Its exit code.
    error
        The record of the exception, with its traceback.
    others
        Ranks that stopped because of it.
    log
        The last lines of its log, where they may say more than its exit code.
    container
        Whose log that is, if it is not the rank's.
    hint
        What to do.
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

    Native code may crash or abort when a rank is lost that coordinates the others.
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
        return Failure(kind=kind, message=message, rank=rank, exit=code, hint=hint)

    if end.cause:
        return failure("memory" if end.out_of_memory else "cluster", end.cause, end.hint)
    if end.told:
        hint = "Reported by the other ranks; this rank's log is unavailable."
        return failure("error", f"failed first: {end.told}", hint)
    if end.out_of_memory:
        return failure(
            "memory",
            "was killed by the system: out of memory",
            "Use smaller batches or fewer processes on this machine, or send less.",
        )
    if code is None:
        return failure("rendezvous", "never started")
    if code == -signal.SIGKILL:
        return failure(
            "killed",
            "was killed (signal 9)",
            "Somebody or something ended the process; the system does so when memory is short.",
        )
    if code == -signal.SIGABRT:
        return failure(
            "aborted",
            "aborted (signal 6)",
            "Native code aborted; see the end of the rank's log.",
        )
    if code == -signal.SIGSEGV and not end.joined:
        return failure(
            "crashed",
            "crashed (signal 11) before the rendezvous: most likely its port was taken",
            "Run the cell again.",
        )
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = "unknown"
        return failure(
            "crashed" if code == -signal.SIGSEGV else "killed",
            f"was ended by signal {-code} ({name})",
        )
    what = "before the cell was finished" if end.joined else "before it joined the others"
    hint = "os._exit() or native code ended it without an exception; see the end of its log."
    return failure("exit", f"ended with exit code {code} {what}", hint)


_NO_JAX = [f"ModuleNotFoundError: No module named {name!r}" for name in ("jax", "jaxlib")]


def _explain_error(end: RankEnd, error: ErrorRecord) -> Failure:
    where = error.get("cell", "Cell")
    where = "cell" if where == "Cell" else where
    line = f" ({where} line {error['cell_line']})" if error.get("cell_line") else ""
    text = f"{error['type']}: {error['message']}" if error["message"] else error["type"]
    kind, hint = "error", error.get("hint")
    if error["type"] == "SystemExit":
        kind, text = "exit", error["message"]
    elif error["type"] in ("PythonMismatch", "PortTaken", "PackageError"):
        kind, text = "start", error["message"]
    elif text in _NO_JAX and not error.get("cell_line"):
        kind, text = "start", f"there is no jax in the image or Python that was chosen ({text})"
        hint = "Choose a --runtime or an --image with Python and JAX."
    elif error["type"] == "RendezvousTimeout":
        kind, text = "rendezvous", error["message"]
    elif "No space left on device" in text:
        kind, hint = "disk", "Free some space; `jaxtrain delete NAME` removes old jobs."
    elif error["type"] == "MemoryError" or "RESOURCE_EXHAUSTED" in text:
        kind, hint = "memory", "Use smaller batches, more nodes, or send less."
        if "RESOURCE_EXHAUSTED" in text:
            hint += " A kernel that has used the same GPU keeps most of its memory: restart it."
    elif error["secondary"]:
        text = f"lost another rank ({text})"
    return Failure(
        kind=kind, message=text + line, rank=end.rank, exit=end.exit, error=error, hint=hint
    )


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
        times = "1 restart" if restarts == 1 else f"{restarts} restarts"
        failure.message += f", after {times} (--max-restarts)"
    return failure


def positions(ranks: Sequence[tuple[RankEnd, dict[str, Any] | None]]) -> str:
    """Return where ranks are: ``rank 1 has finished, rank 0 is in psum (cell line 3)``.

    Parameters
    ----------
    ranks
        Of each rank what is known of its end, and the record of where it was last.
    """
    groups: dict[str, list[int]] = {}
    for end, where in ranks:
        groups.setdefault(_position(end, where), []).append(end.rank)
    return ", ".join(
        f"{ranks_text(numbers)} {'has' if len(numbers) == 1 else 'have'} finished"
        if text == "finished"
        else f"{ranks_text(numbers)} {'is' if len(numbers) == 1 else 'are'} {text}"
        for text, numbers in groups.items()
        if text
    )


def _position(end: RankEnd, where: dict[str, Any] | None) -> str:
    if end.finished:
        return "finished"
    if where is None or where["cell_line"] is None:
        return ""
    cell = "cell" if where["cell"] == "Cell" else where["cell"]
    at = f"{cell} line {where['cell_line']}"
    return f"in {where['doing']} ({at})" if where["doing"] else f"at {at}"


def summary(failure: Failure) -> str:
    """Return the failure in one line."""
    if failure.rank is None:
        return failure.message
    who = f"rank {failure.rank}"
    first_line = failure.message.splitlines()[0] if failure.message else ""
    if failure.error is not None:
        return f"{who} failed first: {first_line}" if failure.others else f"{who}: {first_line}"
    return f"{who} {first_line}"


def failed(name: str, failure: Failure) -> JobFailed:
    """Make the error for a job that has not ended well."""
    return JobFailed(format_failure(_shortened(failure), job=name), name, failure)


def _shortened(failure: Failure) -> Failure:
    """Cut what a cell can make as long as it likes."""
    rest = "" if failure.rank is None else f": rank {failure.rank}'s log has them"
    error = failure.error
    if error and error.get("traceback"):
        error = {**error, "traceback": shorten(error["traceback"], _MAX_TRACEBACK, rest)}
    return replace(failure, message=shorten(failure.message, _MAX_MESSAGE, rest), error=error)


def format_failure(failure: Failure, job: str) -> str:
    """Write a failure for people: what, the traceback, who stopped because of it, what to do."""
    if failure.kind == "cancelled":
        by = "" if failure.message == CANCELLED else f": {failure.message}"
        return f"Job {job!r} was cancelled{by}."
    lines = [f"Job {job!r} failed: {summary(failure)}"]
    if failure.error and failure.error.get("traceback"):
        lines += ["", failure.error["traceback"], ""]
    if failure.others:
        lines.append(f"{ranks_text(failure.others)} stopped because of it.".capitalize())
    if failure.log:
        whose = failure.container or f"rank {failure.rank}"
        lines += [f"The last lines of {whose}:", *(f"  {text}" for text in failure.log)]
    if failure.hint:
        lines.append(failure.hint)
    if failure.container:
        lines.append(f"`%jaxtrain logs {job} --container {failure.container}` shows all of it.")
    else:
        lines.append(f"`%jaxtrain logs {job}` shows what the ranks printed.")
    return "\n".join(lines)
