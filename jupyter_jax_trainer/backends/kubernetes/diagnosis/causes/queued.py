"""Causes for which a TrainJob has no pods, or not all of them."""

from __future__ import annotations

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api.objects import Event
from jupyter_jax_trainer.backends.kubernetes.api.observed import Seen
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.cause import (
    Cause,
    Refused,
    Words,
    who,
)
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.kueue import (
    KUEUE,
    is_active,
    queue_of,
    with_place,
    workload_of,
)
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.text import duration

_SAME = 3.0  # seconds by which the times of events and objects may differ


def _age(seen: Seen) -> float:
    created = seen.trainjob.created if seen.trainjob else 0.0
    return seen.now - (created or seen.now)


def _waits_in_queue(seen: Seen) -> Words | None:
    if not queue_of(seen) or not seen.suspended or not is_active(workload_of(seen)):
        return None
    return {"queue": with_place(seen)}


def _suspended(seen: Seen) -> Words | None:
    return {} if seen.suspended else None


def missing(seen: Seen) -> int:
    """Count the ranks that have no pod."""
    return seen.nodes - len(seen.made)


def refusal(seen: Seen) -> Refused | None:
    """Return what a controller was refused for the job, unless it succeeded later."""
    lacking = missing(seen)
    if lacking <= 0 or seen.suspended:
        return None
    pods = who(lacking, seen.nodes)
    event = seen.last_event(seen.jobs, "FailedCreate")
    if event is not None and not _made_since(seen, event):
        return Refused(message=event.message, who=pods)
    if seen.jobs:
        return None
    event = seen.jobset_event("JobCreationFailed")
    event = event or seen.last_event([seen.trainjob], "TrainJobResourcesCreationFailed")
    if event is None:
        return None
    return Refused(message=event.message, who="the job's parts")


def _made_since(seen: Seen, event: Event) -> bool:
    """Return whether the Job made a pod clearly after an event, or was resumed after it."""
    made = [pod.created for pod in seen.made.values()]
    resumed = [job.started for job in seen.jobs]
    newest = max((time for time in (*made, *resumed) if time), default=0.0)
    return newest > event.time + _SAME


def _initializing(seen: Seen) -> Words | None:
    running = [pod for pod in seen.initializers if pod.phase != "Succeeded"]
    if not running or seen.live:
        return None
    return {"what": running[0].role.replace("-", " ")}


def _silent(seen: Seen) -> Words | None:
    """Find a TrainJob of which no controller has made anything."""
    made = seen.jobs or seen.pods or seen.jobset
    told = seen.trainjob is not None and seen.trainjob.has_jobs
    if made or told or _age(seen) < timeouts.CONTROLLER.seconds:
        return None
    return {"time": duration(_age(seen))}


def _jobless(seen: Seen) -> Words | None:
    if seen.jobs or seen.pods or _age(seen) < timeouts.CONTROLLER.seconds:
        return None
    return {"time": duration(_age(seen))}


def _no_trainjob(seen: Seen) -> Words | None:
    return {} if seen.trainjob is None else None


QUEUED = (
    Cause(
        id="trainjob-missing",
        where="there is no TrainJob",
        sentence="waits for its TrainJob",
        find=_no_trainjob,
    ),
    *KUEUE,
    Cause(
        id="queued",
        where="TrainJob `Suspended` with the label of a queue",
        sentence="waits in the queue {queue}",
        hint="It starts automatically when there is room. If it never does, check that the queue "
        "exists and that Kueue is installed.",
        state=State.QUEUED,
        find=_waits_in_queue,
    ),
    Cause(
        id="suspended",
        where="TrainJob `Suspended`",
        sentence="its pods are stopped until it is resumed",
        hint="`%jaxtrain resume` restarts it, from the beginning of its cell.",
        state=State.SUSPENDED,
        find=_suspended,
    ),
    Cause(
        id="initializing",
        symptom="A data set or model is being fetched",
        where="pods of the replicated Jobs `dataset-initializer`, `model-initializer`",
        sentence="waits for its {what}",
        find=_initializing,
    ),
    Cause(
        id="trainer-silent",
        where="TrainJob without conditions and without Jobs",
        sentence="Kubeflow Trainer has not acted on the job for {time}",
        hint="Its controller may be down or starting: the job continues when it is back. Tell a "
        "cluster administrator.",
        find=_silent,
    ),
    Cause(
        id="jobset-silent",
        where="TrainJob with a JobSet that has no Jobs",
        sentence="JobSet has created no Jobs for {time}",
        hint="Its controller may be down or starting: the job continues when it is back. Tell a "
        "cluster administrator.",
        find=_jobless,
    ),
)
