"""Data that no Secret holds, on its way into pods."""

from __future__ import annotations

import errno
import os
import re
import signal
import time
from functools import partial

import numpy as np
import pytest
from harness import text
from pace import Deadline

from cluster.faults import LONG_S, SMALL, process_of, require_own
from cluster.jobs import failure_of, run, stop_followers, submit
from cluster.made_runtimes import make
from jupyter_jax_trainer.jobdir import store
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.messages import worker as say

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

CELL = (
    "import jax; total = int(data.sum()); print(jax.process_index(), total, data.flags.writeable)"
)
DATA = np.random.default_rng(3).integers(0, 1000, 5_000_000)  # 40 MB


def is_sent(job: Job) -> None:
    """Wait until data is on its way."""
    deadline = Deadline(LONG_S)
    while "sending" not in (job.reason or ""):
        assert job.active and not deadline.passed, (job.state, job.reason)
        time.sleep(0.005)


def test_arrays_of_any_size_reach_all_pods_without_a_store(place):
    job = run(CELL, place, "-n 3 -o total", {"data": DATA})
    assert job.result() == {"total": DATA.sum()}
    assert sorted(text(job).splitlines()) == [f"{rank} {DATA.sum()} True" for rank in range(3)]
    assert not [event for event in job.events() if event["kind"] in ("warning", "error")]


@pytest.mark.parametrize("times", [5, pytest.param(25, marks=pytest.mark.release)])
def test_a_follower_that_is_killed_while_it_sends_is_followed_by_another(place, times):
    job = submit(CELL, place, "-n 2", {"data": np.tile(DATA, times)})
    is_sent(job)
    stop_followers(store.home())
    assert job.wait(LONG_S).state == "Succeeded"


def test_pods_that_start_again_get_it_again(place, cluster):
    require_own(cluster)
    job = submit(CELL, place, f"-n 2 {SMALL} --max-restarts 1", {"data": np.tile(DATA, 5)})
    is_sent(job)
    os.kill(process_of(job, 0), signal.SIGKILL)
    assert job.wait(LONG_S).state == "Succeeded"
    assert job.restarts == 1


def _keep_in_memory(bound, pod):
    for volume in pod["volumes"]:
        volume["emptyDir"] = {"medium": "Memory", **({"sizeLimit": bound} if bound else {})}


@pytest.mark.release
def test_a_folder_that_fills_up_while_data_comes_is_said(place, namespace):
    runtime = make(namespace, "soon-full", partial(_keep_in_memory, "1200Mi"))
    job = submit("1", place, f"--runtime {runtime} --use data", {"data": np.tile(DATA, 25)})
    is_sent(job)
    (pod,) = namespace.pods(job.name)
    into = ("--namespace", namespace.name, "exec", pod["metadata"]["name"], "--")
    namespace.cluster(
        *into, "dd", "if=/dev/zero", "of=/tmp/fill", "bs=1M", "count=500", check=False
    )
    failure = failure_of(job)
    full = say.POD_DISK_FULL(size="1001 MB", error=os.strerror(errno.ENOSPC))
    assert full in failure.message, failure


@pytest.mark.parametrize(
    ("bound", "lacks"), [("20Mi", say.NO_ROOM_ON_DISK), (None, say.NO_ROOM_IN_MEMORY)]
)
def test_a_folder_in_memory_is_measured_before_anything_is_sent(place, namespace, bound, lacks):
    runtime = make(namespace, "in-memory", partial(_keep_in_memory, bound))
    line = f"-n 2 --runtime {runtime} --memory 200Mi --use data"
    failure = failure_of(submit("1", place, line, {"data": np.tile(DATA, 5)}))
    words = re.escape(lacks(size="201 MB", folder="FOLDER", free="FREE"))
    words = words.replace("FOLDER", r"\S+").replace("FREE", r"\d+ MB")
    assert re.search(words, failure.message), failure


@pytest.mark.release  # the node looks once in ten seconds, and takes its time
def test_a_pod_that_is_evicted_for_what_it_gets_says_so(place, namespace):
    def small(pod):
        limits = pod["containers"][0].setdefault("resources", {}).setdefault("limits", {})
        limits["ephemeral-storage"] = "20Mi"

    runtime = make(namespace, "small-disk", small)
    job = submit(
        "import time; time.sleep(200)", place, f"--runtime {runtime} --use data", {"data": DATA}
    )
    failure = failure_of(job)
    assert "ephemeral" in f"{failure.message} {job.reason}", failure
