"""Read from a pod, or from a TrainJob, how it has ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jupyter_jax_trainer.backends.kubernetes.api.observed import (
    Json,
    Seen,
    condition,
    container_spec,
    containers,
    deleted_at,
    image_of,
    log_of,
    message_of,
    rank_of,
    role_of,
    seconds,
    status,
)
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.cause import Facts
from jupyter_jax_trainer.text import duration

_START = ("StartError", "ContainerCannotRun")
_NODE = ("NodeShutdown", "Shutdown", "NodeLost", "Terminated")


def last_end(pod: Json) -> Json | None:
    """Return how the training container ended last: now, or in an attempt before this one."""
    for container in containers(pod)[:1]:
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            if state.get("terminated"):
                return dict(state["terminated"])
    return None


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


def broken_before(pods: Iterable[Json]) -> Broken | None:
    """Find the first initializer or init container that failed."""
    found: list[tuple[float, Broken]] = []
    for pod in pods:
        rank, kind = rank_of(pod), "initContainerStatuses"
        first = (pod.get("spec") or {}).get("initContainers") or []
        sidecars = [one.get("name") for one in first if one.get("restartPolicy") == "Always"]
        for container in containers(pod) if rank is None else status(pod).get(kind) or ():
            end = (container.get("state") or {}).get("terminated") or {}
            name = str(container.get("name"))
            if not end.get("exitCode") or name in sidecars:
                continue
            what = f"the init container {name} of rank {rank}"
            if rank is None:
                role = role_of(pod)
                what = "the " + (role if name == role else f"{name} of the {role}")
                what = what.replace("-", " ")
            ended = seconds(end.get("finishedAt")) or 0.0
            found.append((ended, Broken(log_of(pod, name), what, int(end["exitCode"]))))
    return min(found, key=lambda item: item[0])[1] if found else None


def initializer_failed(seen: Seen) -> Facts | None:
    """Find what failed before the ranks could start."""
    found = broken_before(seen.pods)
    return None if found is None else vars(found)


def out_of_memory(pod: Json) -> bool:
    """Return whether the container was killed for lack of memory."""
    return (last_end(pod) or {}).get("reason") == "OOMKilled"


def deleted_by_its_job(seen: Seen, pod: Json) -> bool:
    """Return whether a pod is deleted only because its job has ended or is suspended."""
    when = deleted_at(pod)
    if when is None:
        return False
    name = pod["metadata"].get("name")
    gone = [event for job in seen.jobs for event in seen.events_of(job, "SuccessfulDelete")]
    if any(str(event.get("message")).endswith(f" {name}") for event in gone):
        return True
    if seen.trainjob is None or deleted_at(seen.trainjob) is not None:
        return True
    whole = condition(seen.trainjob, "Failed", "Complete", "Suspended") or {}
    if whole.get("reason") in ("DeadlineExceeded", "Suspended"):
        return (seconds(whole.get("lastTransitionTime")) or when) <= when
    ends = [condition(job, "FailureTarget", "Failed", "Complete") for job in seen.jobs]
    times = [seconds(found.get("lastTransitionTime")) for found in (whole, *ends) if found]
    return any(time is not None and time < when for time in times)


def evicted(pattern: str) -> Callable[[Seen, Json], Facts | None]:
    """Look for an eviction by the kubelet whose message fits."""

    def look(_: Seen, pod: Json) -> Facts | None:
        found = status(pod)
        message = str(found.get("message") or "")
        if found.get("reason") != "Evicted" or not re.search(pattern, message):
            return None
        return {"what": message.partition(". ")[0].strip().rstrip(".")}

    return look


def disrupted(*reasons: str) -> Callable[[Seen, Json], Facts | None]:
    """Look for a disruption by the cluster for one of these reasons; for any without them."""

    def look(_: Seen, pod: Json) -> Facts | None:
        found = condition(pod, "DisruptionTarget")
        if found is None or (reasons and found.get("reason") not in reasons):
            return None
        return {"node": _node(pod), "what": found.get("message") or found.get("reason")}

    return look


def node_ended(seen: Seen, pod: Json) -> Facts | None:
    """Look for the loss of the pod's node."""
    by_condition = disrupted("DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet")
    if status(pod).get("reason") in _NODE:
        return {"node": _node(pod)}
    return by_condition(seen, pod)


def memory(_: Seen, pod: Json) -> Facts | None:
    """Look for a lack of memory."""
    if not out_of_memory(pod):
        return None
    limit = ((container_spec(pod).get("resources") or {}).get("limits") or {}).get("memory")
    return {"limit": f"its limit of {limit}" if limit else "the memory of its node"}


def not_started(pattern: str) -> Callable[[Seen, Json], Facts | None]:
    """Look for a container that could not be started, with a message that fits."""

    def look(_: Seen, pod: Json) -> Facts | None:
        end = last_end(pod) or {}
        found = re.search(pattern, message_of(end), re.DOTALL)
        if end.get("reason") not in _START or found is None:
            return None
        return {"image": image_of(pod), **found.groupdict()}

    return look


def rejected(_: Seen, pod: Json) -> Facts | None:
    """Look for a pod that its node did not take."""
    found = status(pod)
    if found.get("phase") != "Failed" or last_end(pod) or not found.get("reason"):
        return None
    return {"node": _node(pod), "what": found.get("message") or found["reason"]}


def deleted(seen: Seen, pod: Json) -> Facts | None:
    """Look for a pod that somebody deleted."""
    if deleted_at(pod) is None or deleted_by_its_job(seen, pod):
        return None
    return {} if status(pod).get("phase") != "Succeeded" else None


def _node(pod: Json) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "it was on")


def of_job(reason: str) -> Callable[[Seen], Facts | None]:
    """Find the failure of a TrainJob for a reason; for any if it is empty."""

    def find(seen: Seen) -> Facts | None:
        found = condition(seen.trainjob, "Failed")
        if found is None or (reason and found.get("reason") != reason):
            return None
        limit = ((seen.trainjob or {}).get("spec") or {}).get("activeDeadlineSeconds")
        time = duration(float(limit)).replace(".0 s", " s") if limit else ""
        return {"what": found.get("message") or found.get("reason"), "time": time}

    return find


def job_failed(seen: Seen) -> Facts | None:
    """Find the failure of a Job."""
    for job in seen.jobs:
        found = condition(job, "Failed", "FailureTarget")
        if found is not None:
            return {"what": found.get("message") or found.get("reason")}
    return None


def being_deleted(seen: Seen) -> Facts | None:
    """Find a TrainJob that is being deleted."""
    return {} if seen.trainjob is not None and deleted_at(seen.trainjob) is not None else None
