"""Causes for which a TrainJob has no pods, or not all of them."""

from __future__ import annotations

import re
from collections.abc import Callable

from jupyter_jax_trainer.backends.kubernetes.causes.cause import Cause, Facts, Refused, who
from jupyter_jax_trainer.backends.kubernetes.seen import (
    Json,
    Seen,
    any_condition,
    condition,
    event_time,
    message_of,
    role_of,
    seconds,
    status,
)
from jupyter_jax_trainer.text import duration

_QUEUE = "kueue.x-k8s.io/queue-name"
_SLOW = 10.0  # seconds in which a controller should have done its part
_SAME = 3.0  # seconds by which the times of events and objects may differ


def _spec(seen: Seen) -> Json:
    return (seen.trainjob or {}).get("spec") or {}


def _queue(seen: Seen) -> str:
    labels = ((seen.trainjob or {}).get("metadata") or {}).get("labels") or {}
    return str(labels.get(_QUEUE, ""))


def _age(seen: Seen) -> float:
    metadata = (seen.trainjob or {}).get("metadata") or {}
    return seen.now - (seconds(metadata.get("creationTimestamp")) or seen.now)


def _workload(seen: Seen) -> Json | None:
    made = [item for item in seen.workloads if not condition(item, "Finished")]
    return max(made, key=lambda item: str(item["metadata"].get("creationTimestamp")), default=None)


def _stripped(seen: Seen) -> Facts | None:
    """Kueue has let the job in, and yet it stays suspended: its runtimePatches were dropped."""
    workload = _workload(seen)
    admitted = condition(workload, "Admitted")
    if admitted is None or not _spec(seen).get("suspend"):
        return None
    since = seconds(admitted.get("lastTransitionTime")) or seen.now
    return {"time": duration(seen.now - since)} if seen.now - since > _SLOW else None


def _kueue(reason: str) -> Callable[[Seen], Facts | None]:
    def find(seen: Seen) -> Facts | None:
        workload = _workload(seen)
        found = any_condition(workload, "QuotaReserved")
        if not _spec(seen).get("suspend") or found.get("status") != "False":
            return None
        if reason and found.get("reason") != reason:
            return None
        message = message_of(found)
        message = re.sub(r"^couldn't assign flavors to pod set \w+: ", "", message)
        return {"queue": _queue(seen), "what": message}

    return find


def _waits_in_queue(seen: Seen) -> Facts | None:
    queue = _queue(seen)
    return {"queue": queue} if queue and _spec(seen).get("suspend") else None


def _suspended(seen: Seen) -> Facts | None:
    return {} if _spec(seen).get("suspend") else None


def missing(seen: Seen) -> int:
    """Count the ranks that have no pod."""
    return seen.nodes - len(seen.made)


def refusal(seen: Seen) -> Refused | None:
    """Give what a controller was refused for the job, unless it succeeded later."""
    lacking = missing(seen)
    if lacking <= 0 or _spec(seen).get("suspend"):
        return None
    pods = who(lacking, seen.nodes)
    event = seen.last_event(seen.jobs, "FailedCreate")
    if event is not None and not _made_since(seen, event):
        return Refused(message=message_of(event), who=pods)
    if seen.jobs:
        return None
    event = seen.jobset_event("JobCreationFailed")
    event = event or seen.last_event([seen.trainjob], "TrainJobResourcesCreationFailed")
    if event is None:
        return None
    return Refused(message=message_of(event), who="the job's parts")


def _made_since(seen: Seen, event: Json) -> bool:
    """Tell whether the Job made a pod clearly after an event, or was resumed after it."""
    made = [seconds(pod["metadata"].get("creationTimestamp")) for pod in seen.made.values()]
    resumed = [seconds(status(job).get("startTime")) for job in seen.jobs]
    newest = max((time for time in (*made, *resumed) if time), default=0.0)
    return newest > event_time(event) + _SAME


