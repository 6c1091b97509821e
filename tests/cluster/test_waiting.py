"""What keeps a job from its start: it is refused at once, or says why it waits and goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from harness import eventually, text

from cluster.faults import LONG_S, end, require_own, says
from cluster.jobs import CAUSES, submit
from cluster.kubernetes_cluster import Cluster, Namespace
from cluster.made_runtimes import image
from jupyter_jax_trainer import api
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.jobdir.failure import CANCELLED
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.options.spec import parse_cell_line

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
BEGINS = "print('begins')"


def make(namespace: Namespace, kind: str, spec: dict[str, Any], name: str = "own") -> None:
    namespace(
        "create",
        "-f",
        "-",
        stdin={
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        },
    )


def quota(namespace: Namespace, **hard: str) -> None:
    make(namespace, "ResourceQuota", {"hard": hard})
    eventually(lambda: namespace.get("resourcequota", "own")["status"].get("used"))


def succeeds(job: Job) -> None:
    end(job, LONG_S)
    assert job.state == "Succeeded", job.reason


def cancelled(job: Job) -> None:
    job.cancel()
    assert (job.state, job.reason) == ("Cancelled", CANCELLED)


# ---- the namespace


def test_a_quota_for_trainjobs_is_told_at_submission(place, namespace):
    quota(namespace, **{"count/trainjobs.trainer.kubeflow.org": "0"})
    before = len(api.jobs())
    with pytest.raises(BackendError, match="The quota own has no room for the TrainJob") as refused:
        submit(BEGINS, place)
    assert "have the ResourceQuota own raised" in refused.value.hint
    assert not namespace.get("trainjobs,secrets,pods")["items"]
    assert len(api.jobs()) == before


def test_a_quota_for_pods_is_told_and_the_job_goes_on_when_it_is_raised(place, namespace):
    quota(namespace, pods="1")
    job = submit(BEGINS, place, "-n 2")
    words = says(job, "the quota own has no room for 1 of 2 pods: ", say.ONE_OTHER(), within=LONG_S)
    assert CAUSES["quota"].advise({"quota": "own"}) in words
    namespace("patch", "resourcequota", "own", "--patch", '{"spec": {"hard": {"pods": "2"}}}')
    succeeds(job)


def test_a_quota_for_memory_wants_every_pod_to_say_how_much(place, namespace):
    quota(namespace, **{"limits.memory": "1Gi"})
    job = submit(BEGINS, place)
    words = says(job, "the quota own refuses the pod: ")
    assert "must be set" in words and "--memory" in words
    cancelled(job)


def test_a_limit_range_is_told(place, namespace):
    limits = [{"type": "Container", "max": {"memory": "300Mi"}}]
    make(namespace, "LimitRange", {"limits": limits})
    job = submit(BEGINS, place, "--memory 400Mi")
    words = says(
        job,
        "the namespace's LimitRange refuses the pod: maximum memory per Container is "
        "300Mi, but 400Mi was requested",
    )
    assert CAUSES["limit-range"].hint in words
    assert job.state == "Pending"
    cancelled(job)


# ---- what the pods need


def test_a_secret_that_does_not_exist_and_one_that_goes_meanwhile(place, namespace):
    with pytest.raises(UsageError, match="no Secret creds"):
        submit(BEGINS, place, "--env-from-secret creds")
    assert not namespace.get("trainjobs,secrets,pods")["items"]

    secret = ("create", "secret", "generic", "creds", "--from-literal=TOKEN=abc")
    namespace(*secret)
    spec = parse_cell_line(f"{place} --env-from-secret creds")
    backend, plan = api.prepare(spec)
    namespace("delete", "secret", "creds")
    capture = capture_cell(f"{BEGINS}\nimport os; print(os.environ['TOKEN'])", {})
    job = api.submit(spec, backend, plan, capture, cell=BEGINS)
    words = says(job, "there is no Secret creds in this namespace")
    assert "the job continues; or remove --env-from-secret creds." in words
    namespace(*secret)
    succeeds(job)
    assert text(job).split() == ["begins", "abc"]


def test_a_claim_that_does_not_exist(place):
    job = submit(BEGINS, place, "--volume nowhere:/data")
    words = says(job, "the pod can't be scheduled: there is no PersistentVolumeClaim nowhere")
    assert "Check --volume" in words and job.state == "Pending"
    cancelled(job)


def test_an_image_that_does_not_exist(place):
    job = submit(BEGINS, place, "-n 2 --image nowhere.invalid/none:1")
    words = says(job, "the registry of the image nowhere.invalid/none:1 can't be reached")
    assert "in --image." in words and job.state == "Pending"
    cancelled(job)


# ---- room on the nodes


def test_more_nodes_than_fit(place, namespace):
    job = submit(BEGINS, place, "-n 12 --cpu 400m")
    words = says(job, " of 12 pods can't be scheduled: ", "CPU")
    assert re.search(r"\d+ of 12 pods can't be scheduled: 0/\d+ nodes have 400m CPUs free", words)
    assert CAUSES["no-room"].hint in words
    cancelled(job)


class Room:
    """The room on the only node, which a test divides among what it starts.

    Attributes
    ----------
    part
        A fifteenth of what is free, in thousandths of a core.
    """

    def __init__(self, cluster: Cluster, namespace: Namespace) -> None:
        self._namespace = namespace
        self._image = image(cluster)
        eventually(lambda: not leaving(cluster), 100)  # or their room would be counted as taken
        (node,) = cluster.get("nodes")["items"]
        total = millis(node["status"]["allocatable"]["cpu"])
        used = 0
        for pod in cluster.get("pods", "--all-namespaces")["items"]:
            if pod["status"]["phase"] in ("Pending", "Running"):
                for container in pod["spec"]["containers"]:
                    asked = container.get("resources", {}).get("requests", {})
                    used += millis(asked.get("cpu", "0"))
        self.part = (total - used) // 15

    def hold(self, name: str, amount: int) -> None:
        """Start a pod that only takes room."""
        make(
            self._namespace,
            "Pod",
            {
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 1000,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "holds",
                        "image": self._image,
                        "command": ["sleep", "600"],
                        "resources": {"requests": {"cpu": f"{amount}m"}},
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "capabilities": {"drop": ["ALL"]},
                        },
                    }
                ],
            },
            name,
        )
        self._namespace("wait", "pod", name, "--for=condition=Ready", "--timeout=60s")

    def free(self, name: str) -> None:
        self._namespace("delete", "pod", name)


def leaving(cluster: Cluster) -> list[str]:
    """Name what earlier tests have deleted, and what is still there."""
    found = cluster.get("namespaces,pods", "--all-namespaces")["items"]
    return [one["metadata"]["name"] for one in found if "deletionTimestamp" in one["metadata"]]


def millis(amount: str) -> int:
    return int(amount[:-1]) if amount.endswith("m") else int(float(amount) * 1000)


@pytest.fixture
def room(cluster: Cluster, namespace: Namespace) -> Iterator[Room]:
    require_own(cluster)
    yield Room(cluster, namespace)


def test_two_jobs_that_hold_what_the_other_needs_both_say_so(place, room):
    """Each would fit alone. The room is given away so that each gets one of its two pods."""
    room.hold("large", 6 * room.part + room.part // 2)
    room.hold("small", room.part + room.part // 2)
    first = submit(BEGINS, place, f"first -n 2 --cpu {7 * room.part}m")
    says(first, "1 of 2 pods can't be scheduled", within=LONG_S)
    second = submit(BEGINS, place, f"second -n 2 --cpu {6 * room.part}m")
    says(second, "2 of 2 pods can't be scheduled", within=LONG_S)
    room.free("large")
    says(second, "1 of 2 pods can't be scheduled", within=LONG_S)
    room.free("small")
    for job, parts in ((first, 7), (second, 6)):
        words = says(
            job,
            "1 of 2 pods can't be scheduled: 0/1 nodes have "
            f"{parts * room.part}m CPUs free, {say.ONE_OTHER()}",
        )
        assert CAUSES["no-room"].hint in words
    cancelled(first)
    succeeds(second)
