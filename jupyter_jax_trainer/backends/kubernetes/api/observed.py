"""What the cluster shows of one job, and how to read it.

All of it is the API's JSON as it came. Names and messages in it were written by others.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from jupyter_jax_trainer.states import Phase
from jupyter_jax_trainer.text import uncoloured

Json = dict[str, Any]
RANK = "batch.kubernetes.io/job-completion-index"
ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
MESSAGE = 4000  # characters of a message that are read
TRAINER = "node"  # the replicated Job, and the container, that train
_SIGNALS = {number.value for number in signal.Signals}


@dataclass(kw_only=True)
class Seen:
    """What is known of a job at one moment.

    Attributes
    ----------
    trainjob
        The TrainJob; None when it is gone.
    jobs
        Its Jobs.
    jobset
        Its JobSet; None where it may not be read.
    pods
        Its pods, each in the last version seen: those too that are gone since.
    events
        Events of all of these.
    workloads
        Kueue's Workloads of the TrainJob; empty where there is no Kueue or they may not be read.
    others
        The Workloads of other jobs in the same queue.
    nodes
        The ranks asked for.
    now
        The time.
    spec
        The options of the job, as `JobSpec.to_json` gives them.
    states
        What each rank is doing by its own account: ``Waiting``, ``Starting``, ``Arrived``,
        ``Joined``, ``Running``, ``Finished``, ``Failed`` or ``Stopped``.
    """

    trainjob: Json | None
    jobs: Sequence[Json]
    jobset: Json | None
    pods: Sequence[Json]
    events: Sequence[Json]
    workloads: Sequence[Json]
    nodes: int
    now: float
    spec: Mapping[str, Any] = field(default_factory=dict)
    states: Sequence[Phase] = ()
    others: Sequence[Json] = ()

    @property
    def current(self) -> dict[int, Json]:
        """The newest pod of each rank that has one."""
        found: dict[int, Json] = {}
        for pod in sorted(self.pods, key=_age):
            rank = rank_of(pod)
            if rank is not None:
                found[rank] = pod
        return found

    @property
    def live(self) -> dict[int, Json]:
        """The pods of `made` that have not succeeded yet."""
        made = self.made.items()
        return {rank: pod for rank, pod in made if status(pod).get("phase") != "Succeeded"}

    @property
    def made(self) -> dict[int, Json]:
        """The newest pod of each rank, those left out that have failed or are being deleted."""
        return {
            rank: pod
            for rank, pod in self.current.items()
            if not deleted_at(pod) and status(pod).get("phase") != "Failed"
        }

    @property
    def initializers(self) -> list[Json]:
        """The pods that fetch data or a model before the training begins, the oldest first."""
        found = [pod for pod in self.pods if _label(pod, ROLE) not in ("", TRAINER)]
        return sorted(found, key=_age)

    def events_of(self, thing: Json | None, *reasons: str) -> list[Json]:
        """Return the events of an object, the oldest first; those of a namesake are left out."""
        if thing is None:
            return []
        uid = thing["metadata"].get("uid")
        found = [
            event
            for event in self.events
            if event.get("reason") in reasons and _about(event).get("uid") == uid
        ]
        return sorted(found, key=event_time)

    def last_event(self, things: Iterable[Json | None], *reasons: str) -> Json | None:
        """Return the newest event of some objects."""
        found = [event for thing in things for event in self.events_of(thing, *reasons)]
        return max(found, key=event_time, default=None)

    def jobset_event(self, *reasons: str) -> Json | None:
        """Return the newest event of the JobSet, which has the TrainJob's name.

        Without the right to read it, one is known by being younger than the TrainJob.
        """
        if self.jobset is not None or self.trainjob is None:
            return self.last_event([self.jobset], *reasons)
        name, born = self.trainjob["metadata"].get("name"), _age(self.trainjob)
        found = [
            event
            for event in self.events
            if event.get("reason") in reasons
            and _about(event).get("kind") == "JobSet"
            and _about(event).get("name") == name
            and event_time(event) >= int(born)
        ]
        return max(found, key=event_time, default=None)


def line(value: object, most: int = 120) -> str:
    """Make text from the cluster harmless: one line, no colours or control characters, cut."""
    text = " ".join(uncoloured(str(value)[:MESSAGE]).split())
    if not text.isprintable():  # private and unassigned characters, joiners
        text = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def seconds(stamp: object) -> float | None:
    """Read one of the API's times."""
    try:
        when = datetime.fromisoformat(str(stamp))
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def message_of(event: Json) -> str:
    """Return what an event or a condition says."""
    return str(event.get("message") or "")[:MESSAGE]


def event_time(event: Json) -> float:
    """Return when an event happened last; each of its sources fills in another field."""
    series = event.get("series") or {}
    metadata = event.get("metadata") or {}
    for stamp in (
        series.get("lastObservedTime"),
        event.get("eventTime"),
        event.get("lastTimestamp"),
        event.get("firstTimestamp"),
        metadata.get("creationTimestamp"),
    ):
        when = seconds(stamp) if stamp else None
        if when is not None:
            return when
    return 0.0


