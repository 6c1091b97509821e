"""--max-restarts on this machine: who starts again, who does not, and from which step."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from harness import (
    continues,
    eventually,
    fails,
    keeper_and_supervisor,
    nothing_left,
    ranks_of,
    run,
    submit,
    text,
    wait_failed,
    wait_for,
)

from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.messages import jobs as say_of_jobs
from jupyter_jax_trainer.messages import local as say
from jupyter_jax_trainer.messages import worker as say_of_worker

STEPS = """
import json, os, time
import jax
from jax.experimental import multihost_utils
from jupyter_jax_trainer import checkpoint_dir, report
path = checkpoint_dir() / "state.json"
begun = json.loads(path.read_text())["step"] if path.exists() else 0
multihost_utils.sync_global_devices("loaded")
for step in range(begun + 1, 41):
    report(step=step, total=40, loss=1 / step)
    if step % 5 == 0 and jax.process_index() == 0:
        path.with_suffix(".new").write_text(json.dumps({"step": step}))
        path.with_suffix(".new").replace(path)
    print("step", step, flush=True)
    if step == 17 and begun == 0:
        time.sleep(600)  # until it is killed
"""


def killed(line: str, rank: int = 1) -> Job:
    """Start the steps above, and kill a rank at step 17."""
    job = submit(STEPS, line=line)
    for each in (0, 1):
        eventually(lambda each=each: "step 17" in text(job, each))
    eventually(lambda: job.steps == 17)
    os.kill(ranks_of(job)[rank], signal.SIGKILL)
    return job


def test_a_rank_that_is_killed_and_no_step_before_the_last_checkpoint_is_lost(start):
    goes_on(1)


@pytest.mark.slow
def test_rank_0_that_is_killed(store):
    goes_on(0)


def goes_on(rank: int) -> None:
    """Kill a rank, and check from where all of them go on."""
    job = killed("-n 2 --max-restarts 3 -o begun,step", rank).wait()
    assert job.result() == {"begun": 15, "step": 40}
    steps = [line["step"] for line in job.metrics() if line["rank"] == 0]
    assert steps == [*range(1, 18), *range(16, 41)]  # steps 16 and 17 alone are done twice
    assert job.restarts == 1 and [each.restarts for each in job.ranks] == [1, 1]
    assert [state for state, _ in job.history] == [
        "Starting",
        "Running",
        "Starting",
        "Running",
        "Succeeded",
    ]
    told = [event["message"] for event in job.events() if event["kind"] == "restart"]
    why = f"restart 1 of 3, rank {rank} {say_of_jobs.KILLED()}"
    assert told == [
        say_of_jobs.ALL_START_AGAIN(restart=why),
        continues(step=16, reached=17, most=3),
    ]
    for each in (0, 1):
        lines = text(job, each).split("\n")
        place = lines.index(f"[jaxtrain: {why}]")
        assert "step 17" in lines[:place] and "step 18" not in lines[:place]
        assert lines[place + 1] == "step 16"
    nothing_left(job)


@pytest.mark.slow
def test_where_it_goes_on_is_said_while_it_runs(store):
    job = submit(
        STEPS.replace("begun == 0", "True").replace("== 17", "in (17, 18)"),
        line="-n 2 --max-restarts 2",
    )
    eventually(lambda: job.steps == 17)
    os.kill(ranks_of(job)[1], signal.SIGKILL)
    words = continues(step=16, reached=17)
    eventually(lambda: (job.state, job.reason) == ("Running", words))
    job.cancel()
    assert job.state == "Cancelled"
    nothing_left(job)


@pytest.mark.parametrize(
    "code", ["1 / 0", "sys.exit(3)", "os._exit(3)"], ids=["raises", "sys.exit", "_exit"]
)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_cell_that_is_broken_runs_once(store, code, rank):
    cell = f"""
import jax, os, sys, time
from jax.experimental import multihost_utils
print("begins", flush=True)
multihost_utils.sync_global_devices("begin")
if jax.process_index() == {rank}:
    {code}
