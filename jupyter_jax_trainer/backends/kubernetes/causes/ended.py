"""Causes for which a pod, or the whole job, has ended."""

from __future__ import annotations

import re
from collections.abc import Callable

from jupyter_jax_trainer.backends.kubernetes.causes.cause import Cause, Facts
from jupyter_jax_trainer.backends.kubernetes.seen import (
    Json,
    Seen,
    condition,
    container_spec,
    containers,
    deleted_at,
    image_of,
    seconds,
    status,
)
from jupyter_jax_trainer.text import duration

_START = ("StartError", "ContainerCannotRun")
_NODE = ("NodeShutdown", "Shutdown", "NodeLost", "Terminated")
_AGAIN = "Run the cell again"


def last_end(pod: Json) -> Json | None:
    """Give how the training container ended last: now, or in an attempt before this one."""
    for container in containers(pod)[:1]:
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            if state.get("terminated"):
                return dict(state["terminated"])
    return None


def out_of_memory(pod: Json) -> bool:
    """Tell whether the container was killed for lack of memory."""
    return (last_end(pod) or {}).get("reason") == "OOMKilled"


def deleted_by_its_job(seen: Seen, pod: Json) -> bool:
    """Tell whether a pod is deleted only because its job has ended or is suspended."""
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


def _evicted(pattern: str) -> Callable[[Seen, Json], Facts | None]:
    def look(_: Seen, pod: Json) -> Facts | None:
        found = status(pod)
        message = str(found.get("message") or "")
        if found.get("reason") != "Evicted" or not re.search(pattern, message):
            return None
        return {"what": message.partition(". ")[0].strip().rstrip(".")}

    return look


def _disrupted(*reasons: str) -> Callable[[Seen, Json], Facts | None]:
    def look(_: Seen, pod: Json) -> Facts | None:
        found = condition(pod, "DisruptionTarget")
        if found is None or (reasons and found.get("reason") not in reasons):
            return None
        return {"node": _node(pod), "what": found.get("message") or found.get("reason")}

    return look


def _node_ended(seen: Seen, pod: Json) -> Facts | None:
    by_condition = _disrupted("DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet")
    if status(pod).get("reason") in _NODE:
        return {"node": _node(pod)}
    return by_condition(seen, pod)


def _memory(_: Seen, pod: Json) -> Facts | None:
    if not out_of_memory(pod):
        return None
    limit = ((container_spec(pod).get("resources") or {}).get("limits") or {}).get("memory")
    return {"limit": f"its limit of {limit}" if limit else "what the node has"}


def _not_started(pattern: str) -> Callable[[Seen, Json], Facts | None]:
    def look(_: Seen, pod: Json) -> Facts | None:
        end = last_end(pod) or {}
        found = re.search(pattern, str(end.get("message") or ""), re.DOTALL)
        if end.get("reason") not in _START or found is None:
            return None
        return {"image": image_of(pod), **found.groupdict()}

    return look


def _rejected(_: Seen, pod: Json) -> Facts | None:
    found = status(pod)
    if found.get("phase") != "Failed" or last_end(pod) or not found.get("reason"):
        return None
    return {"node": _node(pod), "what": found.get("message") or found["reason"]}


def _deleted(seen: Seen, pod: Json) -> Facts | None:
    if deleted_at(pod) is None or deleted_by_its_job(seen, pod):
        return None
    return {} if status(pod).get("phase") != "Succeeded" else None


def _node(pod: Json) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "it was on")


def _of_job(reason: str) -> Callable[[Seen], Facts | None]:
    def find(seen: Seen) -> Facts | None:
        found = condition(seen.trainjob, "Failed")
        if found is None or (reason and found.get("reason") != reason):
            return None
        limit = ((seen.trainjob or {}).get("spec") or {}).get("activeDeadlineSeconds")
        time = duration(float(limit)).replace(".0 s", " s") if limit else ""
        return {"what": found.get("message") or found.get("reason"), "time": time}

    return find


