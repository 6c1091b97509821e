"""`doctor` on a real API server that lacks what jobs need: rows of docs/reference/doctor.md that no cluster in use can be brought into.

It is a second one beside the test cluster's. Nothing is in it at first, and each test adds to what the one before has
left there: definitions as large as these take long to delete.
"""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import eventually

from cluster.faults import require_own
from cluster.kubernetes_cluster import Cluster
from cluster.test_doctor import wrong
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.doctor import doctor, readiness
from jupyter_jax_trainer.commands import Context, run_command
from jupyter_jax_trainer.doctor import report
from jupyter_jax_trainer.doctor.finding import FAIL, OK, WARN, Finding
from jupyter_jax_trainer.messages import submit as say_of_submit

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

BARE = Path(__file__).parent / "harness" / "bare.py"
TRAINER = [
    f"{kind}.trainer.kubeflow.org"
    for kind in ("trainjobs", "trainingruntimes", "clustertrainingruntimes")
]

Looked = Callable[[], list[Finding]]


def harness(action: str) -> str:
    done = subprocess.run([sys.executable, BARE, action], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


@pytest.fixture(scope="module")
def bare(cluster: Cluster) -> Iterator[Cluster]:
    """Give an API server that knows Kubernetes and nothing else."""
    require_own(cluster)
    try:
        path = Path(harness("up"))
        yield Cluster((*cluster.kubectl, "--kubeconfig", str(path)), path, own=True)
    finally:
        harness("down")


@pytest.fixture(scope="module")
def definitions(cluster: Cluster) -> list[Any]:
    """Give what Trainer defines, as the test cluster has it; TrainJobs come first."""
    items = cluster.get("customresourcedefinitions", *TRAINER)["items"]
    for item in items:
        item["metadata"] = {"name": item["metadata"]["name"]}
        del item["status"]
    return sorted(items, key=lambda item: TRAINER.index(item["metadata"]["name"]))


@pytest.fixture
def looked(bare: Cluster, home: Path, monkeypatch) -> Iterator[Looked]:
    """Give what examines the bare cluster."""
    monkeypatch.setenv("KUBECONFIG", str(bare.kubeconfig))
    yield lambda: list(report.examine("kubernetes"))
    connection._clients.clear()


def install(bare: Cluster, *items: Any) -> None:
    bare(
        "apply",
        "--server-side",
        "-f",
        "-",
        stdin={"apiVersion": "v1", "kind": "List", "items": items},
    )


def test_broken_no_trainer(looked):
    assert wrong(looked(), "Kubeflow Trainer", FAIL, say_of_submit.NO_TRAINER(), "2.2 or newer")


def test_broken_old_trainer(bare, definitions, looked):
    """2.1 had no patches; it is told by that alone, and by the version where Trainer publishes it."""
    old = copy.deepcopy(definitions[0])
    for version in old["spec"]["versions"]:
        del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][
            "runtimePatches"
        ]
    install(bare, old)
    said = say_of_submit.UNPATCHED_TRAINER()
    eventually(lambda: wrong(looked(), "Kubeflow Trainer", FAIL, said, "2.2 or newer"))
    name = {"name": "kubeflow-trainer-public", "namespace": "kubeflow-system"}
    install(
        bare,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name["namespace"]}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "data": {"kubeflow_trainer_version": "v2.1.1"},
            "metadata": name,
        },
    )
    try:
        assert wrong(looked(), "Kubeflow Trainer", FAIL, "v2.1.1", "2.2 or newer")
    finally:
        bare("delete", "configmap", name["name"], "--namespace", name["namespace"])


def test_broken_no_jobset(bare, definitions, looked):
    install(bare, *definitions)
    eventually(
        lambda: wrong(looked(), "JobSet", FAIL, "not installed", readiness.NO_JOB_SET().hint)
    )


def test_broken_no_runtime(bare, definitions, looked):
    """What it advises to do helps."""
    install(bare, *definitions)
    eventually(lambda: wrong(looked(), "JAX runtimes", FAIL, "none", "runtimes install"))
    try:
        run_command(["runtimes", "install"], Context(print=lambda text: None))
        found = {one.subject: one for one in looked()}
        assert found["JAX runtimes"].status == OK and "jax-cpu" in found["JAX runtimes"].detail
        assert found["Trial"].status == OK, found["Trial"]
    finally:
        bare("delete", "clustertrainingruntimes", "--all")


def test_broken_runtime_reruns_cells(cluster, bare, definitions, looked):
    """Trainer's own runtime for JAX is such a one."""
    install(bare, *definitions)
    eventually(lambda: wrong(looked(), "JAX runtimes", FAIL, "none"))
    stock = cluster.get("clustertrainingruntime", "jax-distributed")
    stock["metadata"] = {what: stock["metadata"][what] for what in ("name", "labels")}
    install(bare, stock)
    said = doctor.RERUNNING_RUNTIMES(names="jax-distributed", command="")
    assert wrong(looked(), "JAX runtimes", WARN, said)