multihost_utils.sync_global_devices("end")
"""
    job = submit(cell, line="-n 2 --max-restarts 5")
    failure = wait_failed(job)
    assert failure.rank == rank and "restart" not in failure.message
    assert job.restarts == 0 and text(job).count("begins") == 2


@pytest.mark.slow
def test_when_no_restart_is_left_it_fails_and_says_so(store):
    cell = (
        "import jax, os, signal\nprint('begins', flush=True)\n"
        "if jax.process_index() == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "import time; time.sleep(600)"
    )
    failure = fails(cell, line="-n 2 --max-restarts 2")
    assert (failure.kind, failure.rank, failure.others) == ("killed", 1, [0])
    assert failure.message == say_of_jobs.OUT_OF_RESTARTS(
        message=say_of_jobs.KILLED(), restarts="2 restarts (--max-restarts)"
    )


@pytest.mark.slow
def test_the_time_out_counts_all_attempts(store):
    cell = (
        "import os, signal, time\nprint('begins', flush=True)\ntime.sleep(1.5)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    job = submit(cell, line="-n 1 --max-restarts 100 --timeout 4s")
    failure = wait_failed(job)
    assert failure.kind == "timeout" and job.restarts < 4


def test_what_a_killed_rank_has_started_is_gone_before_the_next_attempt(store):
    sleeper = f"subprocess.Popen([{sys.executable!r}, '-c', 'import time; time.sleep(600)'])"
    cell = (
        f"import os, signal, subprocess, pathlib\nfrom jupyter_jax_trainer import checkpoint_dir\n"
        f"mark = checkpoint_dir() / 'pid'\n"
        f"if not mark.exists():\n    mark.write_text(str({sleeper}.pid))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "alive = pathlib.Path('/proc', mark.read_text()).exists()"
    )
    assert run(cell, line="-n 1 --max-restarts 1 -o alive").result("alive") is False


def test_a_killed_supervisor_ends_the_job_as_ever(store):
    job = wait_for(
        submit(
            "print('up', flush=True)\nimport time; time.sleep(600)", line="-n 2 --max-restarts 3"
        ),
        "Running",
    )
    os.kill(keeper_and_supervisor(job)[1], signal.SIGKILL)
    assert wait_failed(job).message == say.SUPERVISOR_KILLED(number=9)


ORBAX = """
import jax, jax.numpy as jnp, numpy as np, os, signal
import orbax.checkpoint as ocp
from jupyter_jax_trainer import checkpoint_dir, report

with ocp.CheckpointManager(checkpoint_dir({job})) as manager:
    begun = manager.latest_step() or 0
    w = {{'w': jnp.zeros(3)}}
    if begun:
        w = manager.restore(begun, args=ocp.args.StandardRestore(w))
    for step in range(begun + 1, {last} + 1):
        w = {{'w': w['w'] + step}}
        report(step=step)
        if step % 3 == 0:
            manager.save(step, args=ocp.args.StandardSave(w))
            manager.wait_until_finished()
        if step == 5 and not begun:
            os.kill(os.getpid(), signal.SIGKILL)
w = np.asarray(w['w'])
"""


@pytest.mark.slow
def test_orbax_goes_on_after_a_kill_and_in_a_later_job(store):
    first = run(ORBAX.format(job="", last=9), line="first -n 1 --max-restarts 1 -o begun,w")
    assert first.result("begun") == 3 and list(first.result("w")) == [45.0] * 3
    second = run(ORBAX.format(job="'first'", last=11), line="second -n 1 -o begun,w")
    assert second.result("begun") == 9 and list(second.result("w")) == [66.0] * 3


def test_checkpoints_of_a_job_that_is_not_there_are_missed_with_a_sentence(store):
    failure = fails(
        "from jupyter_jax_trainer import checkpoint_dir\ncheckpoint_dir('nobody')",
        line="-n 1 --max-restarts 1",
    )
    words = say_of_worker.NO_CHECKPOINTS(job="nobody", folder="FOLDER")
    assert words.partition("FOLDER")[0] in failure.message
