"""Create a job's objects in the cluster, in an order in which nothing can be orphaned."""

from __future__ import annotations

import base64
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import jupyter_jax_trainer
from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api import rights
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, Unreachable
from jupyter_jax_trainer.backends.kubernetes.api.marks import uid_of as uid_of
from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    OwnerRef,
    Secret,
    TrainingRuntime,
    TrainJob,
)
from jupyter_jax_trainer.backends.kubernetes.api.observed import line
from jupyter_jax_trainer.backends.kubernetes.api.plan import KubernetesPlan, plan_of
from jupyter_jax_trainer.backends.kubernetes.submit import (
    compilecache,
    payload,
    queues,
    restarts,
    trainjob,
)
from jupyter_jax_trainer.backends.kubernetes.submit.payload import Payload
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.jobdir import files, locks, store
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest
from jupyter_jax_trainer.jobdir.state import JobState, cut_off, first_state, new_rank, submitting
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.trust import signing

_RANDOM = random.Random()  # the global one is the notebook's, which may have seeded it
LOG = "follower.log"
# Which followers may go on beside this version: a file in their directory has it (0.1 wrote none).
GENERATION_FILE, GENERATION = "generation", "3"
_Answer = TypeVar("_Answer")
CUT_OFF = str(cut_off()["reason"])
_ROOT = str(Path(jupyter_jax_trainer.__file__).parent.parent)
WORDS = 1000  # characters of a reason that an annotation gets


class QueuedError(Exception):
    """The cluster puts a job that mounts its bundle into a queue that was not asked for.

    Kueue up to 0.16 drops patches, and the volume with them; which one it is, nobody has looked.
    """


def manifests(
    bundle: Path, manifest: Manifest, spec: JobSpec, plan: KubernetesPlan
) -> tuple[Payload, TrainJob, list[Secret]]:
    """Make the payload and all objects of a job: the TrainJob and its Secrets."""
    secret = trainjob.own_name(manifest)
    packed = payload.pack(
        bundle,
        secret,
        manifest["uid"],
        manifest["digest"],
        spec,
        manifest.get("frame_key"),
        mounts=plan.get("mounts", spec.queue is None),
        omitted=plan.get("packages", 0) if plan.get("without_packages") else 0,
        more=compilecache.secrets(spec, plan),
    )
    job = trainjob.build(manifest, spec, plan, packed, secret)
    found = packed.secrets(secret, trainjob.own_labels(manifest), plan["namespace"])
    return packed, job, found


def create(
    client: Client,
    job: TrainJob,
    found: Sequence[Secret],
    patience: float,
    undo: Path,
    runtime: TrainingRuntime | None = None,
) -> TrainJob:
    """Create a TrainJob and its Secrets; the TrainJob is taken back when a Secret is refused.

    Parameters
    ----------
    job, found
        The TrainJob, and its Secrets.
    patience
        Seconds for which requests are tried again that fail for passing reasons.
    undo
        A file that is there while a TrainJob may have to be taken back. It stays where that could
        not be done, for the follower.
    runtime
        The job's own runtime, if it has one: created first, and taken back together with it.

    Returns
    -------
    TrainJob
        As the cluster has made it.

    Raises
    ------
    QueuedError
        The bundle must not be mounted. Nothing is left in the cluster.
    ApiError
        Something was refused. Nothing is left in the cluster.
    Unreachable
        The API went away. There may be a TrainJob that waits for its Secret.
    """
    deadline = time.monotonic() + patience
    # The cluster looks at it first, so that what webhooks and quotas refuse leaves no trace.
    path, query = client.trainer("trainjobs"), {"fieldManager": trainjob.PREFIX}
    begun, created = runtime is not None, None
    try:
        if runtime is not None:
            _patiently(partial(restarts.create, client, runtime), deadline)
        look = partial(_post, client, path, {**query, "dryRun": "All"}, job)
        seen = _patiently(partial(_once_known, job.runtime.name, look), deadline)
        if job.mounts_bundle and queues.QUEUE in seen.labels.keys() - job.labels.keys():
            raise QueuedError
        begun = True
        make = partial(_create_once, client, path, query, job)
        created = _patiently(partial(_once_known, job.runtime.name, make), deadline)
        if runtime is not None:
            own = partial(restarts.hand_over, client, runtime.name, created)
            _patiently(own, deadline)
        add_secrets(client, created, job, found, deadline)
    except BaseException:
        if begun:
            undo.touch(mode=0o600)
            take_back(client, created or job, runtime)
            undo.unlink()
        raise
    return created


