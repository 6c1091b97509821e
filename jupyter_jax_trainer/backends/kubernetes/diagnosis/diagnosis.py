"""Say in plain words why a job waits or has failed, from what the cluster shows of it.

Nothing here speaks to the cluster: its objects go in, words come out. The table is in ``causes/``.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from jupyter_jax_trainer.backends.kubernetes.api.objects import Ended, Pod
from jupyter_jax_trainer.backends.kubernetes.api.observed import Seen
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes import Cause, Refused, Words
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.ended import (
    DELETED,
    FAILED,
    OTHER,
    OUT_OF_MEMORY,
    end_row,
)
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.endings import (
    at_limit,
    deleted_by_its_job,
    last_end,
    out_of_memory,
)
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.images import IMAGES
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.queued import QUEUED, refusal
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.refused import explain
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.running import RUNNING
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.starting import STARTING
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.unschedulable import UNSCHEDULABLE
from jupyter_jax_trainer.jobdir.failure import RankEnd, diagnose, summary
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.states import Phase, State

__all__ = [
    "PodEnd",
    "Seen",
    "Verdict",
    "explain_api_error",
    "judge",
    "judge_end",
    "rank_ends",
]

_STARTED = (Phase.JOINED, Phase.RUNNING, Phase.FINISHED, Phase.FAILED, Phase.STOPPED)
_BEGUN = (Phase.RUNNING, Phase.FINISHED, Phase.FAILED, Phase.STOPPED)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How a job is.

    Attributes
    ----------
    state
        ``Queued``, ``Pending``, ``Starting``, ``Running``, ``Suspended``, ``Succeeded`` or
        ``Failed``.
    reason, hint
        Why, and what to do about it; None where there is nothing to say.
    cause
        The row of the table; None where it is none of them.
    """

    state: State
    reason: str | None = None
    hint: str | None = None
    cause: str | None = None


@dataclass(frozen=True, kw_only=True)
class PodEnd:
    """How the pod of a rank is, and how it has ended.

    Attributes
    ----------
    rank, pod, uid, node
        Which rank, the name of its newest pod, that pod's uid, and where it runs.
    restarts
        How often the rank was started again: containers of this pod, and pods before it.
    running
        Its container runs.
    exit
        The exit code; negative is a signal; None while none has ended.
    earlier
        The exit is that of an earlier attempt: the container was started again, or will be.
    out_of_memory
        It was killed for lack of memory.
    kind
        The row of the table; None for an exit that the cluster does not explain.
    cause, hint
        That in words, to stand after ``rank 1``; and what to do.
    at
        When it ended, or when its end was asked for.
    stopped
        It was deleted only because its job has ended or is suspended.
    """

    rank: int
    pod: str
    uid: str
    node: str | None
    restarts: int
    running: bool
    exit: int | None = None
    earlier: bool = False
    out_of_memory: bool = False
    kind: str | None = None
    cause: str | None = None
    hint: str | None = None
    at: float | None = None
    stopped: bool = False


def judge(seen: Seen, states: Sequence[Phase] = ()) -> Verdict:
    """Return how a job is, and why.

    Parameters
    ----------
    seen
        What the cluster shows.
    states
        What each rank does by its own account (see `Seen`); empty where nothing is known of it.
    """
    seen = replace(seen, states=states)
    if (verdict := judge_end(seen)) is not None:
        return verdict
    if seen.trainjob is None:
        return _first(QUEUED, seen) or Verdict(state=State.PENDING)
    if (verdict := _first((DELETED,), seen)) is not None:
        return replace(verdict, state=_going(seen).state)
    if seen.suspended:
        return _first(QUEUED, seen) or Verdict(state=State.SUSPENDED)
    return _waiting(seen) or _going(seen)


def judge_end(seen: Seen) -> Verdict | None:
    """Return how a job has ended, and why; None while the cluster shows no end of it."""
    if seen.trainjob is None:
        return None
    if seen.trainjob.condition("Complete"):
        return Verdict(state=State.SUCCEEDED)
    if (verdict := _first(FAILED, seen)) is not None:
        return verdict
    if seen.trainjob.condition("Failed") or _job_failed(seen):
        return _failed(seen)
    return None


def _job_failed(seen: Seen) -> bool:
    """Return whether a Job has failed for good: JobSet may make a new one of it."""
    if not any(job.condition("Failed", "FailureTarget") for job in seen.jobs):
        return False
    if seen.jobset is None:
        return not seen.max_restarts
    return seen.jobset.restarts >= seen.jobset.max_restarts


def _failed(seen: Seen) -> Verdict:
    """Name the first cause of a failure that the pods still show."""
    ended = [end for end in rank_ends(seen) if not end.stopped]
    ended = [end for end in ended if end.cause or end.exit]
    if not ended:
        return _first(OTHER, seen) or Verdict(state=State.FAILED)
    first = min(ended, key=lambda end: (end.at is None, end.at or 0.0, end.rank))
    told = diagnose(
        [
            RankEnd(
                rank=first.rank,
                exit=first.exit,
                order=1,
                joined=_has_joined(seen, first.rank),
                out_of_memory=first.out_of_memory,
                cause=first.cause,
                hint=first.hint,
            )
        ]
    )
    return Verdict(
        state=State.FAILED, reason=summary(told), hint=told.hint, cause=first.kind or "exit"
    )


