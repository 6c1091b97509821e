"""`doctor` on a real cluster that was broken in one way: rows of docs/reference/doctor.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from harness import eventually

from cluster import made_runtimes, people
from cluster.jobs import submit
from cluster.kubernetes_cluster import Namespace
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.doctor import namespace as of_namespace
from jupyter_jax_trainer.backends.kubernetes.doctor import readiness
from jupyter_jax_trainer.commands import Context, run_command
from jupyter_jax_trainer.doctor import report
from jupyter_jax_trainer.doctor.finding import FAIL, OK, WARN, Finding
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import cluster as say_of_cluster
from jupyter_jax_trainer.messages import doctor as say

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def looked(place, namespace) -> Callable[[], list[Finding]]:
    """Give what examines the test's own namespace."""
    return lambda: list(report.examine("kubernetes", namespace=namespace.name))


def wrong(found: list[Finding], subject: str, status: str, *words: str) -> bool:
    """Return whether that is found, with what to do about it."""
    return any(
        one.subject == subject
        and one.status == status
        and bool(one.advice)
        and all(word in f"{one.detail} {one.advice}" for word in words)
        for one in found
    )


def create(namespace: Namespace, kind: str, api: str, spec: Any) -> None:
    namespace(
        "create",
        "-f",
        "-",
        stdin={
            "apiVersion": api,
            "kind": kind,
            "metadata": {"name": "broken"},
            "spec": spec,
        },
    )


def test_a_cluster_that_is_well(looked):
    found = {one.subject: one for one in looked()}
    for subject in ("Kubeflow Trainer", "JAX runtimes", "JobSet", "Trial", "Rights"):
        assert found[subject].status == OK, found[subject]


# -- the way there --------------------------------------------------------------------------------


def as_someone(cluster, namespace, tmp_path, monkeypatch, user, **about: Any) -> list[Finding]:
    known = {**people.about(cluster), **about}
    known = {name: value for name, value in known.items() if value is not None}
    config = people.kubeconfig(tmp_path / "config", known, user, namespace.name)
    monkeypatch.setenv("KUBECONFIG", str(config))
    connection._clients.clear()
    return list(report.examine("kubernetes"))


def test_broken_certificate(cluster, namespace, place, tmp_path, monkeypatch):
    unknown = {"certificate-authority-data": None, "certificate-authority": None}
    found = as_someone(cluster, namespace, tmp_path, monkeypatch, {"token": "t"}, **unknown)
    untrusted = say_of_cluster.UNTRUSTED_CERTIFICATE(error="")
    assert wrong(found, "Cluster", FAIL, untrusted), found


def test_broken_unreachable(cluster, namespace, place, tmp_path, monkeypatch):
    """The machine is there, and nobody listens at this port."""
    host = people.about(cluster)["server"].rpartition(":")[0]
    found = as_someone(
        cluster, namespace, tmp_path, monkeypatch, {"token": "t"}, server=f"{host}:1"
    )
    assert wrong(found, "Cluster", FAIL, "not answer", "refused"), found


def test_broken_signed_out(cluster, namespace, place, tmp_path, monkeypatch):
    found = as_someone(cluster, namespace, tmp_path, monkeypatch, {"token": "expired"})
    assert wrong(found, "Cluster", FAIL, "credentials", "Sign in again"), found


def test_broken_rights(cluster, namespace, place, tmp_path, monkeypatch):
    """Who may see the runtimes and nothing else; each single right: test_rights.py."""
    people.create(namespace, people.objects(namespace.name, "nobody", [], people.minimal()[1]))
    try:
        user = {"token": people.token(namespace, "nobody")}
        found = as_someone(cluster, namespace, tmp_path, monkeypatch, user)
    finally:
        people.forget(namespace)
    assert wrong(found, "Rights", FAIL, "create trainjobs", say_of_cluster.NO_START()), found
    assert not [one for one in found if one.subject == "Trial"]
    (settings,) = [one for one in found if one.subject == "Namespace settings"]
    assert settings.status == OK
    words = of_namespace.NOTHING_SEEN_IN_THE_WAY(what="WHAT").partition("WHAT")[0]
    assert f"{words}namespaces, resourcequotas" in settings.detail


def test_broken_no_namespace(place):
    found = list(report.examine("kubernetes", namespace="nobody-made-this"))
    assert wrong(found, "Namespace", FAIL, "no namespace nobody-made-this", "--namespace"), found


# -- runtimes -------------------------------------------------------------------------------------


def test_broken_runtime_deprecated(namespace, looked):
    made_runtimes.make(namespace, "old")
    namespace("label", "trainingruntime", "old", "trainer.kubeflow.org/support=deprecated")
    assert wrong(looked(), "Runtime old", WARN, "deprecated", "Choose another")


def test_broken_other_python(namespace, looked):
    made_runtimes.make(namespace, "older")
    namespace("label", "--overwrite", "trainingruntime", "older", "jupyter-jax-trainer/python=3.8")
    assert wrong(looked(), "Runtime older", WARN, "has Python 3.8, but this is 3.")


def test_broken_runtime_without_node(namespace, looked):
    def rename(pod: dict[str, Any]) -> None:
        pod["containers"][0]["name"] = "main"

    # Trainer refuses such a one, save with the label that its own stock runtimes have.
    made_runtimes.make(namespace, "nameless", rename, like="jax-distributed")
    assert wrong(looked(), "Runtime nameless", WARN, say.NO_NODE())


