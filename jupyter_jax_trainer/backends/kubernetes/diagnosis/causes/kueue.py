"""Causes for which Kueue keeps a job from starting, or has taken it back."""

from __future__ import annotations

import re
from collections.abc import Callable

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api.objects import Workload
from jupyter_jax_trainer.backends.kubernetes.api.observed import Seen
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.cause import Cause, Words
from jupyter_jax_trainer.backends.kubernetes.submit.queues import QUEUE
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.text import duration


def queue_of(seen: Seen) -> str:
    """Return the queue of the TrainJob; empty where it is in none."""
    return "" if seen.trainjob is None else seen.trainjob.labels.get(QUEUE, "")


def workload_of(seen: Seen) -> Workload | None:
    """Return the Workload that counts: the newest that is not over."""
    made = [item for item in seen.workloads if item.condition("Finished") is None]
    return max(made, key=lambda item: item.created, default=None)


def is_active(workload: Workload | None) -> bool:
    """Return whether Kueue may let a job in: nobody has stopped it."""
    return workload is None or workload.is_active


def _stripped(seen: Seen) -> Words | None:
    """Kueue has let the job in, and yet its Jobs stay suspended: runtimePatches were dropped.

    JobSet's webhook then refuses what Trainer makes of the rest.
    """
    workload = workload_of(seen)
    admitted = workload.condition("Admitted") if workload else None
    if workload is None or admitted is None or workload.condition("Evicted"):
        return None
    refused = seen.events_of(seen.trainjob, "TrainJobResourcesCreationFailed")
    if not seen.suspended and (seen.made or not refused):
        return None
    waited = seen.now - (admitted.since or seen.now)
    return {"time": duration(waited)} if waited > timeouts.CONTROLLER.seconds else None


def _stopped(seen: Seen) -> Words | None:
    """Kueue itself has taken the job out: it was let in too often, or has run too long."""
    workload = workload_of(seen)
    evicted = workload.condition("Evicted") if workload else None
    if evicted is None or not evicted.reason.startswith("DeactivatedDueTo"):
        return None
    return {"what": evicted.message.removeprefix("The workload is deactivated due to ")}


def _kueue(*reasons: str, says: str = "") -> Callable[[Seen], Words | None]:
    """Find a job that Kueue does not let in, for one of these reasons."""

    def find(seen: Seen) -> Words | None:
        workload = workload_of(seen)
        if workload is None or not workload.is_active or not seen.suspended:
            return None
        found = workload.any_condition("QuotaReserved")
        if found.status != "False" or (reasons and found.reason not in reasons):
            return None
        if says not in found.message:
            return None
        queue = queue_of(seen) if reasons or says else with_place(seen)
        return {"queue": queue, "what": _plainly(found.message)}

    return find


def _gave_way(seen: Seen) -> Words | None:
    """The job was running, and Kueue has taken it back for another."""
    workload = workload_of(seen)
    if workload is None or not workload.is_active or not seen.suspended:
        return None
    evicted = workload.condition("Evicted")
    if evicted is None or evicted.reason != "Preempted":
        return None
    cohort = "due to prioritization" not in evicted.message
    to = "jobs whose queue reclaimed its quota" if cohort else "a job with higher priority"
    return {"queue": with_place(seen), "to": to}


def with_place(seen: Seen) -> str:
    """Name the queue, and the job's place in its namespace: by priority, then by age."""
    workload = workload_of(seen)
    waiting = [item for item in seen.others if _waits(item)]
    if workload is None or not waiting or workload.condition("QuotaReserved"):
        return queue_of(seen)  # it is alone, or has had its turn and waits for something else
    before = sum(_turn(item) < _turn(workload) for item in waiting)
    return f"{queue_of(seen)} (place {before + 1} of {len(waiting) + 1} jobs of this namespace)"


def _waits(workload: Workload) -> bool:
    return workload.is_active and workload.condition("QuotaReserved", "Finished") is None


def _turn(workload: Workload) -> tuple[int, float, str]:
    return -workload.priority, workload.created, workload.name


def _plainly(message: str) -> str:
    """Put Kueue's words for what is lacking into plain ones."""
    message = re.sub(r"couldn't assign flavors to pod set [\w-]+: ", "", message)
    message = re.sub(
        r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed",
        lambda found: (
            f"it takes {_resource(found[3], found[1])} more than the queue has free "
            f"(flavor {found[2]})"
        ),
        message,
    )
    message = re.sub(
        r"insufficient quota for (\S+) in flavor (\S+), .*?podset request \((\S+)\) > maximum "
        r"capacity \((\S+)\)",
        lambda found: (
            f"{_resource(found[3], found[1])} asked for, {found[4]} in all (flavor {found[2]})"
        ),
        message,
    )
    message = re.sub(
        r"\. Pending the preemption of (\d+) workload\(s\)",
        lambda found: f"; {found[1]} of lower priority will be preempted",
        message,
    )
    return message


def _resource(amount: str, resource: str) -> str:
    if resource == "cpu":
        return f"{amount} CPU{'' if amount == '1' else 's'}"
    return f"{amount} {resource}"


KUEUE = (
    Cause(
        id="kueue-drops-patches",
        where="Workload `Admitted`, no pods, its event `TrainJobResourcesCreationFailed`",
        sentence="Kueue admitted the job {time} ago, but it is still suspended",
        hint="Kueue up to 0.16 drops a TrainJob's runtimePatches, so the job can't start: cancel "
        "it. Make those changes in a runtime instead (--runtime).",
        find=_stripped,
    ),
    Cause(
        id="kueue-inadmissible",
        symptom="The queue does not exist or is stopped",
        where="Workload condition `QuotaReserved=False`, `Inadmissible`",
        sentence="the queue {queue} accepts no jobs: {what}",
        hint="Check --queue; `kubectl get localqueues` lists the queues of the namespace.",
        state=State.QUEUED,
        find=_kueue("Inadmissible"),
    ),
    Cause(
        id="kueue-stopped",
        where="Workload condition `Evicted`, `DeactivatedDueTo…`",
        sentence="Kueue deactivated it: {what}",
        hint="`%jaxtrain resume` puts it back into its queue.",
        state=State.SUSPENDED,
        find=_stopped,
    ),
    Cause(
        id="kueue-preempted",
        where="Workload condition `Evicted`, `Preempted`",
        sentence="preempted by {to}; waits in the queue {queue} again",
        hint="It starts again automatically when there is room, from the beginning of its cell. "
        "Checkpoints in checkpoint_dir() are kept if that is on a shared file system.",
        state=State.QUEUED,
        find=_gave_way,
    ),
    Cause(
        id="kueue-too-large",
        where="Workload condition `QuotaReserved=False`, `Pending`: maximum capacity",
        sentence="the queue {queue} can never admit it: {what}",
        hint="Ask for less (--nodes, --cpu, --memory), or choose another --queue.",
        state=State.QUEUED,
        find=_kueue(says="maximum capacity"),
    ),
    Cause(
        id="kueue-pending",
        where="Workload condition `QuotaReserved=False`, `Pending`",
        sentence="waits in the queue {queue}: {what}",
        hint="It starts automatically when there is room. A smaller job may start earlier.",
        state=State.QUEUED,
        find=_kueue(),
    ),
)
