"""The Python interface on real jobs: train(), Job, jobs(), job(), runtimes()."""

from __future__ import annotations

import re
import threading
import zipfile
from pathlib import Path

import pytest

import jupyter_jax_trainer as jjt
from jupyter_jax_trainer.errors import CaptureError, JobFailed, JobNotFound, ResultError, UsageError

pytestmark = pytest.mark.usefixtures("home")

FACTOR = 3


def scaled(x, by=1):
    import jax

    print("rank", jax.process_index())
    return {"value": x * by * FACTOR, "processes": jax.process_count()}


def broken():
    raise KeyError("labels")


def test_train_runs_a_function_on_all_ranks_and_gives_rank_0s_value(home):
    job = jjt.train(scaled, 2, func_args={"by": 5}, nodes=2, name="scaled")
    assert job.result() == {"value": 30, "processes": 2}
    assert job.state == "Succeeded"
    assert sorted(line.text for line in job.logs()) == ["rank 0", "rank 1"]
    assert [line.text for line in job.logs(rank=1)] == ["rank 1"]
    assert [state for state, _ in job.history] == ["Starting", "Running", "Succeeded"]
    assert [rank.exit for rank in job.ranks] == [0, 0]
    assert not job.active
    # From somewhere else, by its name.
    again = jjt.job("scaled")
    assert again.uid == job.uid
    assert again.result() == job.result()
    assert [found.name for found in jjt.jobs()] == ["scaled"]


def test_a_lambda_and_a_library_function_are_functions_too(home):
    import math

    assert jjt.train(lambda: FACTOR + 1).result() == 4
    assert jjt.train(math.hypot, 3, 4).result() == 5.0


def first_line(path):
    with open(path) as file:
        return file.readline(), sorted(p.name for p in Path().iterdir())


def test_files_beside_the_notebook_are_read_by_their_relative_paths(
    home, tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "notebooks"
    (folder / "data").mkdir(parents=True)
    (folder / "data/x.csv").write_text("a,b\n1,2\n")
    monkeypatch.chdir(folder)
    job = jjt.train(first_line, "data/x.csv", files=["data/*.csv"])
    assert job.result() == ("a,b\n", ["data"])
    assert "1 file, 8 B" in capsys.readouterr().err and job.sent[-1]["kind"] != "files"
    with zipfile.ZipFile(Path(job.directory) / "bundle.pyz") as bundle:  # it reads them in place
        assert not [name for name in bundle.namelist() if "x.csv" in name]
    with pytest.raises(UsageError):
        jjt.train(first_line, "x", files="data/*.npy")
    assert len(jjt.jobs()) == 1


def test_a_failure_is_raised_with_the_line_of_the_function(home):
    job = jjt.train(broken, nodes=2)
    with pytest.raises(JobFailed) as raised:
        job.result()
    assert 'raise KeyError("labels")' in str(raised.value)
    assert raised.value.failure.error["type"] == "KeyError"
    assert job.state == "Failed"
    assert "KeyError" in job.reason


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nodes": 0}, "1 to"),
        ({"node": 2}, "nodes"),
        ({"timeout": "soon"}, "timeout"),
        ({"memory": "4Gi"}, "Kubernetes"),
        ({"device": "tpu"}, "tpu"),
        ({"backend": "kubernetes", "context": "nowhere"}, "no context|No cluster"),
        ({"runtime": "local-cpi"}, "local-cpu"),
        ({"name": "No Good"}, "name"),
    ],
)
def test_wrong_options_are_refused_before_anything_starts(home, options, words):
    with pytest.raises(UsageError, match=words):
        jjt.train(scaled, 1, **options)
    assert jjt.jobs() == []


def test_what_is_no_function_is_refused(home):
    with pytest.raises(UsageError) as caught:
        jjt.train("print(1)")
    assert caught.value.id == "api.not-a-function"


def test_an_argument_that_cannot_travel_is_refused(home):
    with pytest.raises(CaptureError, match="lock"):
        jjt.train(scaled, threading.Lock())
    assert jjt.jobs() == []


def test_wait_has_a_timeout_and_cancel_ends_the_job(home):
    def forever():
        import time

        while True:
            time.sleep(0.1)

    job = jjt.train(forever)
    with pytest.raises(TimeoutError):
        job.wait(timeout=0.2)
    job.cancel()
    assert job.state == "Cancelled"
    with pytest.raises(JobFailed, match="cancelled"):
        job.result()
    job.cancel()  # a second time is no error


def test_a_job_that_is_not_there_is_named_with_the_nearest_one(home):
    jjt.train(scaled, 1, name="digits").wait()
    with pytest.raises(JobNotFound, match="digits"):
        jjt.job("digit")
    with pytest.raises(ResultError, match="brought back"):
        jjt.job("digits").result("nothing")