def _job_failed(seen: Seen) -> Facts | None:
    for job in seen.jobs:
        found = condition(job, "Failed", "FailureTarget")
        if found is not None:
            return {"what": found.get("message") or found.get("reason")}
    return None


def _being_deleted(seen: Seen) -> Facts | None:
    return {} if seen.trainjob is not None and deleted_at(seen.trainjob) is not None else None


ENDS: tuple[tuple[Cause, Callable[[Seen, Json], Facts | None]], ...] = (
    (
        Cause(
            id="out-of-memory",
            symptom="A container needs more memory than it may have",
            where="container `terminated` or `lastState`: `OOMKilled`",
            sentence="was killed: out of memory at {limit}",
            hint="Ask for more with --memory, use smaller batches or more nodes, or send less.",
            state="Failed",
            ends=True,
        ),
        _memory,
    ),
    (
        Cause(
            id="evicted-disk",
            symptom="A pod is evicted because it has written too much to its disk",
            where="pod `status.reason` Evicted",
            sentence="was evicted: {what}",
            hint="Write less to the container's own disk, or to a volume (--volume).",
            state="Failed",
            ends=True,
        ),
        _evicted("storage|disk|inodes|EmptyDir"),
    ),
    (
        Cause(
            id="evicted",
            symptom="A pod is evicted because its node is short of memory or something else",
            where="pod `status.reason` Evicted",
            sentence="was evicted: {what}",
            hint="Ask for what the job needs with --memory: pods that use more than they asked for "
            "are evicted first.",
            state="Failed",
            ends=True,
        ),
        _evicted(""),
    ),
    (
        Cause(
            id="preempted",
            symptom="A pod is removed for one with a higher priority",
            where="pod condition `DisruptionTarget`, `PreemptionByScheduler`",
            sentence="was removed to make room for a pod with a higher priority",
            hint=f"{_AGAIN} when there is room, or with a higher --priority.",
            state="Failed",
            ends=True,
        ),
        _disrupted("PreemptionByScheduler"),
    ),
    (
        Cause(
            id="drained",
            symptom="A pod is evicted through the API, as when a node is emptied",
            where="pod condition `DisruptionTarget`, `EvictionByEvictionAPI`",
            sentence="was evicted: somebody empties its node {node}",
            hint=f"{_AGAIN}. With checkpoints (checkpoint_dir) and --max-restarts a job goes on by "
            "itself.",
            state="Failed",
            ends=True,
        ),
        _disrupted("EvictionByEvictionAPI"),
    ),
    (
        Cause(
            id="node-lost",
            symptom="The node of a pod is lost or shut down",
            where="pod condition `DisruptionTarget`: `DeletionByTaintManager`, `DeletionByPodGC`, "
            "`TerminationByKubelet`; `status.reason`: NodeLost, NodeShutdown, Terminated",
            sentence="was lost with its node {node}",
            hint=f"{_AGAIN}. Spot machines go like this: save checkpoints (checkpoint_dir) and add "
            "--max-restarts.",
            state="Failed",
            ends=True,
        ),
        _node_ended,
    ),
    (
        Cause(
            id="disrupted",
            symptom="A pod is ended by the cluster for another reason",
            where="pod condition `DisruptionTarget`",
            sentence="was ended by the cluster: {what}",
            hint=f"{_AGAIN}.",
            state="Failed",
            ends=True,
        ),
        _disrupted(),
    ),
    (
        Cause(
            id="program-missing",
            symptom="The image lacks a program, and the runtime tries only once",
            where="container `terminated`: `StartError`",
            sentence="could not start: the image {image} has no {program}",
            hint="Use an image with a shell, Python and JAX (--image).",
            state="Failed",
            ends=True,
        ),
        _not_started(
            r'exec: "(?P<program>[^"]+)": (?:executable file not found|stat \S+: no such file)'
        ),
    ),
    (
        Cause(
            id="wrong-processor",
            symptom="The image is for another kind of processor, and the runtime tries only once",
            where="container `terminated`: `StartError`",
            sentence="could not start: the image {image} is not made for its node's processors",
            hint="Choose an image for the node's architecture, or nodes that fit the image.",
            state="Failed",
            ends=True,
        ),
        _not_started("exec format error"),
    ),
    (
        Cause(
            id="not-started",
            symptom="The container can't be started, and the runtime tries only once",
            where="container `terminated`: `StartError`",
            sentence="could not start: {what}",
            hint="Show this to those who run the cluster.",
            state="Failed",
            ends=True,
        ),
        _not_started(r"(?:^|container process: )(?P<what>(?:(?!container process: |: unknown$).)*)"
                     r"(?:: unknown)?$"),  # fmt: skip
    ),
    (
        Cause(
            id="node-refused",
            symptom="The node refuses a pod that was given to it",
            where="pod `Failed` without a container: `OutOfcpu`, `UnexpectedAdmissionError`",
            sentence="was refused by its node {node}: {what}",
            hint=f"{_AGAIN}; if it happens again, tell those who run the cluster.",
            state="Failed",
            ends=True,
        ),
        _rejected,
    ),
    (
        Cause(
            id="pod-deleted",
            symptom="Somebody deletes a pod",
            where="pod `deletionTimestamp`, though its job goes on",
            sentence="was ended: somebody deleted its pod",
            hint=f"{_AGAIN}.",
            state="Failed",
            ends=True,
        ),
        _deleted,
    ),
)