def _initializing(seen: Seen) -> Facts | None:
    running = [pod for pod in seen.initializers if status(pod).get("phase") != "Succeeded"]
    if not running or seen.live:
        return None
    return {"what": role_of(running[0]).replace("-", " ")}


def _silent(seen: Seen) -> Facts | None:
    """Find a TrainJob of which no controller has made anything."""
    made = seen.jobs or seen.pods or seen.jobset or status(seen.trainjob).get("jobsStatus")
    if made or _age(seen) < _SLOW:
        return None
    return {"time": duration(_age(seen))}


def _jobless(seen: Seen) -> Facts | None:
    if seen.jobs or seen.pods or _age(seen) < _SLOW:
        return None
    return {"time": duration(_age(seen))}


def _no_trainjob(seen: Seen) -> Facts | None:
    return {} if seen.trainjob is None else None


QUEUED = (
    Cause(
        id="trainjob-missing",
        symptom="The TrainJob is not made yet",
        where="there is no TrainJob",
        sentence="waits for its TrainJob",
        find=_no_trainjob,
    ),
    Cause(
        id="kueue-drops-patches",
        symptom="Kueue has let the job in, and it stays suspended",
        where="Workload `Admitted`, TrainJob still `suspend: true`",
        sentence="Kueue let the job in {time} ago, and it is still suspended",
        hint="Kueue up to 0.16 drops a TrainJob's runtimePatches, and then it can't start. Leave "
        "out --volume and --service-account, or have a runtime made that has them (--runtime).",
        state="Queued",
        find=_stripped,
    ),
    Cause(
        id="kueue-inadmissible",
        symptom="Kueue can't let the job in: the queue does not exist or is stopped",
        where="Workload condition `QuotaReserved=False`, `Inadmissible`",
        sentence="the queue {queue} takes no jobs: {what}",
        hint="Check --queue; `kubectl get localqueues` lists those of the namespace.",
        state="Queued",
        find=_kueue("Inadmissible"),
    ),
    Cause(
        id="kueue-pending",
        symptom="The job waits in Kueue's queue",
        where="Workload condition `QuotaReserved=False`, `Pending`",
        sentence="waits in the queue {queue}: {what}",
        hint="It starts by itself when there is room. Asking for less may bring it in earlier.",
        state="Queued",
        find=_kueue(""),
    ),
    Cause(
        id="queued",
        symptom="The job waits in a queue of which nothing more is known",
        where="TrainJob `Suspended` with the label of a queue",
        sentence="waits in the queue {queue}",
        hint="It starts by itself when there is room. If it never does, check that the queue "
        "exists and that Kueue is installed.",
        state="Queued",
        find=_waits_in_queue,
    ),
    Cause(
        id="suspended",
        symptom="The job is suspended",
        where="TrainJob `Suspended`",
        sentence="its pods have ended until it is resumed",
        hint="`%jaxtrain resume` starts it again, from the beginning of its cell.",
        state="Suspended",
        find=_suspended,
    ),
    Cause(
        id="initializing",
        symptom="Data or a model are being fetched first",
        where="pods of the replicated Jobs `dataset-initializer`, `model-initializer`",
        sentence="waits for its {what}",
        find=_initializing,
    ),
    Cause(
        id="trainer-silent",
        symptom="Kubeflow Trainer does nothing for the job",
        where="TrainJob without conditions and without Jobs",
        sentence="Kubeflow Trainer has done nothing for the job for {time}",
        hint="Its controller may be down or starting: the job goes on when it is back. Tell those "
        "who run the cluster.",
        find=_silent,
    ),
    Cause(
        id="jobset-silent",
        symptom="JobSet does nothing for the job",
        where="TrainJob with a JobSet that has no Jobs",
        sentence="JobSet has made no Jobs for {time}",
        hint="Its controller may be down or starting: the job goes on when it is back. Tell those "
        "who run the cluster.",
        find=_jobless,
    ),
)
