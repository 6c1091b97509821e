"""Read from a pod, or from a TrainJob, how it has ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jupyter_jax_trainer.backends.kubernetes.api.objects import Ended, Pod
from jupyter_jax_trainer.backends.kubernetes.api.observed import Seen
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.cause import Words
from jupyter_jax_trainer.text import duration

_START = ("StartError", "ContainerCannotRun")
_NODE = ("NodeShutdown", "Shutdown", "NodeLost", "Terminated")


def last_end(pod: Pod) -> Ended | None:
    """Return how the training container ended last: now, or in an attempt before this one."""
    trainer = next(iter(pod.states), None)
    return None if trainer is None else trainer.ended or trainer.ended_before


@dataclass(frozen=True)
class Broken:
    """A container that had to do something before the training, and failed.

    Attributes
    ----------
    source
        The name of its log.
    what
        What it is, for a person.
    code
        Its exit code.
    """

    source: int | str
    what: str
    code: int


def broken_before(pods: Iterable[Pod]) -> Broken | None:
    """Find the first initializer or init container that failed."""
    found: list[tuple[float, Broken]] = []
    for pod in pods:
        rank, role = pod.rank, pod.role
        sidecars = [one.name for one in pod.of.init_containers if one.is_sidecar]
        for container in pod.states if rank is None else pod.init_states:
            end, name = container.ended, container.name
            if end is None or not end.raw_code or name in sidecars:
                continue
            what = f"the init container {name} of rank {rank}"
            if rank is None:
                what = "the " + (role if name == role else f"{name} of the {role}")
                what = what.replace("-", " ")
            found.append((end.time or 0.0, Broken(pod.log_of(name), what, end.raw_code)))
    return min(found, key=lambda item: item[0])[1] if found else None


def initializer_failed(seen: Seen) -> Words | None:
    """Find what failed before the ranks could start."""
    found = broken_before(seen.pods)
    if found is None:
        return None
    return {"source": str(found.source), "what": found.what, "code": str(found.code)}


def out_of_memory(pod: Pod) -> bool:
    """Return whether the container was killed for lack of memory."""
    end = last_end(pod)
    return end is not None and end.reason == "OOMKilled"


def deleted_by_its_job(seen: Seen, pod: Pod) -> bool:
    """Return whether a pod is deleted only because its job has ended or is suspended."""
    when = pod.deleted
    if when is None:
        return False
    gone = [event for job in seen.jobs for event in seen.events_of(job, "SuccessfulDelete")]
    if any(event.message.endswith(f" {pod.name}") for event in gone):
        return True
    if seen.trainjob is None or seen.trainjob.deleted is not None:
        return True
    whole = seen.trainjob.condition("Failed", "Complete", "Suspended")
    if whole is not None and whole.reason in ("DeadlineExceeded", "Suspended"):
        return (whole.since or when) <= when
    ends = [job.condition("FailureTarget", "Failed", "Complete") for job in seen.jobs]
    times = [found.since for found in (whole, *ends) if found is not None]
    return any(time is not None and time < when for time in times)


def evicted(pattern: str) -> Callable[[Seen, Pod], Words | None]:
    """Look for an eviction by the kubelet whose message fits."""

    def look(_: Seen, pod: Pod) -> Words | None:
        message = pod.message
        if pod.reason != "Evicted" or not re.search(pattern, message):
            return None
        return {"what": message.partition(". ")[0].strip().rstrip(".")}

    return look


def disrupted(*reasons: str) -> Callable[[Seen, Pod], Words | None]:
    """Look for a disruption by the cluster for one of these reasons; for any without them."""

    def look(_: Seen, pod: Pod) -> Words | None:
        found = pod.condition("DisruptionTarget")
        if found is None or (reasons and found.reason not in reasons):
            return None
        return {"node": _node(pod), "what": found.what}

    return look


def node_ended(seen: Seen, pod: Pod) -> Words | None:
    """Look for the loss of the pod's node."""
    by_condition = disrupted("DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet")
    if pod.reason in _NODE:
        return {"node": _node(pod)}
    return by_condition(seen, pod)


def memory(_: Seen, pod: Pod) -> Words | None:
    """Look for a lack of memory."""
    if not out_of_memory(pod):
        return None
    limit = pod.of.trainer.resources.limits.get("memory")
    return at_limit(limit) if limit else {"limit": "its node's capacity"}


def at_limit(limit: str) -> Words:
    """Return the words for a container that reached its limit."""
    return {"limit": f"its limit of {limit}"}


def not_started(pattern: str) -> Callable[[Seen, Pod], Words | None]:
    """Look for a container that could not be started, with a message that fits."""

    def look(_: Seen, pod: Pod) -> Words | None:
        end = last_end(pod)
        if end is None or end.reason not in _START:
            return None
        found = re.search(pattern, end.message, re.DOTALL)
        return None if found is None else {"image": pod.of.trainer.image, **found.groupdict()}

    return look


def rejected(_: Seen, pod: Pod) -> Words | None:
    """Look for a pod that its node did not take."""
    if pod.phase != "Failed" or last_end(pod) is not None or not pod.reason:
        return None
    return {"node": _node(pod), "what": pod.message or pod.reason}


def deleted(seen: Seen, pod: Pod) -> Words | None:
    """Look for a pod that somebody deleted."""
    if pod.deleted is None or deleted_by_its_job(seen, pod):
        return None
    return {} if pod.phase != "Succeeded" else None


def _node(pod: Pod) -> str:
    return pod.of.node or "(name unknown)"


def of_job(reason: str) -> Callable[[Seen], Words | None]:
    """Find the failure of a TrainJob for a reason; for any if it is empty."""

    def find(seen: Seen) -> Words | None:
        if seen.trainjob is None:
            return None
        found = seen.trainjob.condition("Failed")
        if found is None or (reason and found.reason != reason):
            return None
        limit = seen.trainjob.deadline
        time = duration(float(limit)).replace(".0 s", " s") if limit else ""
        return {"what": found.what, "time": time}

    return find


def job_failed(seen: Seen) -> Words | None:
    """Find the failure of a Job."""
    for job in seen.jobs:
        found = job.condition("Failed", "FailureTarget")
        if found is not None:
            return {"what": found.what}
    return None


def being_deleted(seen: Seen) -> Words | None:
    """Find a TrainJob that is being deleted."""
    return {} if seen.trainjob is not None and seen.trainjob.deleted is not None else None
