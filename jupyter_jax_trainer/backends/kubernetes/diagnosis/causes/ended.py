"""Causes for which a pod, or the whole job, has ended."""

from __future__ import annotations

from collections.abc import Callable

from jupyter_jax_trainer.backends.kubernetes.api.objects import Pod
from jupyter_jax_trainer.backends.kubernetes.api.observed import Seen
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.cause import Cause, Words
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.endings import (
    being_deleted,
    deleted,
    disrupted,
    evicted,
    initializer_failed,
    job_failed,
    last_end,
    memory,
    node_ended,
    not_started,
    of_job,
    rejected,
)
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.states import State

_AGAIN = "Run the cell again"

OUT_OF_MEMORY = Cause(
    id="out-of-memory",
    where="container `terminated` or `lastState`: `OOMKilled`",
    sentence="was killed: out of memory at {limit}",
    hint="Ask for more with --memory, use smaller batches or more nodes, or send less.",
    state=State.FAILED,
    ends=True,
)

ENDS: tuple[tuple[Cause, Callable[[Seen, Pod], Words | None]], ...] = (
    (
        OUT_OF_MEMORY,
        memory,
    ),
    (
        Cause(
            id="evicted-disk",
            symptom="It wrote too much to its disk",
            where="pod `status.reason` Evicted",
            sentence="was evicted: {what}",
            hint="Write less to the container's own disk, or write to a volume (--volume).",
            state=State.FAILED,
            ends=True,
        ),
        evicted("storage|disk|inodes|EmptyDir"),
    ),
    (
        Cause(
            id="evicted",
            symptom="Its node ran out of memory or another resource",
            where="pod `status.reason` Evicted",
            sentence="was evicted: {what}",
            hint="Request what the job needs with --memory: pods that exceed their request are "
            "evicted first.",
            state=State.FAILED,
            ends=True,
        ),
        evicted(""),
    ),
    (
        Cause(
            id="preempted",
            where="pod condition `DisruptionTarget`, `PreemptionByScheduler`",
            sentence="was preempted by a pod with a higher priority",
            hint=f"{_AGAIN} when there is room, or with a higher --priority.",
            state=State.FAILED,
            ends=True,
        ),
        disrupted("PreemptionByScheduler"),
    ),
    (
        Cause(
            id="drained",
            where="pod condition `DisruptionTarget`, `EvictionByEvictionAPI`",
            sentence="was evicted: its node {node} is being drained",
            hint=f"{_AGAIN}. With checkpoints (checkpoint_dir) and --max-restarts, a job "
            "continues by itself.",
            state=State.FAILED,
            ends=True,
        ),
        disrupted("EvictionByEvictionAPI"),
    ),
    (
        Cause(
            id="node-lost",
            where="pod condition `DisruptionTarget`: `DeletionByTaintManager`, `DeletionByPodGC`, "
            "`TerminationByKubelet`; `status.reason`: NodeLost, NodeShutdown, Terminated",
            sentence="was lost with its node {node}",
            hint=f"{_AGAIN}. Spot machines can disappear at any time: save checkpoints "
            "(checkpoint_dir) and add --max-restarts.",
            state=State.FAILED,
            ends=True,
        ),
        node_ended,
    ),
    (
        Cause(
            id="disrupted",
            where="pod condition `DisruptionTarget`",
            sentence="was terminated by the cluster: {what}",
            hint=f"{_AGAIN}.",
            state=State.FAILED,
            ends=True,
        ),
        disrupted(),
    ),
    (
        Cause(
            id="program-missing",
            where="container `terminated`: `StartError`",
            sentence="could not start: the image {image} has no {program}",
            hint="Use an image with a shell, Python and JAX (--image).",
            state=State.FAILED,
            ends=True,
        ),
        not_started(
            r'exec: "(?P<program>[^"]+)": (?:executable file not found|stat \S+: no such file)'
        ),
    ),
    (
        Cause(
            id="wrong-processor",
            where="container `terminated`: `StartError`",
            sentence="could not start: the image {image} does not support the CPU architecture of "
            "its node",
            hint="Choose an image for the node's architecture, or nodes that fit the image.",
            state=State.FAILED,
            ends=True,
        ),
        not_started("exec format error"),
    ),
    (
        Cause(
            id="not-started",
            where="container `terminated`: `StartError`",
            sentence="could not start: {what}",
            hint="Show this to a cluster administrator.",
            state=State.FAILED,
            ends=True,
        ),
        not_started(
            r"(?:^|container process: )(?P<what>(?:(?!container process: |: unknown$).)*)"
            r"(?:: unknown)?$"
        ),
    ),
    (
        Cause(
            id="node-refused",
            where="pod `Failed` without a container: `OutOfcpu`, `UnexpectedAdmissionError`",
            sentence="was rejected by its node {node}: {what}",
            hint=f"{_AGAIN}; if it happens again, tell a cluster administrator.",
            state=State.FAILED,
            ends=True,
        ),
        rejected,
    ),
    (
        Cause(
            id="pod-deleted",
            where="pod `deletionTimestamp`, while its job continues",
            sentence="was terminated: its pod was deleted",
            hint=f"{_AGAIN}.",
            state=State.FAILED,
            ends=True,
        ),
        deleted,
    ),
)