def end_row(seen: Seen, pod: Json) -> tuple[Cause, Facts] | None:
    """Give the row for how a pod has ended; None where the cluster does not explain it."""
    for cause, look in ENDS:
        if (facts := look(seen, pod)) is not None:
            return cause, facts
    return None


FAILED = (
    Cause(
        id="runtime-unsupported",
        symptom="The runtime is gone, or this Trainer can't use it",
        where="TrainJob `Failed`, `TrainingRuntimeNotSupported`",
        sentence="Kubeflow Trainer can't use the runtime: {what}",
        hint="`%jaxtrain runtimes` lists those that there are; choose one with --runtime.",
        state="Failed",
        find=_of_job("TrainingRuntimeNotSupported"),
    ),
    Cause(
        id="deadline",
        symptom="The job takes longer than it may",
        where="TrainJob `Failed`, `DeadlineExceeded`",
        sentence="took longer than its --timeout of {time}",
        hint="Give it more with --timeout. Checkpoints (checkpoint_dir) let the next job go on.",
        state="Failed",
        find=_of_job("DeadlineExceeded"),
    ),
)

DELETED = Cause(
    id="trainjob-deleted",
    symptom="Somebody deletes the TrainJob",
    where="TrainJob `deletionTimestamp`",
    sentence="its TrainJob is being deleted",
    hint=f"If it wasn't you, somebody else may do so. {_AGAIN}.",
    find=_being_deleted,
)

OTHER = (
    Cause(
        id="failed",
        symptom="The job fails, and no pod is left that could say why",
        where="TrainJob `Failed`",
        sentence="the cluster says: {what}",
        hint="`%jaxtrain logs` shows what the ranks printed.",
        state="Failed",
        find=_of_job(""),
    ),
    Cause(
        id="job-failed",
        symptom="The Job of the ranks fails",
        where="Job `FailureTarget` or `Failed`",
        sentence="the cluster says: {what}",
        hint="`%jaxtrain logs` shows what the ranks printed.",
        state="Failed",
        find=_job_failed,
    ),
)


def how_it_ended(seen: Seen, pod: Json) -> str:
    """Say in a few words how the attempt before this one ended."""
    row = end_row(seen, pod)
    code = (last_end(pod) or {}).get("exitCode", "?")
    return row[0].say(row[1]) if row else f"ended with exit code {code}"