def status(thing: Json | None) -> Json:
    """Return the status of an object; empty where it has none yet."""
    found = (thing or {}).get("status")
    return found if isinstance(found, dict) else {}


def condition(thing: Json | None, *kinds: str) -> Json | None:
    """Return the first condition of these kinds that is true."""
    for found in status(thing).get("conditions") or []:
        if found.get("type") in kinds and found.get("status") == "True":
            return dict(found)
    return None


def any_condition(thing: Json | None, kind: str) -> Json:
    """Return a condition whatever its status is; empty where there is none."""
    for found in status(thing).get("conditions") or []:
        if found.get("type") == kind:
            return dict(found)
    return {}


def role_of(pod: Json) -> str:
    """Return the replicated Job that a pod belongs to."""
    return _label(pod, ROLE) or "pod"


def rank_of(pod: Json) -> int | None:
    """Return the rank of a training pod; None for other pods."""
    number = _label(pod, RANK) or (pod["metadata"].get("annotations") or {}).get(RANK, "")
    if _label(pod, ROLE) not in ("", TRAINER) or not str(number).isdecimal():
        return None
    return int(number)


def log_of(pod: Json, container: str) -> int | str:
    """Return whose log a container writes: a rank, or the name of the container's own.

    ``dataset-initializer``, ``rank-0.istio-init``; of several pods each has its numbers, and a
    container that is not called like its replicated Job has its name.
    """
    rank = rank_of(pod)
    if rank is not None:
        return rank if container == TRAINER else f"rank-{rank}.{container}"
    role = role_of(pod)
    numbers = _label(pod, "jobset.sigs.k8s.io/job-index") or "0", _label(pod, RANK) or "0"
    name = role if numbers == ("0", "0") else "_".join((role, *numbers))
    return name if container == role and not role.startswith("rank-") else f"{name}.{container}"


def deleted_at(pod: Json) -> float | None:
    """Return when the deletion of an object was asked for."""
    metadata = pod["metadata"]
    end = seconds(metadata.get("deletionTimestamp"))
    return None if end is None else end - float(metadata.get("deletionGracePeriodSeconds") or 0)


def containers(pod: Json) -> list[Json]:
    """Return the states of a pod's containers, the training one first."""
    found = status(pod)
    kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    states = [state for kind in kinds for state in found.get(kind) or ()]
    return sorted(states, key=lambda state: state.get("name") != TRAINER)


def waiting(pod: Json) -> tuple[str, str]:
    """Return reason and message of the first container that waits; empty where none does."""
    for container in containers(pod):
        found = (container.get("state") or {}).get("waiting") or {}
        if found.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return str(found["reason"]), str(found.get("message") or "")[:MESSAGE]
    return "", ""


def exit_code(end: Json) -> int:
    """Return the exit code of a container that has ended; negative is a signal."""
    code, number = int(end.get("exitCode") or 0), int(end.get("signal") or 0)
    if number:
        return -number
    return 128 - code if code - 128 in _SIGNALS else code


def runs(pod: Json) -> bool:
    """Return whether the training container runs."""
    return any("running" in (state.get("state") or {}) for state in containers(pod)[:1])


def container_spec(pod: Json) -> Json:
    """Return the description of the training container."""
    listed = (pod.get("spec") or {}).get("containers") or [{}]
    named = [container for container in listed if container.get("name") == TRAINER]
    return dict((named or listed)[0])


def amount(pod: Json, resource: str) -> str:
    """Return how much of a resource the training container asks for."""
    asked = container_spec(pod).get("resources") or {}
    for kind in ("requests", "limits"):
        if resource in (asked.get(kind) or {}):
            return line(asked[kind][resource], 20)
    return ""


def image_of(pod: Json) -> str:
    """Return the image of the training container."""
    return str(container_spec(pod).get("image") or "")


def own_secret(trainjob: Json | None) -> str | None:
    """Return the name of the Secret that this package sends with a job."""
    trainer = ((trainjob or {}).get("spec") or {}).get("trainer") or {}
    for variable in trainer.get("env") or []:
        if variable.get("name") == "JAXTRAIN_FRAME_KEY":
            source = (variable.get("valueFrom") or {}).get("secretKeyRef") or {}
            return str(source.get("name")) if source.get("name") else None
    return None


def _about(event: Json) -> Json:
    found = event.get("involvedObject")
    return found if isinstance(found, dict) else {}


def _label(thing: Json, name: str) -> str:
    return str((thing["metadata"].get("labels") or {}).get(name, ""))


def _age(thing: Json) -> float:
    return seconds(thing["metadata"].get("creationTimestamp")) or 0.0
