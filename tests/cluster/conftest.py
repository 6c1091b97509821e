"""The cluster that these tests run on: the one that KUBECONFIG names, else that of `make cluster`."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import eventually
from policy import skip_or_fail

from cluster.harness import layout
from cluster.jobs import stop_followers
from cluster.kubernetes_cluster import Cluster, Namespace
from cluster.made_runtimes import Shared, reachable
from jupyter_jax_trainer.backends.kubernetes import connection

STRICT = {"pod-security.kubernetes.io/enforce": "restricted"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give these tests more time: they wait for a cluster that shares a small machine."""
    for item in items:
        if item.get_closest_marker("cluster") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300))
        if {"pretend", "room"} & set(getattr(item, "fixturenames", ())):  # the node is not itself
            item.add_marker(pytest.mark.disruptive)


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """Return the cluster; where there is none, the test is skipped or fails (policy.py)."""
    named = os.environ.get("KUBECONFIG")
    kubeconfig = Path(named) if named else layout.KUBECONFIG
    own = kubeconfig.resolve() == layout.KUBECONFIG
    tool = str(layout.KUBECTL) if own else shutil.which("kubectl")
    if not named and not kubeconfig.exists():
        skip_or_fail(
            "cluster", "there is no cluster: `make cluster` starts one, KUBECONFIG names another"
        )
    if tool is None:
        skip_or_fail("cluster", "there is no kubectl to speak to the cluster that KUBECONFIG names")
    found = Cluster((tool,) if own else (tool, "--kubeconfig", str(named)), kubeconfig, own)
    if found("get", "--raw", "/readyz", "--request-timeout=10s", check=False) != "ok":
        skip_or_fail("cluster", f"the cluster of {kubeconfig} does not answer")
    if "jax-cpu" not in found("get", "clustertrainingruntimes", "--output=name", check=False):
        skip_or_fail(
            "cluster",
            f"the cluster of {kubeconfig} lacks Kubeflow Trainer or our runtimes: install Trainer, "
            "then `jaxtrain runtimes install`",
        )
    return found


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Namespace]:
    """Give the test a namespace in which only pods of the strictest kind may run."""
    name = f"jaxtrain-test-{uuid.uuid4().hex[:8]}"
    metadata = {"name": name, "labels": STRICT}
    described = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    cluster("create", "-f", "-", stdin=described)
    yield Namespace(cluster, name)
    cluster("delete", "namespace", name, "--wait=false")


@pytest.fixture
def shared(cluster: Cluster, namespace: Namespace, tmp_path: Path) -> Iterator[Shared]:
    """Give the test a folder that is on this machine and a volume of its namespace."""
    if not reachable(cluster):
        skip_or_fail("own cluster", "this machine and the nodes have no folder in common")
    found = Shared(namespace, tmp_path)
    yield found
    found.remove()


@pytest.fixture
def pretend(cluster: Cluster) -> Iterator[Callable[..., None]]:
    """Let the node have devices, labels and a taint; all of it is taken away after the test."""
    (node,) = cluster.get("nodes")["items"]
    name, taken = node["metadata"]["name"], []

    def status(**amounts: Any) -> None:
        cluster(
            "patch",
            "node",
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
            json.dumps({"status": {"capacity": amounts, "allocatable": amounts}}),
        )

    def allocatable() -> dict[str, str]:
        return dict(cluster.get("node", name)["status"]["allocatable"])

    def change(resource: str, amount: int, **labels: str) -> None:
        taken.append((resource, labels))
        status(**{resource: str(amount)})
        cluster(
            "patch",
            "node",
            name,
            "--type=merge",
            "-p",
            json.dumps({"metadata": {"labels": labels}}),
        )
        cluster("taint", "node", name, f"{resource}=present:NoSchedule")
        eventually(lambda: allocatable().get(resource) == str(amount))

    yield change
    for resource, labels in taken:
        cluster("taint", "node", name, f"{resource}-", check=False)
        cluster(
            "patch",
            "node",
            name,
            "--type=merge",
            "-p",
            json.dumps({"metadata": {"labels": dict.fromkeys(labels)}}),
        )
        status(**{resource: None})
        eventually(lambda r=resource: allocatable().get(r, "0") == "0")


@pytest.fixture
def place(cluster: Cluster, namespace: Namespace, store: Path, monkeypatch) -> Iterator[str]:
    """Give the options with which a job runs in the test's own namespace; its follower ends after."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    yield f"--backend kubernetes --namespace {namespace.name}"
    connection._clients.clear()
    stop_followers(store)
