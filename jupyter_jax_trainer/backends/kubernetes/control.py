"""What can be done with a job that is in the cluster: cancel, suspend, resume, delete."""

from __future__ import annotations

import time

from jupyter_jax_trainer import masking
from jupyter_jax_trainer.backends.kubernetes.api import identity
from jupyter_jax_trainer.backends.kubernetes.api.client import MERGE_PATCH, ApiError, Client
from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainJob
from jupyter_jax_trainer.backends.kubernetes.api.plan import KubernetesPlan, plan_of
from jupyter_jax_trainer.backends.kubernetes.connection import get_client, said_plainly
from jupyter_jax_trainer.backends.kubernetes.submit import launch, payload, queues, trainjob
from jupyter_jax_trainer.errors import JaxTrainError, JobNotFound, UsageError
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest
from jupyter_jax_trainer.jobdir.state import JobState
from jupyter_jax_trainer.messages import kubernetes as say
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.text import plain

_AGAIN = 2.0  # seconds between starts of a follower
_started: dict[str, float] = {}


def see_to_it(plan: KubernetesPlan, state: JobState) -> JobState:
    """Start a follower for a job that nobody follows, and give the state as it was last known."""
    cluster = plan["cluster"]
    now = time.monotonic()
    if now - _started.get(cluster, -_AGAIN) >= _AGAIN:
        _started[cluster] = now
        launch.start_follower(plan)
    problem = launch.follower_directory(cluster) / "problem"
    try:
        words = problem.read_text()
    except OSError:
        return state
    return {
        **state,
        "reason": say.CANNOT_FOLLOW(problem=words.splitlines()[0]),
        "hint": "\n".join(words.splitlines()[1:]) or None,
    }


def _client(manifest: Manifest) -> tuple[Client, str]:
    """Return the cluster of a job, and the path of its TrainJob."""
    plan = plan_of(manifest)
    client = get_client(plan["context"], plan["namespace"])
    if client.identity != plan["cluster"]:
        raise UsageError(
            say.ANOTHER_CLUSTER(context=plan["context"], server=client.server, old=plan["server"])
        )
    return client, client.trainer("trainjobs", manifest.get("trainjob") or manifest["name"])


def _find(client: Client, path: str, manifest: Manifest, directory: JobDir) -> TrainJob | None:
    """Return the TrainJob of a job; None when it is gone, or another's has its name."""
    try:
        found = TrainJob(client.request("GET", path))
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    return found if identity.is_jobs(directory, manifest, found) else None


def cancel(manifest: Manifest, directory: JobDir) -> None:
    """Delete the TrainJob, and with it pods and Secrets; the job's directory stays.

    Raises
    ------
    BackendError
        The cluster refuses it, or does not answer.
    """
    client, path = _client(manifest)
    with said_plainly(client):
        found = _find(client, path, manifest, directory)
        if found is None:
            return
        body = {
            "preconditions": {"uid": found.uid},
            "propagationPolicy": "Background",
        }
        try:
            client.request("DELETE", path, body=body)
        except ApiError as error:
            if error.status not in (404, 409):
                raise


def delete(manifest: Manifest, directory: JobDir) -> None:
    """Delete what is left of a job outside its directory: its TrainJob, and files in a store.

    A store is touched only where this store of jobs submitted the job: of others its path is
    somebody else's word. A cluster that is gone for good must not keep a job's directory, so errors
    are no hindrance here.
    """
    spec = JobSpec.from_json(manifest["spec"])
    if spec.store and identity.submitted_here(manifest):
        left = payload.remove(payload.url_of(spec.store, manifest["uid"]), manifest["uid"])
        if left is not None:
            print(plain(masking.text(left)))
    try:
        cancel(manifest, directory)
    except JaxTrainError as error:
        print(plain(say.NOT_DELETED(error=error.message)))


def set_suspended(manifest: Manifest, directory: JobDir, suspended: bool) -> None:
    """Suspend or resume a TrainJob, where Kueue steers it by its Workload.

    Raises
    ------
    BackendError
        The cluster refuses it, or does not answer.
    UsageError
        The TrainJob is gone.
    """
    client, path = _client(manifest)
    with said_plainly(client):
        found = _find(client, path, manifest, directory)
        if found is None:
            raise UsageError(say.GONE(name=manifest["name"]))
        if queues.set_active(client, found, not suspended):
            return
        if found.suspended == suspended:
            what = say.ALREADY_SUSPENDED if suspended else say.NOT_SUSPENDED
            raise UsageError(what(name=manifest["name"]))
        body = {"metadata": {"uid": found.uid}, "spec": {"suspend": suspended}}
        client.request("PATCH", path, body=body, content_type=MERGE_PATCH)


def job_yaml(manifest: Manifest, directory: JobDir) -> str:
    """Return the TrainJob of a job as the cluster has it now, without what may be secret.

    Raises
    ------
    JobNotFound
        It was deleted; another cluster, or a later TrainJob, may have its name.
    UsageError, BackendError
        The cluster can't be found, or does not answer.
    """
    plan = plan_of(manifest)
    client = get_client(plan["context"], plan["namespace"])
    path = client.trainer("trainjobs", manifest.get("trainjob") or manifest["name"])
    with said_plainly(client):
        found = _find(client, path, manifest, directory)
    if found is None:
        name, context = manifest["name"], plan["context"]
        raise JobNotFound(
            say.GONE_FROM_CONTEXT(name=name, context=context) if context else say.GONE(name=name)
        )
    return trainjob.shown_yaml(found)
