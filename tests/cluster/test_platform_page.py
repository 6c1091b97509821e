"""The guides for platform engineers are true: their lines do what they say, but for those marked otherwise."""

from __future__ import annotations

import pytest

from cluster import people
from cluster.faults import require_own
from cluster.pages import Terminal, blocks
from jupyter_jax_trainer.messages import cluster as say

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.disruptive]

GUIDES = [
    "guides/platform-engineer/setup.md",
    "guides/platform-engineer/runtimes.md",
    "guides/platform-engineer/operations.md",
]
WIDE = "jupyter-jax-trainer-runtimes"  # what the page makes for the whole cluster, beside runtimes


def test_the_platform_guide(cluster, namespace, home, tmp_path):
    require_own(cluster)  # all runtimes of the cluster get other images for a while
    namespace("create", "serviceaccount", "dora")
    user = {"token": people.token(namespace, "dora")}
    hers = people.kubeconfig(tmp_path / "hers", people.about(cluster), user, namespace.name)
    name = f"system:serviceaccount:{namespace.name}:dora"
    registry = (
        "localhost"  # the node has its images under this name, too, as if they had come from there
    )
    here = {
        r"\bCLAIM\b": "claim",
        r"\bREGISTRY\b": registry,
        r"\bNAMESPACE\b": namespace.name,
        r"\bNAME\b": name,
    }
    admin, dora = (Terminal(kubeconfig, home, here) for kubeconfig in (cluster.kubeconfig, hers))
    said = []
    try:
        # The test cluster's runtimes are there already, and kubectl's: others must not own what is changed here.
        admin("jaxtrain runtimes install --registry old.example.org --force")
        for _, text in blocks(*GUIDES):
            said.append((dora if text.startswith("jaxtrain doctor") else admin)(text))
    finally:
        cluster("delete", "clusterrole", WIDE, "--ignore-not-found")
        cluster("delete", "clusterrolebinding", f"{WIDE}-{name}", "--ignore-not-found")
        admin("jaxtrain runtimes install")
    up, installed, bound, asdora, restarts, runtimes, with_volume, gpu, private, cleaned, gone = (
        said
    )
    assert not cleaned  # nothing here is as old
    assert up.count("condition met") >= 1
    assert (
        f"ClusterTrainingRuntime jax-cpu: configured, {registry}/jupyter-jax-trainer-cpu:"
        in installed
    )
    assert "role.rbac.authorization.k8s.io/jupyter-jax-trainer-user" in bound
    assert (
        f"rolebinding.rbac.authorization.k8s.io/jupyter-jax-trainer-restarts-{name} created"
        in restarts
    )
    assert "a job of jax-cpu would be accepted" in asdora, asdora
    assert "jobs can't run" not in asdora.lower()
    assert say.NO_RESTARTS() in asdora  # she gets these rights later
    assert f"ClusterTrainingRuntime jax-tpu: configured, {registry}/" in runtimes
    assert "TrainingRuntime jax-gpu: created, " in runtimes
    assert f"TrainingRuntime jax-cpu: created, {registry}/" in with_volume
    assert f"ClusterTrainingRuntime jax-gpu: unchanged, {registry}/jupyter-jax-trainer-cuda:" in gpu
    assert "secret/registry created" in private and "serviceaccount/default patched" in private
    assert 'runtime.trainer.kubeflow.org "jax-cpu" deleted' in gone
    assert f'"jupyter-jax-trainer-{name}" deleted' in gone
    image = (
        "{.spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0].image}"
    )
    assert "/" not in cluster(
        "get", "clustertrainingruntime", "jax-cpu", f"--output=jsonpath={image}"
    )
