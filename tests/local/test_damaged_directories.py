"""Job directories that were damaged by hand, or that another version wrote."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from harness import (
    PROMISED_S,
    alive,
    eventually,
    keeper_and_supervisor,
    ranks_of,
    run,
    submit,
    wait_for,
)

from jupyter_jax_trainer import api
from jupyter_jax_trainer.commands.listing import details, log_lines, view
from jupyter_jax_trainer.errors import JaxTrainError, JobDirError
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.messages import jobs as say

CELL = """
from jupyter_jax_trainer import report
import jax
for step in range(3):
    report(step=step, total=3, loss=1.0)
    print("step", step)
w = jax.numpy.ones(3)
w
"""
FILES = [
    "manifest.json",
    "state.json",
    "cell.py",
    "bundle.pyz",
    "events.jsonl",
    "metrics.jsonl",
    "displays.jsonl",
    "logs/rank-0.log",
    "logs/index.jsonl",
    "result.jtz",
    "lock",
]


@pytest.fixture(scope="module")
def whole(_module_store):
    """Run one job, whose directory is then copied and damaged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXTRAIN_HOME", str(_module_store))
        job = run(CELL, line="whole -n 2 -o w")
        return job.directory


@pytest.fixture
def copy(whole, store):
    """Give a copy of that directory under another name."""
    path = whole.with_name("copy")
    shutil.copytree(whole, path)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def look_at(job: Job) -> list[JaxTrainError]:
    """Do everything that reads a job; only errors in sentences may come out."""
    found = []
    for read in (
        lambda: job.state,
        lambda: job.reason,
        lambda: job.history,
        lambda: job.ranks,
        lambda: job.progress,
        lambda: job.failure,
        lambda: job.spec,
        lambda: job.elapsed,
        lambda: job.metrics(),
        lambda: job.events(),
        lambda: job.result(),
        lambda: job.code,
        lambda: list(log_lines(job.logs(), ranks=True, times=True)),
        lambda: repr(job),
        lambda: details(job),
        lambda: view(job),
        lambda: api.jobs(),
        lambda: job.wait(1),
        job.raise_for_state,
        job.cancel,
    ):
        try:
            read()
        except JaxTrainError as error:
            assert str(job.directory) in str(error) or job.name in str(error)
            found.append(error)
    return found


def damages(content: bytes) -> dict[str, bytes]:
    return {
        "empty": b"",
        "cut": content[: len(content) // 2],
        "one byte short": content[:-1],
        "noise": b"\x00\xff\xfe" * 50,
        "other JSON": b'[1, {"a": null}]\n"x"\n7\n{}\n[1, 2]\n["a", 2, 3]\n',
        "JSON of nothing": b"{}",
        "only a format": b'{"format": 1}',
        "wrong types": b'{"format": 1, "state": 5, "history": {}, "ranks": [1], "spec": []}',
    }


@pytest.mark.parametrize("file", FILES)
def test_a_damaged_or_missing_file_is_told_and_nothing_else_breaks(copy, file):
    path = copy / file
    content = path.read_bytes()
    for damage, data in damages(content).items():
        path.write_bytes(data)
        errors = look_at(Job(api.layout.JobDir(copy)))
        if file in ("manifest.json", "state.json"):
            assert any(isinstance(error, JobDirError) for error in errors), damage
        path.write_bytes(content)
    path.unlink()
    look_at(Job(api.layout.JobDir(copy)))
    path.write_bytes(content)
    assert look_at(Job(api.layout.JobDir(copy))) == []


@pytest.mark.parametrize("file", ["manifest.json", "state.json"])
def test_the_message_says_which_file_and_what_to_do(copy, file):
    (copy / file).write_text('{"format": 1, "sta')
    with pytest.raises(JobDirError, match=file) as raised:
        api.job("copy").manifest, api.job("copy").state
    assert raised.value.id == "jobs.file-damaged" and str(copy) in raised.value.hint


@pytest.mark.parametrize("number", [0, 2, "1", None])
@pytest.mark.parametrize("file", ["manifest.json", "state.json"])
def test_another_format_is_told(copy, file, number):
    value = json.loads((copy / file).read_text())
    (copy / file).write_text(json.dumps({**value, "format": number}))
    words = say.OTHER_FORMAT(path=copy / file, found=number, known=1)
    with pytest.raises(JobDirError, match=re.escape(words)):
        api.job("copy").manifest, api.job("copy").state


def test_a_later_version_of_the_same_format_may_have_more_fields(copy):
    for file in ("manifest.json", "state.json"):
        value = json.loads((copy / file).read_text())
        value["new"] = 1
        for inner in (*value.get("ranks", ()), value.get("progress"), value.get("spec")):
            if inner:
                inner["new"] = 1
        (copy / file).write_text(json.dumps(value))
    assert look_at(Job(api.layout.JobDir(copy))) == []


def test_the_list_shows_a_damaged_job_beside_the_others_and_delete_removes_it(copy):
    (copy / "manifest.json").write_text("{")
    environment = {**os.environ, "COLUMNS": "200"}

    def command(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "jupyter_jax_trainer", *words],
            capture_output=True,
            text=True,
            env=environment,
            timeout=60,
        )
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    listed = command("jobs").splitlines()
    assert any("whole" in line and "Succeeded" in line for line in listed)
    assert any("copy" in line and "damaged" in line for line in listed)
    api.job("copy").delete()
    assert not copy.exists()


@pytest.mark.slow
@pytest.mark.parametrize("file", ["manifest.json", "state.json", "lock", "bundle.pyz", "logs"])
def test_damage_while_the_job_runs_leaves_no_process(store, file):
    job = wait_for(submit("import time\nwhile True: time.sleep(0.05)"), "Running")
    pids = [*ranks_of(job), *keeper_and_supervisor(job)]
    path = job.directory / file
    shutil.rmtree(path) if path.is_dir() else path.write_bytes(b"")
    shutil.rmtree(job.directory / "nothing", ignore_errors=True)
    try:
        api.job(job.name).delete()
    except JaxTrainError:
        # Again where the job has written in the meantime, as whoever deletes it by hand would.
        eventually(lambda: shutil.rmtree(job.directory, True) or not job.directory.exists())
    eventually(lambda: not any(map(alive, pids)), PROMISED_S)
    shutil.rmtree(job.directory, ignore_errors=True)
