"""A job stays when its TrainJob is gone, and what its follower counted can be read."""

from __future__ import annotations

import io
import json

import pytest
from harness import eventually, text, wait_for, wait_for_text
from prometheus_client.parser import text_string_to_metric_families

import jupyter_jax_trainer
from cluster.jobs import PATIENCE, stop_followers, submit
from jupyter_jax_trainer import log
from jupyter_jax_trainer.backends.kubernetes.api.counts import FILE
from jupyter_jax_trainer.backends.kubernetes.submit.launch import follower_directory
from jupyter_jax_trainer.commands import Context, run_command
from jupyter_jax_trainer.jobdir.job import Job

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
CELL = """
from jupyter_jax_trainer import report
for step in range(3):
    report(step, 3, loss=1.0 / (step + 1))
print("hello from the past", flush=True)
answer = 42
"""
WAITS = CELL + "import time\ntime.sleep(600)"


def run(*words: str) -> str:
    out = io.StringIO()
    run_command(words, Context(print=lambda text: print(text, file=out)))
    return out.getvalue()


def test_all_of_a_job_stays_when_its_trainjob_is_gone(place, namespace, store, monkeypatch):
    monkeypatch.setenv(log.LEVEL_VARIABLE, "info")
    ended = submit(CELL, place, "-o answer --name past")
    runs = submit(WAITS, place, "--name cut")
    ended.wait(PATIENCE)
    wait_for_text(runs, "hello from the past")
    eventually(lambda: runs.steps == 2)
    folder = follower_directory(ended.manifest["plan"]["cluster"])

    def counted() -> dict[str, float]:
        return {
            sample.name: sample.value
            for family in text_string_to_metric_families((folder / FILE).read_text())
            for sample in family.samples
        }

    eventually(lambda: counted()["jaxtrain_follower_log_bytes_total"] >= 40, 30)
    assert counted()["jaxtrain_follower_jobs"] >= 1
    namespace("delete", "trainjob", "past", "cut", "--wait=true")
    wait_for(runs, "Cancelled")
    assert "deleted" in (runs.reason or "")
    eventually(
        lambda: json.loads((store / "jobs/cut/state.json").read_text())["state"] == "Cancelled"
    )
    eventually(lambda: not namespace.get("trainjobs,pods,secrets")["items"], 60)
    own = folder / "follower.log"
    eventually(lambda: "is done with job cut" in own.read_text(), 30)
    said = own.read_text()
    assert "follows job past" in said and "INFO cut: Cancelled" in said
    stop_followers(store)  # nobody is left who could ask the cluster
    monkeypatch.setenv("KUBECONFIG", str(store / "nothing"))

    past = Job(ended._dir)
    assert past.state == "Succeeded" and past.result("answer") == 42
    assert text(past).splitlines() == ["hello from the past"] and past.code.strip() == CELL.strip()
    assert [m["values"]["loss"] for m in past.metrics()] == [1.0, 0.5, 1 / 3]
    assert past.events()[-1]["message"] == "Succeeded"
    assert "hello from the past" in run("logs", "past")
    shown = run("show", "past")
    assert "Succeeded" in shown and "answer" in shown and "EVENTS" in shown
    assert "answer = 42" in run("result", "past")
    cut = Job(runs._dir)
    assert cut.state == "Cancelled" and "hello from the past" in text(cut)
    assert "deleted" in run("show", "cut")
    listed = run("jobs", "--all")
    assert "past" in listed and "cut" in listed
    rows = jupyter_jax_trainer.compare("past", "cut")
    assert [row["loss"] for row in rows] == [1 / 3, 1 / 3]
    assert "--out" in run("compare", "past", "cut")
    assert "Deleted 2 jobs" in run("prune", "--older-than", "0.001s", "--yes")
    assert not list((store / "jobs").iterdir())
