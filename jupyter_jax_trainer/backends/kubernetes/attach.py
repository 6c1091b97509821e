"""Find a job in the cluster that this machine has never seen, and make its directory anew."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_jax_trainer import files, jobdir
from jupyter_jax_trainer.backends.kubernetes import kubeconfig, launch, payload, trainjob
from jupyter_jax_trainer.backends.kubernetes.backend import get_client, said_plainly
from jupyter_jax_trainer.backends.kubernetes.client import ApiError, Client
from jupyter_jax_trainer.backends.kubernetes.seen import condition
from jupyter_jax_trainer.errors import BackendError, JaxTrainError, JobNotFound
from jupyter_jax_trainer.jobdir import JobDir
from jupyter_jax_trainer.spec import JobSpec
from jupyter_jax_trainer.worker.archive import Archive


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
    """
    client = get_client(context, namespace)
    with said_plainly(client):
        try:
            found = client.request("GET", client.trainer("trainjobs", name))
        except ApiError as error:
            if error.status != 404:
                raise
            raise JobNotFound(
                f"There is no job {name!r} on this machine, and no TrainJob {name} in namespace "
                f"{client.namespace}.",
                "--context and --namespace choose another.",
            ) from None
    about = _about(found)
    known = jobdir.with_uid(launch.uid_of(found))
    if known is not None:
        return known
    directory, lock = jobdir.create()
    try:
        plan = {
            **about["plan"],
            "server": client.server,
            "context": client.context,
            "namespace": client.namespace,
            "cluster": client.identity,
            "kubeconfig": kubeconfig.paths(),
        }
        manifest = {
            **about,
            "name": _free(name),
            "trainjob": name,
            "uid": launch.uid_of(found),
            "backend": "kubernetes",
            "host": "",
            "plan": plan,
            "origin": {"attached": time.time()},
        }
        ended = condition(found, "Complete", "Failed") is not None
        directory.cell.write_text(_bundle(client, directory, manifest, ended=ended))
        files.write_json(directory.manifest, manifest)
        state = launch.first_state(JobSpec.from_json(manifest["spec"]).nodes)
        files.write_json(directory.state, {**state, "reason": "is looked for in the cluster"})
        directory = jobdir.publish(directory, manifest["name"])
    except BaseException:
        directory.remove()
        raise
    finally:
        os.close(lock)
    launch.start_follower(plan)
    return directory


def _about(found: Mapping[str, Any]) -> dict[str, Any]:
    text = (found["metadata"].get("annotations") or {}).get(trainjob.ABOUT)
    try:
        about = json.loads(text or "")
        if about["format"] != files.FORMAT:
            raise ValueError
        return dict(about)
    except (ValueError, TypeError, KeyError):
        raise BackendError(
            f"TrainJob {found['metadata']['name']} was not made by this version of "
            "jupyter_jax_trainer.",
            "kubectl can show it: kubectl logs -l "
            f"jobset.sigs.k8s.io/jobset-name={found['metadata']['name']}",
        ) from None


def _free(name: str) -> str:
    number, free = 1, name
    while (jobdir.jobs_directory() / free).exists():
        number += 1
        free = f"{name[: 62 - len(str(number))]}-{number}"
    return free


def _bundle(
    client: Client, directory: JobDir, manifest: dict[str, Any], *, ended: bool
) -> str:
    """Fetch the bundle and the key, as far as that is allowed; give the code of the cell."""
    secret = f"{manifest['trainjob']}-{manifest['uid'][:8]}"
    try:
        data = client.request("GET", client.core("secrets", secret)).get("data") or {}
    except ApiError as error:
        if error.status == 404 and not ended:
            raise BackendError(
                f"TrainJob {manifest['trainjob']} still waits for its Secret {secret}.",
                "Attach again when it is there; a dry run's YAML holds both.",
            ) from None
        return "# The Secret with the cell can't be read (the right to get secrets).\n"
    manifest["frame_key"] = base64.b64decode(data[payload.KEY]).decode()
    chunks = [base64.b64decode(data[key]) for key in sorted(data) if key.startswith("bundle-")]
    whole = base64.b64decode(b"".join(chunks))
    number = 1
    while not chunks:
        try:
            found = client.request(
                "GET", client.core("secrets", payload.secret_name(secret, number))
            )
        except ApiError:
            break
        whole += b"".join(base64.b64decode(part) for part in found["data"].values())
        number += 1
    store = manifest["spec"].get("store")
    if not whole and store:
        with contextlib.suppress(Exception):  # of whatever library talks to the store
            whole = payload.read(payload.url_of(store, manifest["uid"]))
    with tempfile.TemporaryDirectory(dir=directory.path) as folder:
        path = Path(folder) / "bundle.pyz"
        path.write_bytes(whole)
        try:
            code = Archive(path, manifest["digest"]).read("cell.py").decode()
        except JaxTrainError:
            return "# The bundle with the cell can't be had from here.\n"
        path.chmod(0o600)
        path.replace(directory.bundle)
    return code.removeprefix("\n")  # it stands there for the line of the magic
