"""docs/guides/platform-engineer/kind.md is true: its lines do what they say, but for those that make a cluster or an image."""

from __future__ import annotations

import kernels
import pytest
from conftest import end_processes_of
from policy import skip_or_fail

from cluster.jobs import stop_followers
from cluster.made_runtimes import Shared, reachable
from cluster.pages import Terminal, blocks

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.release,
    pytest.mark.disruptive,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore"),  # of the kernel's client, not of this package
]


def test_the_page_about_kind(cluster, namespace, tmp_path, monkeypatch):
    kubeconfig, home = tmp_path / "kubeconfig", tmp_path / "home"
    home.mkdir(mode=0o700)
    kubeconfig.write_text(cluster("config", "view", "--raw", "--flatten"))
    cluster(
        "--kubeconfig",
        str(kubeconfig),
        "config",
        "set-context",
        "--current",
        f"--namespace={namespace.name}",
    )
    (named,) = cluster("config", "view", "--output", "jsonpath={.clusters[*].name}").split()
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.setenv("JAXTRAIN_HOME", str(home))
    shell = Terminal(
        kubeconfig,
        home,
        {
            "kind-jaxtrain": named,
            "default:dora": f"{namespace.name}:dora",
            "--namespace default": f"--namespace {namespace.name}",
            "clusterrolebinding dora": f"clusterrolebinding {namespace.name}-dora",
        },
    )
    said: list[str] = []
    if not reachable(cluster):
        skip_or_fail("cluster", "this machine and the nodes have no folder in common")
    volume = Shared(namespace, tmp_path, "training-data")  # kind's storage class would make it
    try:
        with kernels.running(home, tmp_path) as kernel:
            for language, text in blocks("guides/platform-engineer/kind.md"):
                said.append(shell(text) if language == "sh" else kernel.run(text).text)
    finally:
        volume.remove()
        stop_followers(home)
        end_processes_of(home)
        for made in (
            ("clusterrolebinding", f"{namespace.name}-dora"),
            ("clusterrole", "jupyter-jax-trainer-runtimes"),
        ):
            cluster("delete", *made, "--ignore-not-found")
    _, installed, _, ran, told, listed, claimed, _, _, found, asdora, hers = said
    assert "jax-cpu" in installed and "be accepted" in installed
    assert "I am process 0 of 2" in ran
    assert "the sum over both pods is 3" in told
    assert "trainjob.trainer.kubeflow.org/first" in listed and "first-node-0-1" in listed
    assert "TrainingRuntime jax-cpu: created" in claimed
    assert "of the first job there are ['0.txt', '1.txt']" in found
    assert "be accepted" in asdora
    assert "I am dora's" in hers