def test_broken_no_gang_scheduler(namespace, place, looked):
    """A runtime whose pods start together or not at all, where nobody sees to that: no pod would ever be made."""
    made_runtimes.make(namespace, "gang")
    policy = json.dumps({"spec": {"podGroupPolicy": {"coscheduling": {}}}})
    namespace("patch", "trainingruntime", "gang", "--type=merge", "--patch", policy)
    lacks = readiness.NO_GANG(policy="coscheduling", scheduler="the coscheduling plugin")
    assert wrong(looked(), "Runtime gang", WARN, lacks, "podGroupPolicy")
    said: list[str] = []
    context = Context(print=said.append)
    run_command(["runtimes", "check", "gang", "--namespace", namespace.name], context)
    assert context.failed and "podGroupPolicy.coscheduling: the coscheduling" in said[1]
    with pytest.raises(UsageError, match=r"gang has podGroupPolicy\.coscheduling") as refused:
        submit("print('never')", place, "-n 2 --runtime gang")
    assert refused.value.id == "submit.gang-unavailable" and "--runtime" in refused.value.hint
    assert not namespace.get("trainjobs")["items"]


def test_broken_webhook_down(cluster, namespace, looked):
    """A webhook of nobody's, for this namespace alone; Trainer's own looks the same when it is down."""
    service = {"name": "nobody", "namespace": namespace.name, "path": "/"}
    only = {"matchLabels": {"kubernetes.io/metadata.name": namespace.name}}
    rule = {
        "apiGroups": ["trainer.kubeflow.org"],
        "apiVersions": ["v1alpha1"],
        "operations": ["CREATE"],
        "resources": ["trainjobs"],
    }
    cluster(
        "create",
        "-f",
        "-",
        stdin={
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": namespace.name},
            "webhooks": [
                {
                    "name": "nobody.example.org",
                    "clientConfig": {"service": service},
                    "rules": [rule],
                    "namespaceSelector": only,
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                }
            ],
        },
    )
    try:
        eventually(
            lambda: wrong(looked(), "Trial", FAIL, "nobody.example.org does not answer", "is down")
        )
    finally:
        cluster("delete", "validatingwebhookconfiguration", namespace.name)


# -- the namespace --------------------------------------------------------------------------------


def test_broken_mesh(namespace, looked):
    cluster = namespace.cluster
    cluster("label", "namespace", namespace.name, "istio-injection=enabled")
    found = looked()
    assert wrong(found, "Service mesh", WARN, "jax-distributed", "sidecar.istio.io/inject")
    assert not wrong(found, "Service mesh", WARN, "jax-cpu")  # it keeps out
    cluster("label", "namespace", namespace.name, "istio-injection-", "linkerd.io/inject=enabled")
    assert wrong(looked(), "Service mesh", WARN, "Linkerd")


def test_broken_pod_security(namespace, looked):
    found = looked()  # the test's namespace is one of the strictest kind
    assert wrong(found, "PodSecurity", WARN, "enforces restricted", "jax-distributed")
    assert not wrong(found, "PodSecurity", WARN, "jax-cpu")


def test_broken_quota_used_up(namespace, looked):
    create(namespace, "ResourceQuota", "v1", {"hard": {"pods": "0", "requests.storage": "0"}})
    eventually(lambda: wrong(looked(), "Quota", WARN, "broken is used up: pods 0 of 0", "raised"))
    assert not wrong(looked(), "Quota", WARN, "storage")


def test_broken_quota_wants_amounts(namespace, looked):
    create(namespace, "ResourceQuota", "v1", {"hard": {"limits.cpu": "8", "memory": "8Gi"}})
    assert wrong(looked(), "Quota", WARN, "must state limits.cpu", of_namespace.NO_CPU_LIMIT())
    create(
        namespace,
        "LimitRange",
        "v1",
        {"limits": [{"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}}]},
    )
    assert not wrong(looked(), "Quota", WARN, "must state")


def test_broken_limit_range(namespace, looked):
    def large(pod: dict[str, Any]) -> None:
        pod["containers"][0]["resources"] = {"requests": {"cpu": "6"}, "limits": {"cpu": "6"}}

    for name in ("large", "larger"):
        made_runtimes.make(namespace, name, large)
    limits = [
        {"type": kind, "max": {"cpu": most}} for kind, most in (("Container", "2"), ("Pod", "3"))
    ]
    create(namespace, "LimitRange", "v1", {"limits": limits})
    found = looked()
    assert len([one for one in found if one.subject == "Limit range"]) == 1
    assert wrong(found, "Limit range", WARN, "more cpu", "(2): ", "large (6), larger (6)", "--cpu")


def test_broken_network_policy(namespace, looked):
    api = "networking.k8s.io/v1"
    create(namespace, "NetworkPolicy", api, {"podSelector": {}, "policyTypes": ["Ingress"]})
    assert wrong(
        looked(), "Network policy", WARN, "cut off from each other by broken", "ingress: [{from:"
    )
    web = {"podSelector": {"matchLabels": {"app": "web"}}}
    namespace(
        "create",
        "-f",
        "-",
        stdin={  # it opens nothing to jobs
            "apiVersion": api,
            "kind": "NetworkPolicy",
            "metadata": {"name": "db"},
            "spec": {"podSelector": {"matchLabels": {"app": "db"}}, "ingress": [{"from": [web]}]},
        },
    )
    assert wrong(looked(), "Network policy", WARN, "cut off from each other by broken")
    namespace(
        "create",
        "-f",
        "-",
        stdin={
            "apiVersion": api,
            "kind": "NetworkPolicy",
            "metadata": {"name": "mend"},
            "spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]},
        },
    )
    assert not wrong(looked(), "Network policy", WARN)