def add_secrets(
    client: Client,
    created: TrainJob,
    job: TrainJob,
    found: Sequence[Secret],
    deadline: float,
) -> None:
    """Create the Secrets of a TrainJob; those that exist already are fine.

    The first one gets the signature of the user's key: only now is the TrainJob's uid known.

    Parameters
    ----------
    created, job
        The TrainJob as the cluster has it, and as it was asked for.
    """
    signature: dict[str, str] = {}
    with contextlib.suppress(JaxTrainError, OSError):  # without it, all is well on this machine
        key = base64.b64decode(found[0].data[payload.KEY]).decode()
        said = statement(job, created.uid, key)
        signature[payload.SIGNATURE] = payload.as_data(signing.sign(said))
    owner = trainjob.owner(created)
    for number, item in enumerate(found):
        owned = _owned(item, owner, signature if number == 0 else {})
        with _already_there():
            _patiently(partial(_post_secret, client, owned), deadline)


def _post_secret(client: Client, secret: Secret) -> None:
    """Create a Secret.

    A server that refuses a long request does not read all of it, so its answer is lost: missing
    rights are then looked up.
    """
    try:
        client.request("POST", client.core("secrets"), body=secret.json)
    except Unreachable:
        for right in rights.missing(client, [rights.find("create", "secrets")]):
            verb, resource = right.verb, right.resource
            raise ApiError(403, "Forbidden", right.lack, verb, resource) from None
        raise


def _owned(secret: Secret, owner: OwnerRef, more: Mapping[str, str]) -> Secret:
    """Return a Secret with an owner, and with more data."""
    metadata = {**secret.metadata.json, "ownerReferences": [owner.json]}
    return Secret({**secret.json, "metadata": metadata, "data": {**secret.data, **more}})


def statement(job: TrainJob, trainjob_uid: str, frame_key: str) -> signing.Statement:
    """Return what a job's signature vouches for."""
    return signing.Statement.of(
        trainjob_uid=trainjob_uid,
        uid=job.annotations[trainjob.UID],
        namespace=job.namespace,
        trainjob=job.name,
        about=job.annotations[trainjob.ABOUT],
        frame_key=frame_key,
    )


def finish(client: Client, directory: JobDir, manifest: Manifest, found: TrainJob) -> None:
    """Finish a job whose submitter died after it had created the TrainJob."""
    spec = JobSpec.from_json(manifest["spec"])
    plan = plan_of(manifest)
    deadline = time.monotonic() + timeouts.UNDO.seconds
    # What a watch gives of it lacks the variables.
    look = partial(client.request, "GET", client.trainer("trainjobs", found.name))
    if not TrainJob(_patiently(look, deadline)).mounts_bundle:
        plan["mounts"] = False
    packed, job, secrets = manifests(directory.bundle, manifest, spec, plan)
    if packed.upload:
        payload.upload(directory.bundle, packed.upload, manifest["uid"])
    if plan.get("own_runtime"):
        own = partial(restarts.hand_over, client, trainjob.own_name(manifest), found)
        _patiently(own, deadline)
    add_secrets(client, found, job, secrets, deadline)


def take_back(client: Client, job: TrainJob, runtime: TrainingRuntime | None = None) -> None:
    """Delete a TrainJob that may have been created a moment ago, and its own runtime.

    Parameters
    ----------
    job
        As the cluster has made it, or as it was sent where no answer came: then the one that has
        its id, which nobody else knew, is taken for it.

    Raises
    ------
    Unreachable
        It could not be done.
    """
    deadline = time.monotonic() + timeouts.UNDO.seconds
    path = client.trainer("trainjobs", job.name)
    try:
        there = TrainJob(_patiently(lambda: client.request("GET", path), deadline))
        if there.uid == job.uid if job.uid else uid_of(there) == uid_of(job):
            body = {"preconditions": {"uid": there.uid}}
            _patiently(lambda: client.request("DELETE", path, body=body), deadline)
    except ApiError as error:
        if error.status not in (404, 409):
            raise Unreachable(say.TRAINJOB_STAYS(error=error.message)) from None
    if runtime is not None:
        name, own = runtime.name, runtime.labels[trainjob.UID]
        try:
            _patiently(partial(restarts.delete, client, name, own, None), deadline)
        except ApiError as error:
            raise Unreachable(say.RUNTIME_STAYS(name=name, error=error.message)) from None


def _post(client: Client, path: str, query: Mapping[str, str], job: TrainJob) -> TrainJob:
    return TrainJob(client.request("POST", path, query=query, body=job.json))


