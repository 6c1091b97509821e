"""What the watches of a namespace have told, kept small and found by job."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from jupyter_jax_trainer.backends.kubernetes.api.lineage import NOBODY, JobSetRef, Lineage
from jupyter_jax_trainer.backends.kubernetes.api.marks import uid_of
from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    ApiObject,
    Event,
    Job,
    OwnerRef,
    Pod,
    PodSpec,
    TrainJob,
    Workload,
    mappings,
)
from jupyter_jax_trainer.backends.kubernetes.api.watch import ADDED

JOB_SET = "jobset.sigs.k8s.io/jobset-name"
Watched = TrainJob | Pod | Job | Event | Workload
_EVENTS = 3000  # recent events that are kept
_GONE = 200  # jobs whose last pods are remembered until somebody asks
_LARGE = 2000  # characters of an annotation that is not kept
_Found = TypeVar("_Found", bound=ApiObject)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[_Found]):
    """A pod or a Job as it is kept.

    Attributes
    ----------
    it
        Without what is large.
    ours
        Our own id of the job, which was in its environment; None where there was none.
    """

    it: _Found
    ours: str | None


class Store:
    """TrainJobs, pods, Jobs, events and Kueue's Workloads of a namespace.

    Attributes
    ----------
    trainjobs
        By name.
    lineage
        Of which TrainJobs pods and Jobs are.
    """

    def __init__(self) -> None:
        self.trainjobs: dict[str, TrainJob] = {}
        # By the names of their JobSets, then by uid.
        self._pods: dict[str, dict[str, _Kept[Pod]]] = {}
        self._jobs: dict[str, dict[str, _Kept[Job]]] = {}
        self._gone: dict[str, dict[str, _Kept[Pod]]] = {}
        self._events: dict[str, dict[str, Event]] = {}
        self._recent: deque[tuple[str, str]] = deque()
        self._workloads: dict[str, Workload] = {}
        self.lineage = Lineage()

    def put(self, change: str, item: Watched) -> str | None:
        """Take a change.

        Returns
        -------
        str or None
            The name of the TrainJob that it is about, where that is known.
        """
        match item:
            case TrainJob():
                return self._put_trainjob(change, item)
            case Event():
                return self._put_event(change, item)
            case Workload():
                return self._put_workload(change, item)
            case Job():
                return self._put_job(change, item)
            case Pod():
                return self._put_pod(change, item)

    def _put_job(self, change: str, item: Job) -> str:
        name, uid = item.labels.get(JOB_SET, ""), item.uid
        self.lineage.note_job(item)
        if change == ADDED:
            self._jobs.setdefault(name, {})[uid] = _small_job(item)
        else:
            _removed(self._jobs, name, uid)
        return name

    def _put_pod(self, change: str, item: Pod) -> str:
        name, uid = item.labels.get(JOB_SET, ""), item.uid
        if change == ADDED:
            self._pods.setdefault(name, {})[uid] = _small_pod(item)
            return name
        before = _removed(self._pods, name, uid)
        # After a new list there is but a stub of it.
        last = _small_pod(item) if "status" in item.json else before
        if last is not None:
            self._gone.setdefault(name, {})[uid] = last
        while len(self._gone) > _GONE:
            self._gone.pop(next(iter(self._gone)))
        return name

    def _put_trainjob(self, change: str, item: TrainJob) -> str:
        name = item.name
        if change == ADDED:
            self.trainjobs[name] = _small_trainjob(item)
        elif name in self.trainjobs and self.trainjobs[name].uid == item.uid:
            del self.trainjobs[name]
        return name

    def _put_event(self, change: str, item: Event) -> str | None:
        if change != ADDED:
            return None  # they expire after an hour; what they told stays true
        about = item.about
        key, uid = _about(about), item.uid
        known = self._events.setdefault(key, {})
        if uid not in known:
            self._recent.append((key, uid))
        known[uid] = Event(_without_managed(item))
        while len(self._recent) > _EVENTS:
            _removed(self._events, *self._recent.popleft())
        return about.name if about.kind in ("TrainJob", "JobSet") else None

    def _put_workload(self, change: str, item: Workload) -> str | None:
        """Take a Workload, without the pods that it describes at length."""
        if change == ADDED:
            spec = {k: v for k, v in item.spec.json.items() if k != "podSets"}
            self._workloads[item.uid] = Workload({**item.json, "spec": spec})
        else:
            item = self._workloads.pop(item.uid, item)
        return next((one.name for one in item.owners if one.kind == "TrainJob"), None)

    def workloads(self, trainjob: TrainJob | None) -> list[Workload]:
        """Return the Workloads that Kueue has made for a TrainJob."""
        if trainjob is None:
            return []
        uid = trainjob.uid
        return [
            item for item in self._workloads.values() if any(one.uid == uid for one in item.owners)
        ]

    def others(self, mine: list[Workload]) -> list[Workload]:
        """Return the Workloads of others in the same queue as these."""
        uids, queues = {item.uid for item in mine}, {item.queue for item in mine}
        return [
            item
            for uid, item in self._workloads.items()
            if uid not in uids and item.queue in queues
        ]

    def pods(
        self, name: str, uid: str | None = None, trainjob: str | None = None
    ) -> dict[str, Pod]:
        """Return the pods of a job by their uids.

        Parameters
        ----------
        name
            Of the TrainJob.
        uid
            Our own id of the job: those of a namesake before it, which are on their way out, are
            left out. None for all.
        trainjob
            The TrainJob's uid: only those that are its by their owners. Where these can't be looked
            up, those too that may be. None for a list that shows states and nothing else.
        """
        found = self._pods.get(name, {})
        return {key: pod.it for key, pod in found.items() if self._is_pod(pod, name, uid, trainjob)}

    def take_gone(
        self, name: str, uid: str | None = None, trainjob: str | None = None
    ) -> dict[str, Pod]:
        """Return, once, a job's deleted pods as last seen, which tells how they ended."""
        gone = self._gone.get(name, {})
        taken = {
            key: gone.pop(key).it
            for key in list(gone)
            if self._is_pod(gone[key], name, uid, trainjob)
        }
        if not gone:
            self._gone.pop(name, None)
        return taken

    def jobs(self, name: str, uid: str | None = None, trainjob: str | None = None) -> list[Job]:
        """Return the Jobs of a job."""
        return [
            job.it
            for job in self._jobs.get(name, {}).values()
            if self._is(job, self.lineage.of_job(job.it), name, uid, trainjob)
        ]

    def pending(self, name: str, uid: str, trainjob: str) -> bool:
        """Return whether there are pods that may turn out to be of a job."""
        if self.lineage.blind:
            return False
        found = {**self._pods.get(name, {}), **self._gone.get(name, {})}
        return any(
            self.lineage.of_pod(pod.it) is None and self._belongs(pod, name, uid)
            for pod in found.values()
        )

    def wanted(self, name: str) -> set[JobSetRef]:
        """Return the JobSets of a TrainJob, which have its name, that have not been looked at."""
        found = self.lineage.wanted(job.it for job in self._jobs.get(name, {}).values())
        return {one for one in found if one.name == name}

    def _is_pod(self, pod: _Kept[Pod], name: str, uid: str | None, trainjob: str | None) -> bool:
        return self._is(pod, self.lineage.of_pod(pod.it), name, uid, trainjob)

    def _is(
        self,
        item: _Kept[Pod] | _Kept[Job],
        owner: str | None,
        name: str,
        uid: str | None,
        trainjob: str | None,
    ) -> bool:
        """Return whether something is a job's, by the TrainJob that owns it if that is known."""
        if owner is not None and uid is not None and (owner == NOBODY or trainjob is not None):
            return owner == trainjob
        if trainjob is not None and not self.lineage.blind:
            return False
        return self._belongs(item, name, uid)

    def _belongs(self, item: _Kept[Pod] | _Kept[Job], name: str, uid: str | None) -> bool:
        """Return whether a pod or a Job may be of the job with our own id, and is of no namesake.

        Initializers don't have that in their environment: they are of the TrainJob that is there if
        they are younger than it.
        """
        if uid is None:
            return True
        if item.ours is not None:
            return item.ours == uid
        found = self.trainjobs.get(name)
        if found is None:
            return True
        return (item.it.created >= found.created) == (uid_of(found) == uid)

    def events(self, name: str, uids: set[str]) -> list[Event]:
        """Return the events about a job's JobSet, and about the objects with these uids."""
        keys = [f"JobSet/{name}", *uids]
        return [event for key in keys for event in self._events.get(key, {}).values()]


