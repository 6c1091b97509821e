"""Find a pod's TrainJob by the uids of its controllers: Pod → Job → JobSet → TrainJob.

Anybody who may create pods can copy labels, annotations and variables; an owner's uid is looked up
here, once per JobSet.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

from jupyter_jax_trainer.backends.kubernetes.api.objects import Job, JobSet, Pod

_GROUP = "jobset.x-k8s.io"
_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_KEPT = 20_000  # Jobs and JobSets that are remembered, gone ones too: their pods go later
NOBODY = ""  # in place of a uid: it is known that there is no TrainJob
_Value = TypeVar("_Value")


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

    def note_job(self, job: Job) -> None:
        """Take over the owner of a Job."""
        owner = job.controller("JobSet", _GROUP)
        reference = None
        if owner is not None and _VERSION.fullmatch(owner.version):
            reference = JobSetRef(owner.version, owner.name, owner.uid)
        _keep(self._jobs, job.uid, reference)

    def note_job_set(self, uid: str, found: JobSet | None) -> None:
        """Take over what a look at a JobSet has shown; None: there is none with this uid."""
        owner = None
        if found is not None and found.uid == uid:
            owner = found.controller("TrainJob", "trainer.kubeflow.org")
        _keep(self._job_sets, uid, NOBODY if owner is None else owner.uid)

    def of_job(self, job: Job) -> str | None:
        """Return the uid of a Job's TrainJob; `NOBODY` where it has none, None while unknown."""
        return self._of_job(job.uid)

    def of_pod(self, pod: Pod) -> str | None:
        """Return the uid of a pod's TrainJob; `NOBODY` where it has none, None while unknown."""
        owner = pod.controller("Job", "batch")
        return NOBODY if owner is None else self._of_job(owner.uid)

    def _of_job(self, uid: str) -> str | None:
        if uid not in self._jobs:
            return None
        job_set = self._jobs[uid]
        return NOBODY if job_set is None else self._job_sets.get(job_set.uid)

    def wanted(self, jobs: Iterable[Job]) -> set[JobSetRef]:
        """Return the JobSets of Jobs that have not been looked at."""
        found = (self._jobs.get(job.uid) for job in jobs)
        return {one for one in found if one is not None and one.uid not in self._job_sets}


def job_set_path(namespace: str, one: JobSetRef) -> str:
    """Return where the API has a JobSet."""
    name = quote(one.name, safe="")
    return f"/apis/{_GROUP}/{one.version}/namespaces/{quote(namespace, safe='')}/jobsets/{name}"


def _keep(kept: OrderedDict[str, _Value], uid: str, value: _Value) -> None:
    kept[uid] = value
    kept.move_to_end(uid)
    while len(kept) > _KEPT:
        kept.popitem(last=False)
