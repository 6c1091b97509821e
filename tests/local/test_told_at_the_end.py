"""The hook on the end of a job, with real jobs and processes that are killed."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from harness import eventually, keeper_and_supervisor, run, submit, wait_for

from jupyter_jax_trainer.jobdir import endhook
from jupyter_jax_trainer.sessions import session

ENDLESS = "import time\ntime.sleep(600)"


@pytest.fixture
def told(store, tmp_path):
    """Have a command note what it gets; give what reads that, by the names of the jobs."""
    folder = tmp_path / "told"
    folder.mkdir()

    def write(**more):
        command = f"cat > {folder}/.new && mv {folder}/.new {folder}/$(date +%s%N)"
        lines = [f"{k} = {json.dumps(v)}" for k, v in {"command": command, **more}.items()]
        (store / "settings.toml").write_text("\n".join(["[on_end]", *lines]))

    def read():
        found = [json.loads(path.read_text()) for path in folder.glob("[0-9]*")]
        return sorted((one["name"], one["state"]) for one in found)

    write()
    read.write = write
    yield read
    eventually(lambda: not [n for n in os.listdir(store / endhook.NOTES) if n != "output"])
    (store / "settings.toml").unlink()


def test_a_command_is_told_of_the_end_of_a_job(start, told):
    job = run("x = 1", line=f"well-{start}")
    eventually(lambda: told() == [(job.name, "Succeeded")])
    eventually(lambda: [one for one in job.events() if one["kind"] == "on-end"])


@pytest.mark.parametrize("who", ["supervisor", "keeper", "both"])
def test_whoever_is_killed_it_is_told_once(store, told, who):
    job = wait_for(submit(ENDLESS, line=f"killed-{who}"), "Running")
    keeper, supervisor = keeper_and_supervisor(job)
    for pid in {"supervisor": [supervisor], "keeper": [keeper], "both": [keeper, supervisor]}[who]:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: job.state == "Failed")
    eventually(lambda: told() == [(job.name, "Failed")])
    time.sleep(0.2)
    assert told() == [(job.name, "Failed")]


@pytest.mark.slow
def test_of_a_session_only_the_end_is_told_unless_cells_are_asked_for(told, monkeypatch):
    first = run("x = 1", line="-s lab -n 1")
    told.write(cells=True)
    second = run("y = 2", line="-s lab")
    eventually(lambda: told() == [(second.name, "Succeeded")])
    held = session("lab")
    held.end()
    eventually(lambda: len(told()) == 2)
    assert first.name not in dict(told()) and dict(told())["lab"] in ("Cancelled", "Succeeded")
