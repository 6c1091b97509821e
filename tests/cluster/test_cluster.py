"""The cluster itself, its CPU worker and our runtime, before anything of the package uses them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from cluster.harness import layout
from cluster.kubernetes_cluster import Cluster, Namespace

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PSUM = """
import json, os, pathlib, tempfile
import jax

jax.distributed.initialize(
    os.environ["JAX_COORDINATOR_ADDRESS"],
    int(os.environ["JAX_NUM_PROCESSES"]),
    int(os.environ["JAX_PROCESS_ID"]),
    cluster_detection_method="deactivate",
)
import jax.numpy as jnp

ones = jnp.ones(jax.local_device_count())
total = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")(ones * (jax.process_index() + 1))


def writable(folder):
    try:
        pathlib.Path(folder, "here").write_text("")
    except OSError:
        return False
    return True


print("SAW", json.dumps({
    "rank": jax.process_index(),
    "sum": float(total[0]),
    "uid": os.getuid(),
    "writable": [writable(pathlib.Path.home()), writable(tempfile.gettempdir())],
    "read_only": [not writable("/"), not writable("/opt/jax"), not writable("/var/tmp")],
    "status_server": os.environ.get("KUBEFLOW_TRAINER_SERVER_URL", ""),
}))
"""


def submit(namespace: Namespace, name: str, code: str, nodes: int = 1) -> None:
    spec: dict[str, Any] = {
        "runtimeRef": {"name": "jax-cpu"},
        "trainer": {"numNodes": nodes, "command": ["python3", "-c", code]},
    }
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": spec,
    }
    namespace("create", "-f", "-", stdin=job)


def test_two_nodes_add_up_in_a_restricted_namespace(namespace: Namespace) -> None:
    submit(namespace, "psum", PSUM, nodes=2)
    namespace.until_condition("psum", "Complete", within_s=90)
    seen = []
    for pod in namespace.pods("psum"):
        lines = namespace("logs", pod["metadata"]["name"]).splitlines()
        seen += [json.loads(line.removeprefix("SAW ")) for line in lines if line.startswith("SAW ")]
    assert [rank["rank"] for rank in seen] == [0, 1]
    for rank in seen:
        assert rank["sum"] == 3.0
        assert rank["uid"] != 0
        assert all(rank["writable"])
        assert all(rank["read_only"])
    if namespace.cluster.own:  # elsewhere the gate TrainJobStatus may be off
        assert all(rank["status_server"].endswith("/trainjobs/psum/status") for rank in seen)


def test_a_failing_cell_is_not_run_again(namespace: Namespace) -> None:
    submit(namespace, "fails", "print('once', flush=True); raise SystemExit(3)")
    job = namespace.until_condition("fails", "Failed", within_s=60)
    reasons = {c["type"]: c["reason"] for c in job["status"]["conditions"]}
    assert reasons["Failed"] == "ReachedMaxRestarts"  # of which there may be 0
    (pod,) = namespace.pods("fails")
    (container,) = pod["status"]["containerStatuses"]
    assert container["restartCount"] == 0
    assert container["state"]["terminated"]["exitCode"] == 3
    assert namespace("logs", pod["metadata"]["name"]) == "once\n"


def test_pods_of_our_runtime_stay_out_of_a_mesh(namespace: Namespace) -> None:
    submit(namespace, "alone", "pass")
    namespace.until_condition("alone", "Complete", within_s=60)
    (pod,) = namespace.pods("alone")
    assert pod["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"
    assert [container["name"] for container in pod["spec"]["containers"]] == ["node"]


def test_versions_are_the_pinned_ones(cluster: Cluster) -> None:
    if not cluster.own:
        return  # another cluster has its own
    server = json.loads(cluster("version", "--output=json"))["serverVersion"]["gitVersion"]
    (node,) = cluster.get("nodes")["items"]
    public = cluster.get("configmap", "kubeflow-trainer-public", "--namespace=kubeflow-system")
    jobset = cluster.get("deployment", "jobset-controller-manager", "--namespace=jobset-system")
    (manager,) = jobset["spec"]["template"]["spec"]["containers"]
    assert server == node["status"]["nodeInfo"]["kubeletVersion"] == layout.KUBERNETES
    assert public["data"]["kubeflow_trainer_version"] == layout.TRAINER
    assert manager["image"].endswith(f":{layout.JOBSET}")


def test_a_second_start_changes_nothing(cluster: Cluster) -> None:
    if not cluster.own:
        return
    before = layout.PROCESSES.read_text()
    up = [sys.executable, str(layout.HERE / "up.py")]
    done = subprocess.run(up, capture_output=True, text=True, check=True, timeout=90)
    assert done.stdout.splitlines()[-1] == str(layout.KUBECONFIG)
    assert layout.PROCESSES.read_text() == before