def test_the_name_of_an_ended_job_can_be_used_again(home):
    first = jjt.train(scaled, 1, name="again")
    first.wait()
    second = jjt.train(scaled, 2, name="again")
    second.wait()
    assert (first.name, second.name) == ("again", "again-2")
    assert first.result()["value"] == 3


def test_delete_leaves_nothing(home):
    job = jjt.train(scaled, 1)
    job.wait()
    job.delete()
    assert jjt.jobs() == []
    assert list((home / "jobs").iterdir()) == []


def test_runtimes_lists_this_machines_cpu():
    assert "local-cpu" in [runtime.name for runtime in jjt.runtimes()]


def test_metrics_and_events_are_kept(home):
    def steps():
        from jupyter_jax_trainer import report

        for step in range(5):
            report(step=step + 1, total=5, loss=1 / (step + 1))

    job = jjt.train(steps).wait()
    assert [(m["step"], m["values"]["loss"]) for m in job.metrics()][-1] == (5, 0.2)
    assert (job.progress.step, job.progress.total, job.progress.fraction) == (5, 5, 1.0)
    assert [event["kind"] for event in job.events()][:1] == ["state"]


@pytest.mark.slow
def test_the_notebooks_settings_of_jax_hold_in_the_job(home):
    import jax

    def dtype():
        import jax.numpy as jnp

        return str(jnp.arange(3.0).dtype)

    assert jjt.train(dtype).result() == "float32"
    jax.config.update("jax_enable_x64", True)
    try:
        assert jjt.train(dtype).result() == "float64"
        # What the job's own environment says goes first.
        assert jjt.train(dtype, env={"JAX_ENABLE_X64": "0"}).result() == "float32"
    finally:
        jax.config.update("jax_enable_x64", False)


def test_an_argument_of_the_function_among_the_options_is_explained(home):
    with pytest.raises(UsageError, match=r"train\(scaled, 1, func_args=\{'by': 2\}\)"):
        jjt.train(scaled, 1, by=2)


def test_a_name_means_its_newest_job_and_dash_1_the_first(home):
    for value in (1, 2, 3):
        jjt.train(scaled, value, name="fit").wait()
    assert jjt.job("fit").result()["value"] == 9
    assert jjt.job("fit-2").result()["value"] == 6
    assert jjt.job("fit-1").result()["value"] == 3


def test_the_traceback_of_a_function_begins_in_the_function(home):
    with pytest.raises(JobFailed) as raised:
        jjt.train(broken).result()
    assert "__jaxtrain" not in str(raised.value)
    assert "cell line" not in str(raised.value)


def test_a_long_message_is_cut(home):
    def shout():
        raise ValueError("x" * 1_000_000)

    with pytest.raises(JobFailed) as raised:
        jjt.train(shout).result()
    assert len(str(raised.value)) < 100_000
    assert "left out" in str(raised.value)


@pytest.mark.slow
def test_a_timeout_says_where_the_ranks_are(home):
    def uneven():
        import jax
        import numpy as np
        from jax.experimental import multihost_utils

        if jax.process_index() == 0:
            multihost_utils.process_allgather(np.ones(2))

    from harness import pattern  # not above: this module travels with jobs

    from jupyter_jax_trainer.messages import jobs as say
    from jupyter_jax_trainer.messages import local as say_of_local

    where = f"{say.RANK_WAITS(rank=0, place='PLACE')}, {say.RANK_FINISHED(rank=1)}"
    words = pattern(say_of_local.TIMED_OUT_AT(timeout=10, where=where), PLACE=".*")
    with pytest.raises(JobFailed, match=words) as raised:
        jjt.train(uneven, nodes=2, timeout="10s").wait()
    assert "every collective" in str(raised.value)


def test_the_last_words_of_a_rank_that_crashed_are_shown_with_its_line(home):
    def crash():
        import os
        import signal

        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(JobFailed) as raised:
        jjt.train(crash).wait()
    assert "last words" in str(raised.value)
    assert "in crash" in str(raised.value)


def test_more_processes_than_memory_holds_are_refused(home):
    with pytest.raises(UsageError, match="4096 processes"):
        jjt.train(scaled, 1, nodes=4096)


def test_a_deleted_directory_is_said(home):
    import shutil

    job = jjt.train(scaled, 1).wait()
    shutil.rmtree(job.directory)
    from jupyter_jax_trainer.messages import jobs as say  # not above: this module travels with jobs

    assert (job.state, job.reason) == ("Cancelled", say.DIRECTORY_DELETED())


def test_a_name_that_the_notebook_has_but_the_code_hides_is_explained(home, monkeypatch):
    import sys

    from jupyter_jax_trainer.messages import worker as say  # not above: this module travels

    monkeypatch.setattr(sys.modules["__main__"], "only_here", 1, raising=False)
    with pytest.raises(JobFailed, match=re.escape(say.NOT_SENT(name="only_here"))):
        jjt.train(lambda: eval("only_here")).result()
