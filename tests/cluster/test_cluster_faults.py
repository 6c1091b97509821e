"""What happens to jobs while parts of the cluster are away: they go on, and it is said meanwhile.

These stop parts that everybody uses.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

import numpy as np
import pytest
from harness import eventually
from pace import within

from cluster.faults import (
    LONG_S,
    begin,
    begun,
    end,
    require_own,
    says,
    scaled_down,
    start,
    stop,
    stopped,
)
from cluster.jobs import CAUSES, submit
from jupyter_jax_trainer import api
from jupyter_jax_trainer.backends.kubernetes.api.client import Client, Unreachable
from jupyter_jax_trainer.errors import BackendError, JobFailed
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.messages import follow as say

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.disruptive]
COUNTS = """
print("begins")
import time
began = time.monotonic()
for number in range({count}):
    print("line", number)
    time.sleep(max(0, began + number * {seconds} / {count} - time.monotonic()))
"""


@pytest.fixture(autouse=True)
def own(cluster):
    require_own(cluster)


def counts(job: Job, count: int) -> None:
    """Check that a job has succeeded and that each of its lines is there once, in order."""
    end(job, LONG_S)
    assert job.state == "Succeeded", job.reason
    wanted = "begins\n" + "".join(f"line {number}\n" for number in range(count))
    for rank in range(job.spec.nodes):
        assert (job.directory / "logs" / f"rank-{rank}.log").read_text() == wanted
    assert [event for event in job.events() if event["kind"] == "gap"] == []


@pytest.mark.parametrize("away", [22, pytest.param(60, marks=pytest.mark.release)])
@pytest.mark.timeout(240)
def test_the_kubelet_is_away(away, place, cluster):
    """Its node counts as silent after 16 s here; what it runs goes on."""
    job = begin(place, "-n 2", COUNTS.format(count=4000, seconds=away + 20))
    with stopped("kubelet", cluster):
        began = time.monotonic()
        words = says(job, "the node node0 does not answer (2 of 2 pods)", within=60)
        assert CAUSES["node-silent"].hint in words
        assert job.state == "Running"
        time.sleep(max(0, began + away - time.monotonic()))
    eventually(lambda: job.reason is None or not job.active)
    counts(job, 4000)


def test_the_api_server_is_killed_while_a_log_is_read(place, cluster):
    job = begin(place, "-n 2", COUNTS.format(count=4000, seconds=25))
    with stopped("kube-apiserver", cluster):
        silent = say.NO_ANSWER(error="")
        words = says(job, silent, within=10)
        assert silent.hint in words and job.state == "Running"
    eventually(lambda: job.reason is None or not job.active, 30)
    counts(job, 4000)


@pytest.mark.release  # unit/test_transfer cuts the line at each step; this is the real one
def test_the_api_server_is_killed_while_data_is_sent(place, cluster):
    data = np.random.default_rng(3).integers(0, 1000, 25_000_000)  # 200 MB
    job = submit("total = int(data.sum())", place, "-n 2 -o total", {"data": data})
    eventually(lambda: "sending" in (job.reason or ""), LONG_S)
    with stopped("kube-apiserver", cluster):
        time.sleep(3)
    assert job.wait(LONG_S).result() == {"total": data.sum()}
    assert job.restarts == 0


def test_the_api_server_is_killed_while_a_job_is_submitted(place, namespace, monkeypatch):
    """Its answer is lost, too: the TrainJob is there, and is not made a second time."""
    request, timers = Client.request, []

    def cut(self: Client, method: str, path: str, **more: Any) -> dict[str, Any]:
        answer = request(self, method, path, **more)
        made = method == "POST" and path.endswith("/trainjobs") and "dryRun" not in more["query"]
        if made and not timers:
            stop("kube-apiserver")
            timers.append(threading.Timer(2, start, ["kube-apiserver"]))
            timers[0].start()
            raise Unreachable("the answer was lost")
        return answer

    monkeypatch.setattr(Client, "request", cut)
    try:
        job = submit("print('begins')", place, "-n 2")
    finally:
        timers[0].join()
    with contextlib.suppress(JobFailed):
        job.wait(LONG_S)
    # An API server that has just started may refuse the controllers their pods, and these then
    # take one away again.
    assert job.state == "Succeeded" or CAUSES["pod-deleted"].sentence in job.reason, job.events()
    assert max(begun(job)) == 1 and len(namespace.get("trainjobs")["items"]) == 1


@pytest.mark.release
def test_the_trainer_is_away_while_a_job_is_submitted(place, namespace, cluster, monkeypatch):
    """Its webhook has to agree: that is waited for, and told in the end. Nothing is left then."""
    found: list[Job] = []
    before = {job.name for job in api.jobs()}
    with scaled_down(cluster, "kubeflow-system", "kubeflow-trainer-controller-manager"):
        with monkeypatch.context() as patched:
            patched.setenv("JAXTRAIN_SUBMIT_TIMEOUT", "2")
            began = time.monotonic()
            with pytest.raises(
                BackendError, match=r"webhook \S+ does not answer, so the TrainJob"
            ) as told:
                submit("1", place)
        assert within(time.monotonic() - began, 20)
        assert CAUSES["webhook-down"].hint in told.value.hint
        assert not namespace.get("trainjobs,secrets")["items"]
        assert {job.name for job in api.jobs()} == before
        waits = threading.Thread(target=lambda: found.append(submit("print('begins')", place)))
        waits.start()
    waits.join(90)
    (job,) = found
    end(job, LONG_S)
    assert job.state == "Succeeded"


def test_a_webhook_is_away_that_later_steps_need(place, cluster):
    name = "jobset-controller-manager"  # which Trainer's own manifests have in another namespace
    (found,) = cluster.get(
        "deployments", "--all-namespaces", f"--field-selector=metadata.name={name}"
    )["items"]
    with scaled_down(cluster, found["metadata"]["namespace"], name):
        job = submit("print('begins')", place, "-n 2")
        words = says(job, "does not answer, so the job's parts can't be created", within=60)
        down = CAUSES["webhook-down"]
        assert words.startswith(down.sentence.partition("{")[0]) and down.hint in words
        assert job.state == "Pending"
    end(job, LONG_S)
    assert job.state == "Succeeded"
