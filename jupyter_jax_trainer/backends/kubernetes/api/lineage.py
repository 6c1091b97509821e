"""Of which TrainJob a pod is: by the uids of those that control it, Pod → Job → JobSet → TrainJob.

Labels, annotations and variables are copied by anybody who may create a pod of his own; an owner's
uid is looked up here, each JobSet once.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

_GROUP = "jobset.x-k8s.io"
_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_KEPT = 20_000  # Jobs and JobSets that are remembered, gone ones too: their pods go later
NOBODY = ""  # in place of a uid: it is known that there is no TrainJob


@dataclass(frozen=True)
class JobSetRef:
    """A JobSet, as a Job names its owner."""

    version: str
    name: str
    uid: str


class Lineage:
    """What is known of owners.

    Attributes
    ----------
    blind
        A right is missing without which owners can't be looked up.
    """

    def __init__(self) -> None:
        self.blind = False
        self._jobs: OrderedDict[str, JobSetRef | None] = OrderedDict()
        self._job_sets: OrderedDict[str, str] = OrderedDict()

    def note_job(self, job: Mapping[str, Any]) -> None:
        """Take over the owner of a Job."""
        owner = controller(job, "JobSet", _GROUP)
        reference = None
        if owner is not None:
            version = str(owner["apiVersion"]).partition("/")[2]
            if _VERSION.fullmatch(version):
                reference = JobSetRef(version, str(owner["name"]), str(owner["uid"]))
        _keep(self._jobs, str(job["metadata"]["uid"]), reference)

    def note_job_set(self, uid: str, found: Mapping[str, Any] | None) -> None:
        """Take over what a look at a JobSet has shown; None: there is none with this uid."""
        owner = None
        if found is not None and found["metadata"].get("uid") == uid:
            owner = controller(found, "TrainJob", "trainer.kubeflow.org")
        _keep(self._job_sets, uid, NOBODY if owner is None else str(owner["uid"]))

    def of_job(self, job: Mapping[str, Any]) -> str | None:
        """Return the uid of a Job's TrainJob; `NOBODY` where it has none, None while unknown."""
        return self._of_job(str(job["metadata"]["uid"]))

    def of_pod(self, pod: Mapping[str, Any]) -> str | None:
        """Return the uid of a pod's TrainJob; `NOBODY` where it has none, None while unknown."""
        owner = controller(pod, "Job", "batch")
        return NOBODY if owner is None else self._of_job(str(owner["uid"]))

    def _of_job(self, uid: str) -> str | None:
        if uid not in self._jobs:
            return None
        job_set = self._jobs[uid]
        return NOBODY if job_set is None else self._job_sets.get(job_set.uid)

    def wanted(self, jobs: Iterable[Mapping[str, Any]]) -> set[JobSetRef]:
        """Return the JobSets of Jobs that have not been looked at."""
        found = (self._jobs.get(str(job["metadata"]["uid"])) for job in jobs)
        return {one for one in found if one is not None and one.uid not in self._job_sets}


def controller(thing: Mapping[str, Any], kind: str, group: str) -> Mapping[str, Any] | None:
    """Return the reference to the owner that controls an object, if it is of this kind."""
    for owner in thing["metadata"].get("ownerReferences") or []:
        if owner.get("controller"):
            of_group = str(owner.get("apiVersion")).partition("/")[0] == group
            complete = owner.get("uid") and owner.get("name")
            return owner if owner.get("kind") == kind and of_group and complete else None
    return None


def job_set_path(namespace: str, one: JobSetRef) -> str:
    """Return where the API has a JobSet."""
    name = quote(one.name, safe="")
    return f"/apis/{_GROUP}/{one.version}/namespaces/{quote(namespace, safe='')}/jobsets/{name}"


def _keep(kept: OrderedDict[str, Any], uid: str, value: Any) -> None:
    kept[uid] = value
    kept.move_to_end(uid)
    while len(kept) > _KEPT:
        kept.popitem(last=False)
