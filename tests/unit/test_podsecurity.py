"""PodSecurity: how a namespace's level is learned, and all containers of a runtime made to meet it."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError
from jupyter_jax_trainer.backends.kubernetes.api.objects import Container, TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.submit import podsecurity, runtimes, trainjob
from jupyter_jax_trainer.backends.kubernetes.submit.payload import Payload
from jupyter_jax_trainer.options.spec import JobSpec

VIOLATES = (
    'pods "jaxtrain-trial-x" is forbidden: violates PodSecurity "restricted:latest": '
    "allowPrivilegeEscalation != false"
)
MAY_NOT = 'pods is forbidden: User "me" cannot create resource "pods" in API group ""'


class Cluster:
    """What a cluster answers to the trial of a pod, and what its events say."""

    def __init__(self, trial: str | None, events: list[str] | None = None) -> None:
        self.asked: list[str] = []
        self._trial, self._events = trial, events

    def core(self, resource: str) -> str:
        return resource

    def request(self, method: str, path: str, *, query: Any = None, body: Any = None) -> Any:
        self.asked.append(f"{method} {path}")
        if path == "pods":
            (container,) = body["spec"]["containers"]
            assert query == {"dryRun": "All"}
            assert not podsecurity._is_meek(Container(container).security)
            if self._trial is not None:
                raise ApiError(403, "Forbidden", self._trial, "create", "pods")
            return body
        if self._events is None:
            raise ApiError(403, "Forbidden", "no", "list", "events")
        return {"items": [{"message": one} for one in self._events]}


@pytest.mark.parametrize(
    ("cluster", "level"),
    [
        (Cluster(VIOLATES), True),
        (Cluster(None), False),
        (Cluster(MAY_NOT), None),
        (Cluster(MAY_NOT, ["exceeded quota: q"]), None),
        (Cluster(MAY_NOT, ["exceeded quota: q", VIOLATES]), True),
        (Cluster(MAY_NOT, [VIOLATES.replace("restricted", "baseline")]), None),
        (Cluster("exceeded quota: q", [VIOLATES]), True),
    ],
)
def test_the_level_without_the_right_to_get_the_namespace(cluster, level):
    assert podsecurity.is_restricted(cluster, None) is level


@pytest.mark.parametrize(
    ("labels", "level"),
    [
        ({podsecurity.ENFORCED: "restricted"}, True),
        ({podsecurity.ENFORCED: "baseline"}, False),
        ({}, False),
    ],
)
def test_the_labels_are_enough_where_they_can_be_read(labels, level):
    cluster = Cluster(VIOLATES)
    assert podsecurity.is_restricted(cluster, labels) is level and not cluster.asked


MEEK = {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
CONFINED = {"securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}}


def runtime(**pods: dict[str, Any]) -> TrainingRuntime:
    jobs = [
        {"name": name.replace("_", "-"), "template": {"spec": {"template": {"spec": pod}}}}
        for name, pod in pods.items()
    ]
    job_set = {"replicatedJobs": jobs}
    return TrainingRuntime({"metadata": {"name": "r"}, "spec": {"template": {"spec": job_set}}})


FOREIGN = runtime(
    dataset_initializer={"containers": [{"name": "dataset-initializer"}]},
    model_initializer={**CONFINED, "containers": [{"name": "model-initializer", **MEEK}]},
    node={
        "initContainers": [{"name": "set-up"}, {"name": "fine", **MEEK}],
        "containers": [{"name": "node", **MEEK}, {"name": "sidecar"}],
    },
)


def test_all_containers_are_looked_at():
    assert podsecurity.lacking(FOREIGN) == {
        "dataset-initializer": {"initContainers": [], "containers": ["dataset-initializer"]},
        "node": {"initContainers": ["set-up"], "containers": ["sidecar"]},
    }
    # A node that meets it was all that version 0.1 looked at.
    assert runtimes.patches(FOREIGN, restricted=True)["restricted"]
    assert not runtimes.patches(FOREIGN, restricted=False)["restricted"]
    only_pod = runtime(node={"containers": [{"name": "node", **MEEK}]})
    assert podsecurity.lacking(only_pod) == {"node": {"initContainers": [], "containers": []}}
    meets = runtime(node={**CONFINED, "containers": [{"name": "node", **MEEK}]})
    assert podsecurity.lacking(meets) == {}
    by_container = {"securityContext": {**MEEK["securityContext"], **CONFINED["securityContext"]}}
    assert (
        podsecurity.lacking(runtime(node={"containers": [{"name": "node", **by_container}]})) == {}
    )


def patched(plan: dict[str, Any]) -> dict[str, Any]:
    nothing = {"scratch": False, "mesh": False, "restricted": True}
    whole = {"patches": nothing, **plan}
    patch = trainjob._patch(JobSpec(volume=("claim:/data",)), whole, Payload("k", []), "s")
    assert patch is not None
    jobs = patch.json["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    return {job["name"]: job["template"]["spec"]["template"]["spec"] for job in jobs}


def test_all_containers_are_patched():
    pods = patched({"loose": podsecurity.lacking(FOREIGN)})
    assert pods.keys() == {"dataset-initializer", "node"}
    for pod in pods.values():
        assert pod["securityContext"] == podsecurity.OF_POD.json
    assert pods["dataset-initializer"]["containers"] == [
        {"name": "dataset-initializer", "securityContext": podsecurity.OF_CONTAINER.json}
    ]
    node = {one["name"]: one for one in pods["node"]["containers"]}
    assert node["sidecar"] == {"name": "sidecar", "securityContext": podsecurity.OF_CONTAINER.json}
    assert "volumeMounts" in node["node"] and "securityContext" not in node["node"]
    assert [one["name"] for one in pods["node"]["initContainers"]] == ["set-up"]


def test_a_plan_of_0_1_means_the_node():
    (node,) = patched({})["node"]["containers"]
    assert node["name"] == "node" and node["securityContext"] == podsecurity.OF_CONTAINER.json


@pytest.mark.parametrize(
    "pod",
    [
        {"hostNetwork": True},
        {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
        {"containers": [{"name": "node", "securityContext": {"privileged": True}}]},
        {"initContainers": [{"name": "i", "securityContext": {"runAsUser": 0}}]},
        {
            "containers": [
                {"name": "node", "securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}}}
            ]
        },
        {"containers": [{"name": "node", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
        {"initContainers": [{"name": "i", "securityContext": {"procMount": "Unmasked"}}]},
        {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
    ],
)
def test_what_can_not_be_patched_away_is_named(pod):
    (why,) = podsecurity.beyond(runtime(node=pod))
    assert "node" in why
    assert podsecurity.beyond(FOREIGN) == []


def test_what_restricted_allows_is_not_named():
    pod = {
        "securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]},
        "containers": [
            {
                "name": "node",
                "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 0}],
                "securityContext": {"procMount": "Default"},
            }
        ],
    }
    assert podsecurity.beyond(runtime(node=pod)) == []
