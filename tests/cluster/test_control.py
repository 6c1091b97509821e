"""Cancel, delete, suspend, resume."""

from __future__ import annotations

import re
import time

import pytest
from harness import eventually, pattern, text, wait_for, wait_for_text
from pace import within

from cluster.jobs import submit, tell
from jupyter_jax_trainer.errors import JobFailed, UsageError
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.messages import jobs as say_of_jobs

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
LONG = "import time\nprint('begun', flush=True)\ntime.sleep(300)"


def left(namespace):
    return [
        item["metadata"]["name"]
        for kind in ("trainjobs", "secrets", "pods")
        for item in namespace.get(kind)["items"]
    ]


def test_a_cancelled_job_leaves_the_cluster_and_keeps_its_directory(place, namespace):
    running = submit(LONG, place, "-n 2")
    waiting = submit(LONG, place, "--cpu 1000")
    wait_for_text(running, "begun")
    eventually(lambda: "CPUs" in (waiting.reason or ""))
    assert waiting.state == "Pending", waiting.state
    for job in (running, waiting):
        began = time.monotonic()
        job.cancel()
        assert job.state == "Cancelled" and within(time.monotonic() - began, 10)
        with pytest.raises(JobFailed, match="cancelled"):
            job.wait()
    assert "begun" in text(running), "its log stays"
    eventually(lambda: not left(namespace), 45)
    running.cancel()  # a job that has ended stays as it is
    assert running.state == "Cancelled"


def test_a_deleted_job_leaves_nothing(place, namespace):
    done = submit("print(1)", place).wait(90)
    running = submit(LONG, place)
    wait_for_text(running, "begun")
    for job in (done, running):
        job.delete()
        assert not job.directory.exists()
    eventually(lambda: not left(namespace), 45)


def test_a_suspended_job_begins_anew_when_it_is_resumed(place, namespace):
    cell = (
        "import os, time\nprint('begun in', os.uname().nodename, flush=True)\n"
        "import jax.numpy as jnp\nx = jnp.arange(3)\n"
        "while not os.path.exists('/tmp/go'): time.sleep(0.1)"
    )
    job = submit(cell, place, "-n 2 -o x")
    wait_for_text(job, "begun in", times=2)
    wait_for(job, "Running")
    with pytest.raises(UsageError) as refused:
        job.resume()
    assert refused.value.id == "kubernetes.not-suspended"
    job.suspend()
    wait_for(job, "Suspended")
    eventually(lambda: not namespace.pods(job.name), 45)
    assert job.active
    job.resume()
    wait_for_text(job, "begun in", times=4)
    tell(namespace, job)
    job.wait(90)
    assert job.result("x").tolist() == [0, 1, 2]
    lines = text(job, 0).splitlines()
    again = pattern(say.STARTED_AGAIN(pod="POD"), POD=rf"{job.name}-node-0-0-\w+")
    mark = rf"\[jaxtrain: {again}\]"
    (place,) = [number for number, line in enumerate(lines) if re.fullmatch(mark, line)]
    assert lines[0].startswith("begun in ") and lines[place + 1].startswith("begun in ")
    states = [state for state, _ in job.history]
    assert states[-1] == "Succeeded" and states.count("Running") == 2 and "Suspended" in states
    ended = say_of_jobs.HAS_ENDED(job=job.name, state="Succeeded")
    with pytest.raises(UsageError, match=re.escape(ended)):
        job.suspend()


def test_a_suspended_job_can_be_cancelled(place, namespace):
    job = submit(LONG, place)
    wait_for_text(job, "begun")
    job.suspend()
    wait_for(job, "Suspended")
    job.cancel()
    assert job.state == "Cancelled"
    eventually(lambda: not left(namespace), 45)