def end_row(seen: Seen, pod: Pod) -> tuple[Cause, Words] | None:
    """Return the row for how a pod has ended; None where the cluster does not explain it."""
    for cause, look in ENDS:
        if (facts := look(seen, pod)) is not None:
            return cause, facts
    return None


FAILED = (
    Cause(
        id="runtime-unsupported",
        symptom="It no longer exists, or this version of Trainer doesn't support it",
        where="TrainJob `Failed`, `TrainingRuntimeNotSupported`",
        sentence="Kubeflow Trainer can't use the runtime: {what}",
        hint="`%jaxtrain runtimes` lists the available runtimes; choose one with --runtime.",
        state=State.FAILED,
        find=of_job("TrainingRuntimeNotSupported"),
    ),
    Cause(
        id="deadline",
        where="TrainJob `Failed`, `DeadlineExceeded`",
        sentence="took longer than its --timeout of {time}",
        hint="Raise --timeout. With checkpoints (checkpoint_dir), the next job can continue.",
        state=State.FAILED,
        find=of_job("DeadlineExceeded"),
    ),
)

DELETED = Cause(
    id="trainjob-deleted",
    where="TrainJob `deletionTimestamp`",
    sentence="its TrainJob is being deleted",
    hint=f"If you didn't delete it, somebody else did. {_AGAIN}.",
    find=being_deleted,
)

OTHER = (
    Cause(
        id="initializer-failed",
        symptom="A data set or model initializer, or another init container",
        where="container `terminated` with a nonzero exit code: of a pod of the replicated Jobs "
        "`dataset-initializer`, `model-initializer`, or an init container",
        sentence="{what} failed with exit code {code}",
        hint="`%jaxtrain logs --container {source}` shows its output.",
        state=State.FAILED,
        find=initializer_failed,
    ),
    Cause(
        id="failed",
        symptom="No pod is left to show why",
        where="TrainJob `Failed`",
        sentence="cluster: {what}",
        hint="`%jaxtrain logs` shows the output of the ranks.",
        state=State.FAILED,
        find=of_job(""),
    ),
    Cause(
        id="job-failed",
        where="Job `FailureTarget` or `Failed`",
        sentence="cluster: {what}",
        hint="`%jaxtrain logs` shows the output of the ranks.",
        state=State.FAILED,
        find=job_failed,
    ),
)


def how_it_ended(seen: Seen, pod: Pod) -> str:
    """Say in a few words how the attempt before this one ended."""
    row, end = end_row(seen, pod), last_end(pod)
    code = "?" if end is None else end.raw_code
    return row[0].say(row[1]) if row else say.EXITED(code=code)