def _has_joined(seen: Seen, rank: int) -> bool:
    return rank >= len(seen.states) or seen.states[rank] in _STARTED


def _waiting(seen: Seen) -> Verdict | None:
    """Return what keeps pods from running."""
    refused = refusal(seen)
    if refused is not None:
        return _with_others(_verdict(*explain(refused)), seen)
    found = _first((*UNSCHEDULABLE, *IMAGES, *STARTING), seen) or _first(QUEUED, seen)
    return None if found is None else _with_others(found, seen)


def _with_others(found: Verdict, seen: Seen) -> Verdict:
    """Add how many pods run while some are kept from it."""
    running = sum(pod.runs for pod in seen.live.values())
    if not 0 < running < seen.nodes or found.reason is None:
        return found
    others = say.ONE_OTHER() if running == 1 else say.OTHERS(count=running)
    return replace(found, reason=f"{found.reason}, {others}")


def _going(seen: Seen) -> Verdict:
    """Return the progress of a job that nothing keeps from running."""
    running = len(seen.states) >= seen.nodes and all(state in _BEGUN for state in seen.states)
    found = _first(RUNNING, seen)
    if running:
        trouble = found if found is not None and found.cause == "node-silent" else None
        return replace(trouble, state=State.RUNNING) if trouble else Verdict(state=State.RUNNING)
    if found is not None and found.state == State.PENDING:
        return _with_others(found, seen)
    return found or Verdict(state=State.STARTING)


def _first(causes: Iterable[Cause], seen: Seen) -> Verdict | None:
    for cause in causes:
        if cause.find is not None and (facts := cause.find(seen)) is not None:
            return _verdict(cause, facts)
    return None


def _verdict(cause: Cause, facts: Words) -> Verdict:
    return Verdict(
        state=cause.state, reason=cause.say(facts), hint=cause.advise(facts), cause=cause.id
    )


def rank_ends(seen: Seen) -> list[PodEnd]:
    """Say of the newest pod of each rank how it is, and how it has ended."""
    return [_rank_end(seen, rank, pod) for rank, pod in sorted(seen.current.items())]


def _rank_end(seen: Seen, rank: int, pod: Pod) -> PodEnd:
    end, trainer = last_end(pod), next(iter(pod.states), None)
    pods = sum(other.rank == rank for other in seen.pods)
    again = trainer is not None and trainer.ended is None
    row = None if pod.phase == "Succeeded" else end_row(seen, pod)
    times = (pod.deleted, end.time if end else None)
    return PodEnd(
        rank=rank,
        pod=pod.name,
        uid=pod.uid,
        node=pod.of.node or None,
        restarts=(trainer.restarts if trainer else 0) + pods - 1,
        running=pod.runs,
        exit=None if end is None else end.code,
        earlier=end is not None and again,
        out_of_memory=out_of_memory(pod),
        kind=row[0].id if row else None,
        cause=row[0].say(row[1]) if row else None,
        hint=row[0].advise(row[1]) if row else None,
        at=min((time for time in times if time), default=None),
        stopped=deleted_by_its_job(seen, pod) and not _ended_before(times[1], times[0], end),
    )


def starved(limit: str | None) -> Verdict:
    """Say of a rank that the kernel killed it for lack of memory, though its pod goes on.

    Parameters
    ----------
    limit
        What its container may have; None where nobody has said.
    """
    facts = at_limit(limit) if limit else {"limit": "its own limit or its node's"}
    return _verdict(OUT_OF_MEMORY, facts)


def _ended_before(ended: float | None, deleted: float | None, end: Ended | None) -> bool:
    """Return whether a container ended by itself before its pod was deleted; in whole seconds.

    A SIGKILL in the same second is not from the deletion, which sends SIGTERM and waits.
    """
    if ended is None or deleted is None or end is None:
        return False
    return ended < deleted or (ended == deleted and end.code == -signal.SIGKILL)


def explain_api_error(
    status: int, reason: str, message: str, verb: str = "", resource: str = ""
) -> tuple[str, str | None]:
    """Put a refusal of the API into a sentence, and say what to do about it."""
    kinds = {"secrets": say.THE_SECRET(), "pods": say.THE_POD()}
    kind = kinds.get(resource) or say.THE_TRAINJOB()
    refused = Refused(
        message=message, status=status, reason=reason, verb=verb, resource=resource, who=kind
    )
    cause, facts = explain(refused)
    sentence = cause.say(facts)
    end = "" if sentence.endswith((".", "…")) else "."
    return f"{sentence[0].upper()}{sentence[1:]}{end}", cause.advise(facts)
