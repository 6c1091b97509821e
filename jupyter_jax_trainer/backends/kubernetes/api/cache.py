"""What the watches of a namespace have told, kept small and found by job."""

from __future__ import annotations

from collections import deque
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.api.lineage import NOBODY, JobSetRef, Lineage
from jupyter_jax_trainer.backends.kubernetes.api.marks import uid_of
from jupyter_jax_trainer.backends.kubernetes.api.watch import ADDED

JOB_SET = "jobset.sigs.k8s.io/jobset-name"
_OURS = "our uid"  # where that is noted in what is kept
_EVENTS = 3000  # recent events that are kept
_GONE = 200  # jobs whose last pods are remembered until somebody asks


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
        self.trainjobs: dict[str, dict[str, Any]] = {}
        self._parts: dict[str, dict[str, dict[str, dict[str, Any]]]] = {"pods": {}, "jobs": {}}
        self._gone: dict[str, dict[str, dict[str, Any]]] = {}
        self._events: dict[str, dict[str, dict[str, Any]]] = {}
        self._recent: deque[tuple[str, str]] = deque()
        self._workloads: dict[str, dict[str, Any]] = {}
        self.lineage = Lineage()

    def put(self, kind: str, change: str, item: dict[str, Any]) -> str | None:
        """Take a change.

        Returns
        -------
        str or None
            The name of the TrainJob that it is about, where that is known.
        """
        if kind == "trainjobs":
            return self._put_trainjob(change, item)
        if kind == "events":
            return self._put_event(change, item)
        if kind == "workloads":
            return self._put_workload(change, item)
        name = str((item["metadata"].get("labels") or {}).get(JOB_SET, ""))
        if kind == "jobs":
            self.lineage.note_job(item)
        of_job = self._parts[kind].setdefault(name, {})
        if change == ADDED:
            of_job[item["metadata"]["uid"]] = _trimmed(item)
        else:
            uid = item["metadata"]["uid"]
            before = of_job.pop(uid, None)
            if not of_job:
                del self._parts[kind][name]
            if kind == "pods":  # after a new list there is but a stub of it
                last = _trimmed(item) if "status" in item else before
                if last is not None:
                    self._gone.setdefault(name, {})[uid] = last
                while len(self._gone) > _GONE:
                    self._gone.pop(next(iter(self._gone)))
        return name

    def _put_trainjob(self, change: str, item: dict[str, Any]) -> str:
        name = str(item["metadata"]["name"])
        if change == ADDED:
            self.trainjobs[name] = _trimmed(item)
        elif name in self.trainjobs and (
            self.trainjobs[name]["metadata"]["uid"] == item["metadata"]["uid"]
        ):
            del self.trainjobs[name]
        return name

    def _put_event(self, change: str, item: dict[str, Any]) -> str | None:
        if change != ADDED:
            return None  # they expire after an hour; what they told stays true
        about = item.get("involvedObject") or {}
        key = _about(about)
        uid = item["metadata"]["uid"]
        known = self._events.setdefault(key, {})
        if uid not in known:
            self._recent.append((key, uid))
        known[uid] = _trimmed(item)
        while len(self._recent) > _EVENTS:
            old_key, old_uid = self._recent.popleft()
            of_object = self._events.get(old_key, {})
            of_object.pop(old_uid, None)
            if not of_object:
                self._events.pop(old_key, None)
        if about.get("kind") in ("TrainJob", "JobSet"):
            return str(about.get("name"))
        return None

    def _put_workload(self, change: str, item: dict[str, Any]) -> str | None:
        """Take a Workload, without the pods that it describes at length."""
        uid = item["metadata"]["uid"]
        if change == ADDED:
            spec = {k: v for k, v in (item.get("spec") or {}).items() if k != "podSets"}
            self._workloads[uid] = {**item, "spec": spec}
        else:
            item = self._workloads.pop(uid, item)
        owners = item["metadata"].get("ownerReferences") or []
        names = [str(one.get("name")) for one in owners if one.get("kind") == "TrainJob"]
        return names[0] if names else None

    def workloads(self, trainjob: dict[str, Any] | None) -> list[dict[str, Any]]:
        """Return the Workloads that Kueue has made for a TrainJob."""
        uid = trainjob["metadata"]["uid"] if trainjob else None
        return [
            item
            for item in self._workloads.values()
            if any(one.get("uid") == uid for one in item["metadata"].get("ownerReferences") or [])
        ]

    def others(self, mine: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the Workloads of others in the same queue as these."""
        uids = {item["metadata"]["uid"] for item in mine}
        queues = {item["spec"].get("queueName") for item in mine}
        return [
            item
            for uid, item in self._workloads.items()
            if uid not in uids and item["spec"].get("queueName") in queues
        ]

    def pods(
        self, name: str, uid: str | None = None, trainjob: str | None = None
    ) -> dict[str, dict[str, Any]]:
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
        found = self._parts["pods"].get(name, {})
        return {key: pod for key, pod in found.items() if self._is_pod(pod, name, uid, trainjob)}

    def take_gone(
        self, name: str, uid: str | None = None, trainjob: str | None = None
    ) -> dict[str, dict[str, Any]]:
        """Give, once, the pods of a job that have gone, as they were last: how they went."""
        gone = self._gone.get(name, {})
        taken = {
            key: gone.pop(key) for key in list(gone) if self._is_pod(gone[key], name, uid, trainjob)
        }
        if not gone:
            self._gone.pop(name, None)
        return taken

    def jobs(
        self, name: str, uid: str | None = None, trainjob: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the Jobs of a job."""
        return [
            job
            for job in self._parts["jobs"].get(name, {}).values()
            if self._is(job, self.lineage.of_job(job), name, uid, trainjob)
        ]

    def pending(self, name: str, uid: str, trainjob: str) -> bool:
        """Return whether there are pods that may turn out to be of a job."""
        if self.lineage.blind:
            return False
        found = {**self._parts["pods"].get(name, {}), **self._gone.get(name, {})}
        return any(
            self.lineage.of_pod(pod) is None and self._belongs(pod, name, uid)
            for pod in found.values()
        )

    def wanted(self, name: str) -> set[JobSetRef]:
        """Return the JobSets of a TrainJob, which have its name, that have not been looked at."""
        found = self.lineage.wanted(self._parts["jobs"].get(name, {}).values())
        return {one for one in found if one.name == name}

    def _is_pod(
        self, pod: dict[str, Any], name: str, uid: str | None, trainjob: str | None
    ) -> bool:
        return self._is(pod, self.lineage.of_pod(pod), name, uid, trainjob)

    def _is(
        self,
        item: dict[str, Any],
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

    def _belongs(self, item: dict[str, Any], name: str, uid: str | None) -> bool:
        """Return whether a pod or a Job may be of the job with our own id, and is of no namesake.

        Initializers don't have that in their environment: they are of the TrainJob that is there if
        they are younger than it.
        """
        if uid is None:
            return True
        if (noted := item.get(_OURS)) is not None:
            return bool(noted == uid)
        found = self.trainjobs.get(name)
        if found is None:
            return True
        return (_created(item) >= _created(found)) == (uid_of(found) == uid)

    def events(self, name: str, uids: set[str]) -> list[dict[str, Any]]:
        """Return the events about a job's JobSet, and about the objects with these uids."""
        keys = [f"JobSet/{name}", *uids]
        return [event for key in keys for event in self._events.get(key, {}).values()]


def _about(about: dict[str, Any]) -> str:
    """Return the key of the object that an event is about; JobSets themselves are not watched."""
    if about.get("kind") == "JobSet":
        return f"JobSet/{about.get('name')}"
    return str(about.get("uid"))


def _created(item: dict[str, Any]) -> str:
    """Return when an object was made: the API has one form for it, so text can be compared."""
    return str(item["metadata"].get("creationTimestamp") or "")


def _our_uid(spec: dict[str, Any]) -> str | None:
    """Return our own id of the job that a pod, or a Job's pods, have in their environment."""
    template = (spec.get("template") or {}).get("spec") or spec
    for container in template.get("containers") or []:
        for variable in container.get("env") or []:
            if variable.get("name") == "JAXTRAIN_JOB_UID":
                return str(variable.get("value"))
    return None


def _trimmed(item: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is large and not needed: 500 TrainJobs have to fit."""
    metadata = {k: v for k, v in item["metadata"].items() if k != "managedFields"}
    kept = {**item, "metadata": metadata, _OURS: _our_uid(item.get("spec") or {})}
    trainer = (item.get("spec") or {}).get("trainer")
    if isinstance(trainer, dict):
        small = {k: v for k, v in trainer.items() if k not in ("env", "command", "args")}
        # By this one is known which Secret is ours.
        small["env"] = [
            item for item in trainer.get("env") or [] if item.get("name") == "JAXTRAIN_FRAME_KEY"
        ]
        kept["spec"] = {**item["spec"], "trainer": small}
        metadata.pop("annotations", None)
        annotations = item["metadata"].get("annotations") or {}
        metadata["annotations"] = {k: v for k, v in annotations.items() if len(v) < 2000}
    containers = (item.get("spec") or {}).get("containers")
    if isinstance(containers, list):
        small_containers = [
            {k: v for k, v in c.items() if k not in ("env", "command", "args")} for c in containers
        ]
        kept["spec"] = {**item["spec"], "containers": small_containers}
    elif "template" in (item.get("spec") or {}):
        kept["spec"] = {k: v for k, v in item["spec"].items() if k != "template"}
    return kept