def _removed(kept: dict[str, dict[str, _Value]], name: str, uid: str) -> _Value | None:
    """Remove the entry with this uid under a name, and return it."""
    found = kept.get(name, {})
    before = found.pop(uid, None)
    if not found:
        kept.pop(name, None)
    return before


def _about(about: OwnerRef) -> str:
    """Return the key of the object that an event is about; JobSets themselves are not watched."""
    return f"JobSet/{about.name}" if about.kind == "JobSet" else about.uid


def _our_uid(pods: PodSpec) -> str | None:
    """Return our own id of the job that pods have in their environment."""
    variables = (one for container in pods.containers for one in container.env)
    return next((one.value for one in variables if one.name == "JAXTRAIN_JOB_UID"), None)


# -- what is large and not needed is left out: 500 TrainJobs have to fit --------------------------


def _without_managed(item: ApiObject) -> dict[str, object]:
    return {**item.json, "metadata": _without(item.metadata.json, "managedFields")}


def _without(found: Mapping[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in found.items() if name not in names}


def _small_trainjob(item: TrainJob) -> TrainJob:
    spec, trainer = item.spec.json, item.spec.within("trainer")
    small = _without(trainer, "env", "command", "args")
    # By this one is known which Secret is ours.
    small["env"] = [one.json for one in item.env if one.name == "JAXTRAIN_FRAME_KEY"]
    metadata = _without(item.metadata.json, "managedFields")
    metadata["annotations"] = {k: v for k, v in item.annotations.items() if len(v) < _LARGE}
    kept = {**item.json, "metadata": metadata}
    return TrainJob({**kept, "spec": {**spec, "trainer": small}} if trainer else kept)


def _small_job(item: Job) -> _Kept[Job]:
    spec = _without(item.spec.json, "template")
    return _Kept(Job({**_without_managed(item), "spec": spec}), _our_uid(item.pods.spec))


def _small_pod(item: Pod) -> _Kept[Pod]:
    containers = mappings(item.spec.json.get("containers"))
    small = [_without(one, "env", "command", "args") for one in containers]
    spec = {**item.spec.json, "containers": small}
    return _Kept(Pod({**_without_managed(item), "spec": spec}), _our_uid(item.of))
