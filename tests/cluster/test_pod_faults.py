"""What happens to a job whose pods, or whose TrainJob, come to harm."""

from __future__ import annotations

import os
import signal

import pytest
from harness import eventually

from cluster.faults import WAITS, begin, end, evict, fail, process_of, require_own
from cluster.jobs import CAUSES, tell
from cluster.kubernetes_cluster import Namespace
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.messages import jobs as say_of_jobs

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def delete(namespace: Namespace, pod: str) -> None:
    namespace("delete", "pod", pod, "--wait=false")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_pod_that_somebody_deletes(rank, place, namespace):
    job = begin(place, "-n 2")
    delete(namespace, namespace.pods(job.name)[rank]["metadata"]["name"])
    failure = fail(job)
    assert (failure.kind, failure.rank, failure.others) == ("cluster", rank, [1 - rank])
    deleted = CAUSES["pod-deleted"]
    assert job.reason == f"rank {rank} {deleted.sentence}"
    assert failure.hint == deleted.hint
    assert [found.restarts for found in job.ranks] == [0, 0]


def test_a_pod_that_is_evicted(place, namespace):
    job = begin(place, "-n 2")
    pod = namespace.pods(job.name)[1]["metadata"]["name"]
    evict(namespace, pod)
    failure = fail(job)
    assert (failure.kind, failure.rank, failure.others) == ("cluster", 1, [0])
    assert job.reason.startswith("rank 1 was evicted: its node ")
    assert failure.hint.startswith(CAUSES["drained"].hint)


def test_a_container_that_needs_more_memory_than_it_may_have(place):
    job = begin(
        place,
        "-n 2 --memory 400Mi",
        """
print('begins', flush=True)
import time
import jax
if jax.process_index() == 1:
    time.sleep(2)
    held = [b"x" * (1 << 20) for _ in range(4096)]
time.sleep(300)
""",
    )
    failure = fail(job, 30)
    assert (failure.kind, failure.rank, failure.others) == ("memory", 1, [0])
    assert job.reason == "rank 1 was killed: out of memory at its limit of 400Mi"
    assert failure.hint == CAUSES["out-of-memory"].hint
    # At least the first sample, which is sent at once, has come before.
    words = say_of_jobs.LAST_MINUTE(rank=1, seconds="SECONDS", course="", limit="")
    assert failure.usage and failure.usage[0].startswith(words.partition("SECONDS")[0])
    assert "of 400 MiB" in failure.usage[0]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_worker_that_is_killed(rank, place, cluster):
    require_own(cluster)
    job = begin(place, "-n 2")
    os.kill(process_of(job, rank), signal.SIGKILL)
    failure = fail(job)
    assert (failure.kind, failure.rank, failure.others) == ("killed", rank, [1 - rank])
    assert failure.exit == -signal.SIGKILL
    killed = say_of_jobs.KILLED()
    assert job.reason == f"rank {rank} {killed}"
    assert failure.log[-1:] == ["begins"] and failure.hint == killed.hint


def test_an_error_on_one_rank_of_four(place, namespace):
    job = begin(
        place,
        "-n 4",
        """
print('begins', flush=True)
import os, time
import jax
if jax.process_index() == 2:
    while not os.path.exists('/tmp/go'): time.sleep(0.05)
    raise ValueError("no")
time.sleep(300)
""",
    )
    tell(namespace, job, 2)
    failure = fail(job)
    assert (failure.kind, failure.rank, failure.others) == ("error", 2, [0, 1, 3])
    assert job.reason == "rank 2 failed first: ValueError: no (cell line 8)"
    assert 'raise ValueError("no")' in failure.error["traceback"]
    assert [found.state for found in job.ranks] == ["Stopped", "Stopped", "Failed", "Stopped"]


def test_a_trainjob_that_somebody_deletes(place, namespace):
    job = begin(place, "-n 2", WAITS)
    namespace("delete", "trainjob", job.name, "--wait=false")
    end(job)
    assert (job.state, job.reason) == ("Cancelled", say.DELETED())
    eventually(lambda: not namespace.get("secrets,pods")["items"])
