"""Causes for which Kueue keeps a job from starting, or has taken it back."""

from __future__ import annotations

import re
from collections.abc import Callable

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api.observed import (
    Json,
    Seen,
    any_condition,
    condition,
    message_of,
    seconds,
)
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.cause import Cause, Facts
from jupyter_jax_trainer.backends.kubernetes.submit.queues import QUEUE
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.text import duration


def spec_of(seen: Seen) -> Json:
    """Return the spec of the TrainJob."""
    return (seen.trainjob or {}).get("spec") or {}


def queue_of(seen: Seen) -> str:
    """Return the queue of the TrainJob; empty where it is in none."""
    labels = ((seen.trainjob or {}).get("metadata") or {}).get("labels") or {}
    return str(labels.get(QUEUE, ""))


def workload_of(seen: Seen) -> Json | None:
    """Return the Workload that counts: the newest that is not over."""
    made = [item for item in seen.workloads if not condition(item, "Finished")]
    return max(made, key=lambda item: str(item["metadata"].get("creationTimestamp")), default=None)


def is_active(workload: Json | None) -> bool:
    """Return whether Kueue may let a job in: nobody has stopped it."""
    return ((workload or {}).get("spec") or {}).get("active") is not False


def _stripped(seen: Seen) -> Facts | None:
    """Kueue has let the job in, and yet its Jobs stay suspended: runtimePatches were dropped.

    JobSet's webhook then refuses what Trainer makes of the rest.
    """
    workload = workload_of(seen)
    admitted = condition(workload, "Admitted")
    if admitted is None or condition(workload, "Evicted"):
        return None
    refused = seen.events_of(seen.trainjob, "TrainJobResourcesCreationFailed")
    if not spec_of(seen).get("suspend") and (seen.made or not refused):
        return None
    since = seconds(admitted.get("lastTransitionTime")) or seen.now
    waited = seen.now - since
    return {"time": duration(waited)} if waited > timeouts.CONTROLLER.seconds else None


def _stopped(seen: Seen) -> Facts | None:
    """Kueue itself has taken the job out: it was let in too often, or has run too long."""
    evicted = condition(workload_of(seen), "Evicted")
    if evicted is None or not str(evicted.get("reason")).startswith("DeactivatedDueTo"):
        return None
    return {"what": message_of(evicted).removeprefix("The workload is deactivated due to ")}


def _kueue(*reasons: str, says: str = "") -> Callable[[Seen], Facts | None]:
    """Find a job that Kueue does not let in, for one of these reasons."""

    def find(seen: Seen) -> Facts | None:
        workload = workload_of(seen)
        found = any_condition(workload, "QuotaReserved")
        if not spec_of(seen).get("suspend") or found.get("status") != "False":
            return None
        if not is_active(workload) or (reasons and found.get("reason") not in reasons):
            return None
        message = message_of(found)
        if says not in message:
            return None
        queue = queue_of(seen) if reasons or says else with_place(seen)
        return {"queue": queue, "what": _plainly(message)}

    return find


def _gave_way(seen: Seen) -> Facts | None:
    """The job was running, and Kueue has taken it back for another."""
    workload = workload_of(seen)
    evicted = condition(workload, "Evicted")
    if evicted is None or evicted.get("reason") != "Preempted" or not spec_of(seen).get("suspend"):
        return None
    if not is_active(workload):
        return None
    cohort = "due to prioritization" not in message_of(evicted)
    to = "jobs whose queue reclaimed its quota" if cohort else "a job with higher priority"
    return {"queue": with_place(seen), "to": to}


def with_place(seen: Seen) -> str:
    """Name the queue, and the job's place in its namespace: by priority, then by age."""
    workload = workload_of(seen)
    waiting = [item for item in seen.others if _waits(item)]
    if workload is None or not waiting or condition(workload, "QuotaReserved"):
        return queue_of(seen)  # it is alone, or has had its turn and waits for something else
    before = sum(_turn(item) < _turn(workload) for item in waiting)
    return f"{queue_of(seen)} (place {before + 1} of {len(waiting) + 1} jobs of this namespace)"


def _waits(workload: Json) -> bool:
    return is_active(workload) and not condition(workload, "QuotaReserved", "Finished")


def _turn(workload: Json) -> tuple[int, str, str]:
    priority = int((workload.get("spec") or {}).get("priority") or 0)
    metadata = workload["metadata"]
    return -priority, str(metadata.get("creationTimestamp")), str(metadata.get("name"))


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
        lambda found: f"; {found[1]} of lower priority will end for it",
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
        symptom="Kueue has admitted the job, but it stays suspended",
        where="Workload `Admitted`, no pods, its event `TrainJobResourcesCreationFailed`",
        sentence="Kueue admitted the job {time} ago, but it is still suspended",
        hint="Kueue up to 0.16 drops a TrainJob's runtimePatches, so the job can't start: cancel "
        "it. Make the changes of the patches in a runtime instead (--runtime).",
        find=_stripped,
    ),
    Cause(
        id="kueue-inadmissible",
        symptom="Kueue can't admit the job: the queue does not exist or is stopped",
        where="Workload condition `QuotaReserved=False`, `Inadmissible`",
        sentence="the queue {queue} accepts no jobs: {what}",
        hint="Check --queue; `kubectl get localqueues` lists the queues of the namespace.",
        state=State.QUEUED,
        find=_kueue("Inadmissible"),
    ),
    Cause(
        id="kueue-stopped",
        symptom="Kueue has deactivated the job",
        where="Workload condition `Evicted`, `DeactivatedDueTo…`",
        sentence="Kueue deactivated it: {what}",
        hint="`%jaxtrain resume` puts it back into its queue.",
        state=State.SUSPENDED,
        find=_stopped,
    ),
    Cause(
        id="kueue-preempted",
        symptom="The job was preempted by another one in Kueue's queue",
        where="Workload condition `Evicted`, `Preempted`",
        sentence="preempted by {to}; waits in the queue {queue} again",
        hint="It starts again automatically when there is room, from the beginning of its cell. "
        "Checkpoints in checkpoint_dir() are kept if that is on a shared file system.",
        state=State.QUEUED,
        find=_gave_way,
    ),
    Cause(
        id="kueue-too-large",
        symptom="The job asks for more than its queue can ever provide",
        where="Workload condition `QuotaReserved=False`, `Pending`: maximum capacity",
        sentence="the queue {queue} can never admit it: {what}",
        hint="Ask for less (--nodes, --cpu, --memory), or choose another --queue.",
        state=State.QUEUED,
        find=_kueue(says="maximum capacity"),
    ),
    Cause(
        id="kueue-pending",
        symptom="The job waits in Kueue's queue",
        where="Workload condition `QuotaReserved=False`, `Pending`",
        sentence="waits in the queue {queue}: {what}",
        hint="It starts automatically when there is room. A smaller job may start earlier.",
        state=State.QUEUED,
        find=_kueue(),
    ),
)
