"""Profiles of real ranks: of a whole cell, of steps, and of some seconds while it runs."""

from __future__ import annotations

import os
import signal

import pytest
from harness import eventually, ranks_of, run, submit, wait_for

from jupyter_jax_trainer import commands
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.worker.profiling import MEMORY, TRACE

pytestmark = pytest.mark.usefixtures("store")

TRAINS = """
import time
import jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jupyter_jax_trainer import report

mesh = Mesh(jax.devices(), ("d",))
@jax.jit
def step(x):
    return (jnp.tanh(x @ x.T) @ x).sum()
x = jax.device_put(jnp.ones((256, 256)), NamedSharding(mesh, P("d")))
for n in range(STEPS):
    report(loss=float(step(x)))
    time.sleep(0.01)
"""


def trains(steps: int) -> str:
    return TRAINS.replace("STEPS", str(steps))


@pytest.fixture
def busy():
    """Two ranks that train until they are cancelled."""
    job = submit(trains(1_000_000), line="-n 2 --devices-per-node 1")
    try:
        wait_for(job, "Running")
        eventually(lambda: job.steps)
        yield job
    finally:
        job.cancel()


def test_a_running_job_is_profiled(busy, capsys):
    profile = busy.profile(seconds=0.5)
    assert (profile.name, profile.job) == ("1", busy.name)
    assert [one["problem"] for one in profile.ranks] == [None, None]
    for rank in (0, 1):
        names = {path.name for path in (profile.directory / f"rank-{rank}").iterdir()}
        assert names == {TRACE, MEMORY}
    found = profile.summary()
    assert found["bound"] is None and len(found["notes"]) == 2  # a CPU can't tell; collectives wait
    assert {one["platform"] for one in found["ranks"]} == {"cpu"}
    for one in found["ranks"]:
        assert one["devices"] == 1 and 0.3 < one["seconds"] < 5
        assert 0 < one["collectives"] < one["busy"] < one["seconds"]
        assert any(
            "step" in held["where"] or held["size"] >= 1 << 17 for held in one["allocations"]
        )
    assert {one["module"] for one in found["operations"]} == {"jit_step"}
    assert any(one["collective"] and one["name"].startswith("all-") for one in found["operations"])
    commands.run_command(["profile", busy.name], commands.Context(print=print))
    shown = capsys.readouterr().out
    assert "COLLECTIVES" in shown and "jit_step" in shown and "ALLOCATED BY" in shown
    assert any(event["kind"] == "profile" for event in busy.events())


def test_a_cell_and_its_steps_are_profiled():
    job = run(trains(30), line="-n 2 --devices-per-node 1 --profile")
    (profile,) = job.profiles
    assert profile.name == "cell" and len(profile.summary()["operations"]) > 1
    job = run(trains(30), line="-n 2 --devices-per-node 1 --profile steps=10:15")
    (profile,) = job.profiles
    assert profile.name == "steps"
    for one in profile.summary()["ranks"]:
        dots = [op["count"] for op in one["operations"] if op["collective"]]
        assert set(dots) <= {5} and dots  # once in each of five steps


@pytest.mark.parametrize("given", [True, False], ids=["given by the other", "given by none"])
def test_a_rank_that_dies_meanwhile_is_named(busy, capsys, given):
    rank = ranks_of(busy)[1]
    if given:
        os.kill(rank, signal.SIGSTOP)  # until the other one has given its part
    taken = busy.backend.profile(busy._dir, 0.3 if given else 30.0)
    if given:
        eventually(lambda: any(one.ranks for one in busy.profiles))
    os.kill(rank, signal.SIGKILL)
    eventually(lambda: not busy.active)
    (profile,) = busy.profiles
    assert profile.name == taken["name"]
    assert [bool(one["files"]) for one in profile.ranks] == [given, False]
    ended = say.ENDED_BEFORE_PROFILE()
    assert [one["problem"] for one in profile.ranks] == [None if given else ended, ended]
    assert [path.name for path in profile.directory.parent.rglob("rank-*")] == ["rank-0"] * given
    (told,) = [event["message"] for event in busy.events() if event["kind"] == "profile"]
    assert say.PROFILE_LACKS(ranks="rank 1" if given else "ranks 0 and 1", problem=ended) in told
    commands.run_command(["profile", busy.name], commands.Context(print=print))
    rows = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line]
    assert [row[0] for row in rows if ended in row[-1]] == (["1"] if given else ["0", "1"])
    with pytest.raises(UsageError):
        busy.profile(1)


def test_what_is_too_large_is_left_out_and_said(monkeypatch):
    monkeypatch.setenv("JAXTRAIN_PROFILE_BYTES", "20k")
    job = run(trains(300), line="-n 1 --profile")
    (profile,) = job.profiles
    (rank,) = profile.ranks
    assert rank["left_out"][TRACE] > 20_000 and MEMORY in rank["files"]
    assert [path.name for path in (profile.directory / "rank-0").iterdir()] == [*rank["files"]]
    assert any("JAXTRAIN_PROFILE_BYTES" in event["message"] for event in job.events())
    assert profile.summary()["ranks"][0]["problem"]