def _create_once(client: Client, path: str, query: Mapping[str, str], job: TrainJob) -> TrainJob:
    """Create the TrainJob; one that an earlier try made without an answer is taken as it is."""
    try:
        return _post(client, path, query, job)
    except ApiError as error:
        if error.status != 409:
            raise
        there = TrainJob(client.request("GET", client.trainer("trainjobs", job.name)))
        if uid_of(there) != uid_of(job):
            raise
        return there


def _once_known(runtime: str, request: Callable[[], TrainJob]) -> TrainJob:
    """Make a request that is refused until Trainer has heard of a runtime.

    The runtime exists, but Trainer reads its own cache, which gets a new one later.
    """
    deadline = time.monotonic() + timeouts.RUNTIME.seconds
    while True:
        try:
            return request()
        except ApiError as error:
            unknown = runtime in error.message and "not found" in error.message
            if not unknown or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def marked(job: TrainJob) -> str | None:
    """Return the words with which a job was marked as failed, None where it isn't."""
    found = job.annotations.get(trainjob.FAILED)
    return None if found is None else line(found, WORDS)


@contextlib.contextmanager
def _already_there() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if error.status != 409:
            raise


def _patiently(request: Callable[[], _Answer], deadline: float) -> _Answer:
    """Make a request again while it fails for a passing reason."""
    pause = 0.1
    while True:
        try:
            return request()
        except (ApiError, Unreachable) as error:
            passing = isinstance(error, Unreachable) or error.is_transient
            wanted = error.retry_after if isinstance(error, ApiError) else 0.0
            if not passing or time.monotonic() + max(pause, wanted) > deadline:
                raise
        time.sleep(max(wanted, pause * _RANDOM.uniform(0.5, 1.0)))
        pause = min(2.0, pause * 2)


def submitted_state(nodes: int) -> JobState:
    """Return the first state of a job that goes to a cluster."""
    ranks = [new_rank(number) for number in range(nodes)]
    reason = submitting()["reason"]
    return {**first_state(State.QUEUED, reason, ranks=ranks), "submitting": True}


# -- the follower ----------------------------------------------------------------------------


def follower_directory(cluster: str) -> Path:
    """Return the directory of the follower of a cluster and namespace."""
    return store.home() / "followers" / cluster


def has_follower(cluster: str) -> bool:
    """Return whether a follower lives, by the lock that dies with it."""
    return locks.is_held(follower_directory(cluster) / "lock")


def _has_made_way(cluster: str) -> bool:
    """End a follower of another version; return whether there is none now."""
    directory = follower_directory(cluster)
    deadline = time.monotonic() + timeouts.KILL.seconds
    while has_follower(cluster):
        with contextlib.suppress(OSError):
            if (directory / GENERATION_FILE).read_text() == GENERATION:
                return False
        with contextlib.suppress(OSError, ValueError):
            if (pid := int((directory / "lock").read_text())) > 1:
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def start_follower(plan: KubernetesPlan) -> None:
    """Start the follower of a job's cluster and namespace, if there is none of this version.

    Its lock is taken here, and it inherits that: on a busy machine it needs seconds to start, in
    which others must not start more. One of another version makes way: it may not know what this
    version writes, and the next goes on from what is on disk.
    """
    if not _has_made_way(plan["cluster"]):
        return
    directory = store.private_directory(follower_directory(plan["cluster"]))
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if locks.try_lock(lock):
            # Before the lock names a process: one that it names and has no generation is of 0.1.
            os.ftruncate(lock, 0)
            files.write_private(directory / GENERATION_FILE, GENERATION.encode())
            _start_with(lock, directory, plan)
    finally:
        os.close(lock)


def _start_with(lock: int, directory: Path, plan: KubernetesPlan) -> None:
    program = (
        "import os, sys; os.fork() and os._exit(0); os.setsid(); sys.path.insert(0, sys.argv[1]); "
        "from jupyter_jax_trainer.backends.kubernetes.follow.follower import main; "
        "main(*sys.argv[2:])"
    )
    environment = dict(os.environ)
    if kubeconfig := plan.get("kubeconfig"):
        environment["KUBECONFIG"] = kubeconfig
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    log = os.open(directory / LOG, flags, 0o600)
    try:
        subprocess.run(
            [
                sys.executable,
                "-c",
                program,
                _ROOT,
                plan["cluster"],
                plan["context"] or "",
                plan["namespace"],
                str(lock),
            ],
            pass_fds=(lock,),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            check=False,
            cwd="/",
        )
    finally:
        os.close(log)
