"""The queue of one machine: order, reasons, and what happens to those that wait."""

from __future__ import annotations

import os
import signal

import pytest
from harness import (
    PROMISED_S,
    eventually,
    keeper_and_supervisor,
    nothing_left,
    submit,
    wait_failed,
    wait_for,
)

from jupyter_jax_trainer import api
from jupyter_jax_trainer.errors import JobFailed
from jupyter_jax_trainer.jobdir.failure import CANCELLED
from jupyter_jax_trainer.messages import local as say

ENDLESS = "import time\nwhile True: time.sleep(0.05)\n"


@pytest.fixture
def one_core(store, monkeypatch):
    """Let the jobs of this machine take one core together."""
    monkeypatch.setenv("JAXTRAIN_CORES", "1")
    yield store
    for job in api.jobs():
        job.cancel()
    assert not list((store / "queue").glob("[0-9]*"))  # no ticket is left


@pytest.mark.slow
def test_a_full_queue_makes_jobs_wait_with_a_reason_and_in_order(one_core):
    first = wait_for(submit(ENDLESS, line="first"), "Running")
    ends = "import time\ndone = time.time()"
    second = wait_for(submit(ends, line="second -o done"), "Queued")
    third = wait_for(submit("x = 1", line="third"), "Queued")
    assert second.reason == say.WAITS_FOR_CORES(wanted=1, total=1, free=0, names="first")
    assert third.reason == say.BEHIND(names="second")
    assert all(rank.pid is None for rank in (*second.ranks, *third.ranks))

    first.cancel()
    second.wait(60)
    third.wait(60)
    assert [state for state, _ in second.history] == ["Queued", "Starting", "Running", "Succeeded"]
    assert dict(third.history)["Starting"] >= second.result("done")


def test_a_job_larger_than_the_machine_starts_when_it_is_alone(one_core):
    large = wait_for(submit(ENDLESS, line="large -n 3"), "Running")
    small = wait_for(submit("x = 1", line="small"), "Queued")
    assert "in use by large" in small.reason
    large.cancel()
    small.wait(60)


@pytest.mark.slow
def test_several_jobs_run_at_once_where_there_is_room(store):
    both = [submit(ENDLESS, line=f"beside-{n} -n 2") for n in range(2)]
    for job in both:
        wait_for(job, "Running")
    assert all(job.state == "Running" for job in both)
    for job in both:
        job.cancel()


def test_a_job_that_waits_can_be_cancelled_and_deleted(one_core):
    first = wait_for(submit(ENDLESS, line="before"), "Running")
    for act in ("cancel", "delete"):
        waiting = wait_for(submit("x = 1", line=f"waiting-{act}"), "Queued")
        getattr(waiting, act)()
        if act == "cancel":
            assert (waiting.state, waiting.reason) == ("Cancelled", CANCELLED)
            assert waiting.started is None
            nothing_left(waiting)
            with pytest.raises(JobFailed):
                waiting.wait()
        else:
            assert not waiting.directory.exists()
    assert first.state == "Running"


@pytest.mark.parametrize(
    "who", [pytest.param(0, id="keeper", marks=pytest.mark.slow), pytest.param(1, id="supervisor")]
)
def test_a_waiting_job_whose_supervisor_is_killed_fails_and_gives_its_place(one_core, who):
    first = wait_for(submit(ENDLESS), "Running")
    second = wait_for(submit("x = 1"), "Queued")
    third = wait_for(submit("x = 1"), "Queued")
    os.kill(keeper_and_supervisor(second)[who], signal.SIGKILL)
    eventually(lambda: not second.active, PROMISED_S)
    assert wait_failed(second).kind == "supervisor"
    eventually(lambda: "behind" not in third.reason, PROMISED_S)
    first.cancel()
    third.wait(60)


def test_a_running_job_whose_supervisor_is_killed_gives_its_cores_back(one_core):
    first = wait_for(submit(ENDLESS), "Running")
    second = wait_for(submit("x = 1"), "Queued")
    for pid in keeper_and_supervisor(first):
        os.kill(pid, signal.SIGKILL)
    second.wait(60)
    wait_failed(first)
