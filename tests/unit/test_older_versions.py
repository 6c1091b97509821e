"""What version 0.1 wrote can be opened for ever: its job directories, its bundles, its results.

`tests/recorded/0.1` was written by version 0.1, and is never made anew.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import made_jobs
import numpy as np
import pytest

from jupyter_jax_trainer import api, commands
from jupyter_jax_trainer.backends.kubernetes.submit import launch
from jupyter_jax_trainer.jobdir import layout, store
from jupyter_jax_trainer.worker.serialization.archive import Archive

WRITTEN = Path(__file__).parent.parent / "recorded/0.1"


@pytest.fixture(autouse=True)
def old_jobs(tmp_path, monkeypatch):
    """A store with the jobs of version 0.1."""
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path / "home"))
    jobs = store.private_directory(layout.jobs_directory())
    for job in WRITTEN.iterdir():
        shutil.copytree(job, jobs / job.name)


def test_a_job_that_has_ended_is_listed_and_shown():
    assert {job.name: job.state for job in api.jobs()} == {
        "recorded": "Succeeded",
        "stumbled": "Failed",
    }
    job = api.job("recorded")
    reported = [(event["rank"], event["step"]) for event in job.metrics()]
    assert sorted(reported) == [(rank, step) for rank in range(2) for step in range(5)]
    assert "step 4" in [line.text for line in job.logs(rank=0)]
    assert "KeyError" in str(api.job("stumbled").failure)


def test_its_results_are_loaded():
    jax = pytest.importorskip("jax")
    job = api.job("recorded")
    assert np.array_equal(job.result("w"), np.arange(600, dtype=np.float32))
    assert jax.random.key_data(job.result("key")).tolist() == [0, 7]
    assert job.result("model")(2).tolist() == [2, 2, 2]
    assert job.result("call")() == 42
    assert job.result("pair") == (1, [2, 3]) and job.result("pair").a == 1
    assert job.result("half")(3.0) == 1.5
    assert job.result("text") == "done"


def test_a_bundle_is_read():
    bundle = Archive(WRITTEN / "recorded/bundle.pyz")
    assert bundle.manifest["name"] == "recorded"
    assert set(bundle.manifest["names"]) >= {"Model", "triple", "Pair"}
    assert "report(step=step" in bundle.read("cell.py").decode()


# ---------------------------------------------------------------------------- what still runs


@pytest.fixture
def running():
    """A job of version 0.1 that still runs: its state as it stood then, its lock held."""
    directory = layout.find("recorded")
    directory.result.unlink()
    state = json.loads(directory.state.read_text())
    first = next(entry for entry in state["history"] if entry["state"] == "Running")
    state.update(state="Running", history=[first], results=None)
    for rank in state["ranks"]:
        rank.update(state="Running", exit=None)
    directory.state.write_text(json.dumps(state))
    with made_jobs.held(directory):
        yield directory


def test_a_job_that_still_runs_is_shown_and_followed(running, capsys):
    job = api.job("recorded")
    assert (job.state, job.active, job.steps) == ("Running", True, 4)
    assert [rank.state for rank in job.ranks] == ["Running", "Running"]
    with running.log(0).open("a") as log, running.log_index.open("a") as index:
        log.write("another line\n")
        index.write(json.dumps([0, log.tell(), time.time()]) + "\n")
    assert [line.text for line in job.logs(0)][-1] == "another line"
    listed = commands.Context(print=print)
    commands.run_command(["jobs"], listed)
    assert "Running" in capsys.readouterr().out


def test_a_job_that_still_runs_is_cancelled(running):
    def supervisor() -> None:
        """End the job as version 0.1 did, when it sees the mark."""
        while not running.cancel.exists():
            time.sleep(0.01)
        state = json.loads(running.state.read_text())
        state.update(state="Cancelled", reason="cancelled by the user")
        state["history"].append({"state": "Cancelled", "time": time.time()})
        part = running.state.with_suffix(".part")
        part.write_text(json.dumps(state))
        part.replace(running.state)

    thread = threading.Thread(target=supervisor)
    thread.start()
    job = api.job("recorded")
    job.cancel()
    thread.join()
    assert job.state == "Cancelled"


# A follower of version 0.1, as far as others see it: it holds the lock, and its pid is in it.
FOLLOWER = """
import fcntl, os, sys, time
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX)
os.write(lock, str(os.getpid()).encode())
print("follows", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("generation", [None, "1", launch.GENERATION])
def test_a_follower_of_another_version_makes_way(generation, monkeypatch):
    directory = store.private_directory(launch.follower_directory("there"))
    if generation is not None:
        (directory / launch.GENERATION_FILE).write_text(generation)
    old = subprocess.Popen(
        [sys.executable, "-c", FOLLOWER, directory / "lock"], stdout=subprocess.PIPE
    )
    try:
        assert old.stdout is not None and old.stdout.readline()
        plan = {"cluster": "there", "context": None, "namespace": "ns", "server": "s"}
        started = []
        monkeypatch.setattr(launch.subprocess, "run", lambda *args, **_: started.append(args))
        launch.start_follower(plan)
        if generation == launch.GENERATION:
            assert old.poll() is None and not started
        else:
            assert old.wait(10) == -signal.SIGKILL and len(started) == 1
    finally:
        old.kill()
        old.wait()
        old.stdout.close()


def test_no_other_follower_is_started_while_one_is_about_to_begin(monkeypatch):
    """On a busy machine each of a hundred calls would start one, and make it busier."""
    begun = []

    def is_slow(*_, pass_fds, **__):
        begun.append(
            subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(60)"], pass_fds=pass_fds
            )
        )

    monkeypatch.setattr(launch.subprocess, "run", is_slow)
    plan = {"cluster": "there", "context": None, "namespace": "ns", "server": "s"}
    try:
        for _ in range(2):
            launch.start_follower(plan)
            assert len(begun) == 1 and launch.has_follower("there")
        begun[0].kill()
        begun[0].wait()
        launch.start_follower(plan)
        assert len(begun) == 2
    finally:
        for process in begun:
            process.kill()
            process.wait()


def test_a_job_that_was_on_its_way_to_the_cluster_is_known_as_such():
    directory = layout.find("recorded")
    state = json.loads(directory.state.read_text())
    state.update(state="Queued", reason="is being submitted")
    directory.state.write_text(json.dumps(state))
    read = directory.read_state()
    assert read is not None and read.get("submitting") is True
