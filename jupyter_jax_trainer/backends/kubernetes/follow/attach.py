"""Find a job in the cluster that this machine has never seen, and make its directory anew."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import tempfile
import time
from pathlib import Path

from jupyter_jax_trainer.backends.kubernetes.api import claims, identity, kubeconfig
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client
from jupyter_jax_trainer.backends.kubernetes.api.marks import uid_of
from jupyter_jax_trainer.backends.kubernetes.api.objects import Secret, TrainJob
from jupyter_jax_trainer.backends.kubernetes.api.plan import KubernetesPlan
from jupyter_jax_trainer.backends.kubernetes.connection import get_client, said_plainly
from jupyter_jax_trainer.backends.kubernetes.submit import launch, payload, trainjob
from jupyter_jax_trainer.errors import BackendError, JobNotFound
from jupyter_jax_trainer.jobdir import files, layout
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Attached, Manifest
from jupyter_jax_trainer.jobdir.state import first_state, new_rank
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.trust import signing
from jupyter_jax_trainer.trust.unpacking import read_member

_KEY = re.compile(r"[0-9a-f]{64}")
_NOT_TO_BE_HAD = (403, 404)  # other answers pass: the next try may have it
_LARGEST = 4 << 20  # bytes of a member of a bundle that is read here


def attach(name: str, context: str | None, namespace: str | None) -> JobDir:
    """Make the directory of a job from what the cluster holds, and have it followed.

    The bundle, and the key with which the ranks sign what they say, are in the job's Secret;
    without the right to read that there are logs, but neither progress nor results.

    Raises
    ------
    JobNotFound
        There is no such TrainJob.
    BackendError
        The cluster refuses it, does not answer, or the TrainJob isn't one of ours.
    JobDirError
        The job is in this store, and damaged.
    """
    client = get_client(context, namespace)
    with said_plainly(client):
        try:
            found = find(client, name)
        except JobNotFound as error:
            missing = say.NO_JOB_HERE(name=name, reason=error.message)
            raise JobNotFound(missing, error.hint) from None
    told = claims.read(found)
    known = known_here(client, found)
    if known is not None:
        return known
    directory, lock = layout.create()
    try:
        said = told.to_manifest()
        stated = said["plan"]
        plan: KubernetesPlan = {
            "runtime": stated["runtime"],
            "runtime_kind": stated["runtime_kind"],
            "runs_once": stated["runs_once"],
            "device": stated["device"],
            "devices_per_node": stated["devices_per_node"],
            "note": told.plan.note,
            "server": client.server,
            "context": client.context,
            "namespace": client.namespace,
            "cluster": client.identity,
            "kubeconfig": kubeconfig.paths(),
        }
        origin: Attached = {"attached": time.time()}
        manifest: Manifest = {
            "name": _free(name),
            "uid": said["uid"],
            "backend": "kubernetes",
            "host": "",
            # Not its own claim: this decides which job is the newest.
            "created": found.created or time.time(),
            "spec": said["spec"],
            "plan": plan,
            "sent": said["sent"],
            "origin": origin,
            "returns": said["returns"],
            "digest": said["digest"],
            "python": said["python"],
            "package": said["package"],
            "maker": said["maker"],
            "trainjob": name,
        }
        ended = found.condition("Complete", "Failed") is not None
        uid = found.uid
        with said_plainly(client):
            code = _bundle(client, directory, manifest, origin, uid, ended=ended)
        files.write_private(directory.cell, code.encode())
        if "signature" in origin:  # kept whosever it is: a key may be imported later
            statement = launch.statement(found, uid, manifest["frame_key"])
            origin["statement"] = statement.to_json()
        files.write_json(directory.manifest, manifest)
        identity.note(directory, uid)
        ranks = [new_rank(number) for number in range(told.spec.nodes)]
        state = first_state(State.QUEUED, say.LOOKED_UP(), ranks=ranks)
        files.write_json(directory.state, state)
        directory = layout.publish(directory, manifest["name"])
    except BaseException:
        directory.remove()
        raise
    finally:
        os.close(lock)
    launch.start_follower(plan)
    return directory


def find(client: Client, name: str) -> TrainJob:
    """Get a TrainJob.

    Raises
    ------
    JobNotFound
        There is none of this name.
    ApiError, Unreachable
        The cluster refuses it, or does not answer.
    """
    try:
        return TrainJob(client.request("GET", client.trainer("trainjobs", name)))
    except ApiError as error:
        if error.status != 404:
            raise
        raise JobNotFound(say.NO_TRAINJOB(name=name, namespace=client.namespace)) from None


def known_here(client: Client, found: TrainJob) -> JobDir | None:
    """Return the job of this store that is a TrainJob's; None where there is none.

    Raises
    ------
    BackendError
        The TrainJob has the id of a job of this store that is another one.
    """
    uid = uid_of(found)
    known = layout.with_uid(uid) if uid is not None else None
    return None if known is None else _same(known, client, found)


def _same(known: JobDir, client: Client, found: TrainJob) -> JobDir:
    """Return the job of this store that has a TrainJob's id, if it is that TrainJob's."""
    manifest = known.read_manifest()
    same = (
        manifest.get("backend") == "kubernetes"
        and manifest["plan"].get("cluster") == client.identity
        and (manifest.get("trainjob") or manifest["name"]) == found.name
        and identity.is_jobs(known, manifest, found)
    )
    if not same:
        raise BackendError(say.ANOTHER_TRAINJOB(name=found.name, job=known.path.name))
    return known


def _free(name: str) -> str:
    number, free = 1, name
    while (layout.jobs_directory() / free).exists():
        number += 1
        free = f"{name[: 62 - len(str(number))]}-{number}"
    return free


def _bundle(
    client: Client,
    directory: JobDir,
    manifest: Manifest,
    origin: Attached,
    uid: str,
    *,
    ended: bool,
) -> str:
    """Fetch the bundle and the key, as far as that is allowed; give the code of the cell.

    What is in the Secrets was written by whoever made the job. The store that its options name is
    not read: that would be a request, or a look into a file, of somebody else's choice.
    """
    secret = f"{manifest['trainjob']}-{manifest['uid'][:8]}"
    try:
        data = _data(client, secret, manifest["uid"], uid)
    except ApiError as error:
        if error.status not in _NOT_TO_BE_HAD:
            raise
        if error.status == 404 and not ended:
            said = say.WAITS_FOR_SECRET(name=manifest["trainjob"], secret=secret)
            raise BackendError(said) from None
        return f"{say.CELL_FORBIDDEN()}\n"
    except ValueError:
        return f"{say.NO_CELL()}\n"
    try:
        key = data[payload.KEY].decode("ascii")
        if not _KEY.fullmatch(key):
            raise ValueError("that is no key")
        whole = base64.b64decode(
            b"".join(data[name] for name in sorted(data) if name.startswith("bundle-"))
        )
        for number in range(1, 1 if whole else payload.MOST_SECRETS):
            try:
                parts = _data(client, payload.secret_name(secret, number), manifest["uid"], uid)
            except ApiError as error:
                if error.status not in _NOT_TO_BE_HAD:
                    raise
                break
            whole += b"".join(parts[name] for name in sorted(parts))
    except (ValueError, LookupError):
        return f"{say.NO_CELL()}\n"
    manifest["frame_key"] = key
    signature = data.get(payload.SIGNATURE, b"").decode(errors="replace")
    if signing.signer(signature):
        origin["signature"] = signature
    with tempfile.TemporaryDirectory(dir=directory.path) as folder:
        path = Path(folder) / "bundle.pyz"
        path.write_bytes(whole)
        try:
            code = _cell(path, manifest["digest"])
        except Exception:  # whatever a file that somebody else made can cause
            return f"{say.CELL_UNREADABLE()}\n"
        path.chmod(0o600)
        path.replace(directory.bundle)
    return code.removeprefix("\n")  # it stands there for the line of the magic


def _cell(path: Path, digest: str) -> str:
    """Read the code of the cell, which the digest of the archive vouches for.

    `Archive` would unpack a member whole before it could be refused.
    """
    text = read_member(path, "manifest.json", _LARGEST)
    if hashlib.sha256(text).hexdigest() != digest:
        raise ValueError("it is another archive")
    code = read_member(path, "cell.py", _LARGEST)
    if hashlib.sha256(code).hexdigest() != json.loads(text)["members"]["cell.py"]:
        raise ValueError("the cell is another one")
    return code.decode()


def _data(client: Client, name: str, own: str, uid: str) -> dict[str, bytes]:
    """Read a Secret of the job; one that is not the job's is as good as none.

    Raises
    ------
    ApiError
        It can't be read, or is another's.
    ValueError
        It holds something else.
    """
    found = Secret(client.request("GET", client.core("secrets", name)))
    if not trainjob.belongs(found, own, uid):
        raise ApiError(404, "NotFound", f"Secret {name} is not the job's", "get", "secrets")
    return {key: base64.b64decode(value, validate=True) for key, value in found.data.items()}
