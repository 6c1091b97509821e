"""Jobs that start again when a node breaks (--max-restarts): each has a TrainingRuntime of its own.

A TrainJob can't say how often it may start again; its runtime does. So the runtime is copied, with
other policies. The copy has to be there before the TrainJob, which owns it from then on: the
cluster deletes both together. If its submitter dies in between, the follower ends it.
"""

from __future__ import annotations

import copy
import re
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.api.client import MERGE_PATCH, ApiError, Client
from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    TRAINER,
    ApiObject,
    Part,
    TrainingRuntime,
    TrainJob,
)
from jupyter_jax_trainer.backends.kubernetes.api.plan import plan_of
from jupyter_jax_trainer.backends.kubernetes.api.rights import RESTARTS, missing
from jupyter_jax_trainer.backends.kubernetes.submit import trainjob
from jupyter_jax_trainer.errors import BackendError
from jupyter_jax_trainer.jobdir.manifest import Manifest
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.text import joined
from jupyter_jax_trainer.worker.exceptions import TRY_AGAIN

_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
_NUMBER = re.compile(r"[0-9]{1,9}")  # JobSet's is an int32
# A signal is 128 and more: it came from outside, or from native code that has lost a peer. All
# other exit codes are the cell's own doing.
_FROM_OUTSIDE = [TRY_AGAIN, *range(129, 193)]
# For a failurePolicy: where the podFailurePolicy of a job says "FailJob", nothing starts again.
FINAL = Part(
    {"name": "broken", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
)


def check_rights(client: Client) -> None:
    """Refuse a job that may not have a runtime of its own.

    Raises
    ------
    BackendError
        A right is missing.
    """
    verbs = joined(right.verb for right in missing(client, RESTARTS))
    if verbs:
        raise BackendError(say.NO_RIGHT_TO_RESTART(verbs=verbs, namespace=client.namespace))


def spec_from(runtime: TrainingRuntime, restarts: int) -> Part:
    """Copy a runtime's spec, with policies for starting again.

    When a rank is killed or its node is lost, all ranks start again: alone it could not join the
    others. When a rank ends with an exit code of its own, the job has failed.

    Parameters
    ----------
    runtime
        The runtime that was chosen.
    restarts
        How often all ranks may start again.
    """
    spec: dict[str, Any] = copy.deepcopy(dict(runtime.spec.json))
    job_set = spec.setdefault("template", {}).setdefault("spec", {})
    job_set["failurePolicy"] = {
        "maxRestarts": restarts,
        "rules": [dict(FINAL.json)],
    }
    for replicated in job_set.get("replicatedJobs") or []:
        if replicated.get("name") == TRAINER:
            job = replicated.setdefault("template", {}).setdefault("spec", {})
            for other in ("backoffLimitPerIndex", "maxFailedIndexes", "podReplacementPolicy"):
                job.pop(other, None)  # they say otherwise, or can't stand beside these
            job["backoffLimit"] = 0
            job["podFailurePolicy"] = {
                "rules": [
                    {
                        "action": "Count",
                        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                    },
                    {
                        "action": "FailJob",
                        "onExitCodes": {
                            "containerName": TRAINER,
                            "operator": "NotIn",
                            "values": _FROM_OUTSIDE,
                        },
                    },
                ]
            }
            job.setdefault("template", {}).setdefault("spec", {})["restartPolicy"] = "Never"
    return Part(spec)


def runtime_of(manifest: Manifest) -> TrainingRuntime | None:
    """Make the TrainingRuntime of a job; None where it has none of its own."""
    plan = plan_of(manifest)
    if not plan.get("own_runtime"):
        return None
    return TrainingRuntime(
        {
            "apiVersion": trainjob.API,
            "kind": "TrainingRuntime",
            "metadata": {
                "name": trainjob.own_name(manifest),
                "namespace": plan["namespace"],
                "labels": trainjob.own_labels(manifest),
                "annotations": {trainjob.UID: manifest["uid"]},
            },
            "spec": plan["own_runtime"],
        }
    )


def create(client: Client, runtime: TrainingRuntime) -> None:
    """Create a runtime; one that an earlier try made without an answer is taken as it is."""
    query = {"fieldManager": trainjob.PREFIX}
    try:
        client.request("POST", client.trainer("trainingruntimes"), query=query, body=runtime.json)
    except ApiError as error:
        if error.status != 409:
            raise
        path = client.trainer("trainingruntimes", runtime.name)
        there = TrainingRuntime(client.request("GET", path))
        if not trainjob.belongs(there, runtime.labels[trainjob.UID], None):
            raise


def hand_over(client: Client, name: str, created: TrainJob) -> None:
    """Make a TrainJob the owner of its runtime."""
    client.request(
        "PATCH",
        client.trainer("trainingruntimes", name),
        body={"metadata": {"ownerReferences": [trainjob.owner(created).json]}},
        content_type=MERGE_PATCH,
    )


def delete(client: Client, name: str, own: str, trainjob_uid: str | None, **options: Any) -> bool:
    """Delete a job's own runtime; one that is gone is fine, and one that is another's stays.

    Parameters
    ----------
    own, trainjob_uid
        As for `trainjob.belongs`.

    Returns
    -------
    bool
        False where it is another's.
    """
    path = client.trainer("trainingruntimes", name)
    try:
        found = TrainingRuntime(client.request("GET", path, **options))
        if not trainjob.belongs(found, own, trainjob_uid):
            return False
        body = {"preconditions": {"uid": found.uid}}
        client.request("DELETE", path, body=body, **options)
    except ApiError as error:
        if error.status not in (404, 409):
            raise
    return True


def is_own(runtime: TrainingRuntime) -> bool:
    """Return whether a runtime was made for one job, and is none to be chosen."""
    return trainjob.JOB_LABEL in runtime.labels


def attempt_of(thing: ApiObject) -> int:
    """Return how often all ranks had started again when a pod or a Job was made, as its label says.

    Whoever may label a pod can write anything there: the caller bounds it.
    """
    number = thing.labels.get(_ATTEMPT, "")
    return int(number) if _NUMBER.fullmatch(number) else 0
