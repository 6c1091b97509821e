"""Runtimes and volumes that a test makes for itself."""

from __future__ import annotations

import copy
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster.kubernetes_cluster import Cluster, Namespace

Change = Callable[[dict[str, Any]], None]


def image(cluster: Cluster) -> str:
    """Return the image of our runtime for CPUs."""
    found = _job_set(cluster.get("clustertrainingruntime", "jax-cpu"))["replicatedJobs"][0]
    return str(pod_of(found)["containers"][0]["image"])


def make(
    namespace: Namespace,
    name: str,
    change: Change = lambda pod: None,
    *,
    initializer: bool = False,
    before: Change = lambda pod: None,
    like: str = "jax-cpu",
) -> str:
    """Make a runtime in the namespace, like one of the cluster's but for a change of its pod.

    With an initializer, `before` changes that one's.
    """
    body = namespace.cluster.get("clustertrainingruntime", like)
    job_set = _job_set(body)
    node = job_set["replicatedJobs"][0]
    change(pod_of(node))
    if initializer:
        first = copy.deepcopy(node)
        first["name"] = "dataset-initializer"
        step = {"trainer.kubeflow.org/trainjob-ancestor-step": "dataset-initializer"}
        first["template"]["metadata"] = {"labels": step}
        container = pod_of(first)["containers"][0]
        container["name"] = "dataset-initializer"
        container["command"] = ["python3", "-c", "print('a data set')"]
        before(pod_of(first))
        node["dependsOn"] = [{"name": "dataset-initializer", "status": "Complete"}]
        job_set["replicatedJobs"] = [first, node]
    namespace(
        "create",
        "-f",
        "-",
        stdin={
            "apiVersion": body["apiVersion"],
            "kind": "TrainingRuntime",
            "spec": body["spec"],
            "metadata": {"name": name, "labels": body["metadata"]["labels"]},
        },
    )
    return name


def _job_set(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["spec"]["template"]["spec"]
    return found


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    """Return the pod of a replicated job."""
    found: dict[str, Any] = job["template"]["spec"]["template"]["spec"]
    return found


class Shared:
    """A folder of this machine that is a volume of the cluster, too.

    Both sides see it under the same path, since a claim can be mounted anywhere.

    Attributes
    ----------
    claim
        The claim in the test's namespace.
    path
        The folder, here and in pods that mount the claim there.

    Parameters
    ----------
    claim
        The name of the claim; None makes one.
    """

    def __init__(self, namespace: Namespace, tmp_path: Path, claim: str | None = None) -> None:
        self._name = f"jaxtrain-shared-{uuid.uuid4().hex[:8]}"
        self._cluster = namespace.cluster
        state = namespace.cluster.kubeconfig.resolve().parent  # the node has it as /mnt/state
        self._folder = state / self._name
        self._folder.mkdir()
        self._folder.chmod(0o777)  # pods run as another user
        self.path = tmp_path / "shared"
        self.path.symlink_to(self._folder)
        self.claim = claim or "shared"
        spec = {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
        }
        self._cluster(
            "create",
            "-f",
            "-",
            stdin={
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": self._name},
                "spec": {
                    **spec,
                    "hostPath": {"path": f"/mnt/state/{self._name}"},
                    "claimRef": {"namespace": namespace.name, "name": self.claim},
                },
            },
        )
        if claim is not None:
            return
        namespace(
            "create",
            "-f",
            "-",
            stdin={
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": self.claim},
                "spec": {
                    "accessModes": ["ReadWriteMany"],
                    "storageClassName": "",
                    "volumeName": self._name,
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        )

    def remove(self) -> None:
        """Take the volume away."""
        self._cluster("delete", "persistentvolume", self._name, "--wait=false")
        shutil.rmtree(self._folder, ignore_errors=True)


def reachable(cluster: Cluster) -> bool:
    """Return whether this machine and the nodes have a folder in common."""
    return cluster.own and os.access(cluster.kubeconfig.resolve().parent, os.W_OK)
