"""What of past jobs is kept, and how jobs compare."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_jobs import held, made_cell, make_job

import jupyter_jax_trainer
from jupyter_jax_trainer.commands import Context, run_command
from jupyter_jax_trainer.errors import JobNotFound, UsageError
from jupyter_jax_trainer.jobdir import layout, retention
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.options.spec import JobSpec

DAY = 86400.0


def run(line: str, **context: Any) -> str:
    out = io.StringIO()
    run_command(line.split(), Context(print=lambda text: print(text, file=out), **context))
    return out.getvalue()


def old_job(name: str, days: float, size: int = 0, **more: Any) -> layout.JobDir:
    directory = make_job(name, created=time.time() - days * DAY, **more)
    directory.log(0).write_bytes(b"x" * size)
    return directory


# -- retention ------------------------------------------------------------------------------------


def test_only_jobs_that_ended_long_ago_are_pruned(home):
    old_job("old", 40)
    old_job("new", 20)
    old_job("kept", 50)
    run("keep kept")
    with held(old_job("alive", 60, state="Running")):
        text = run("prune --older-than 30d --yes")
        assert layout.names() == {"new", "kept", "alive"}
    assert "old" in text and say.PRUNED(jobs="1 job") in text
    run("keep kept --off")
    run("prune --older-than 30d --yes")
    assert "kept" not in layout.names()


def test_the_oldest_go_until_the_rest_is_within_the_size(home):
    for number in range(5):
        old_job(f"job{number}", 10 - number, size=2_000_000)
    assert say.PRUNED(jobs="2 jobs") in run("prune --larger-than 7M --yes")
    assert layout.names() == {"job2", "job3", "job4"}
    assert run("prune --larger-than 7M --yes") == f"{say.NOTHING_TO_PRUNE()}\n"


def test_what_is_alive_or_kept_counts_for_the_size_and_stays(home):
    with held(old_job("alive", 9, size=3_000_000, state="Running")):
        old_job("kept", 8, size=3_000_000)
        run("keep kept")
        old_job("free", 7, size=10)
        run("prune --larger-than 2M --yes")
        assert layout.names() == {"alive", "kept"}


def test_damaged_jobs_are_never_pruned(home):
    old_job("damaged", 90).state.write_text("{")
    old_job("submitted", 90).state.unlink()
    assert say.NOTHING_TO_PRUNE() in run("prune --older-than 1d --yes")
    assert layout.names() == {"damaged", "submitted"}


def test_a_job_that_somebody_still_writes_is_left_though_it_has_ended(home):
    with held(old_job("writes", 40)):
        assert say.PRUNED(jobs="0 jobs") in run("prune --older-than 30d --yes")
    assert layout.names() == {"writes"}


def test_a_name_that_is_used_again_meanwhile_is_left(home):
    old_job("fit", 40)
    (one,) = retention.surplus(retention.Bounds(age=30 * DAY))
    one.directory.remove()
    with held(make_job("fit", "Running")):
        assert not retention.remove(one)
    assert layout.names() == {"fit"}


def test_nothing_is_deleted_without_a_yes(home):
    old_job("old", 40)
    shown = run("prune --older-than 30d --dry-run")
    assert "old" in shown and "1 job with" in shown
    with pytest.raises(UsageError, match="1 job ") as refused:
        run("prune --older-than 30d")  # nobody can be asked
    assert refused.value.id == "commands.would-prune"
    assert say.NOTHING_DELETED() in run("prune --older-than 30d", ask=lambda question: False)
    assert layout.names() == {"old"}
    assert say.PRUNED(jobs="1 job") in run("prune --older-than 30d", ask=lambda question: True)
    assert layout.names() == set()


def test_prune_needs_bounds_and_takes_those_of_the_environment(home, monkeypatch):
    old_job("old", 40)
    with pytest.raises(UsageError, match="--older-than 30d") as refused:
        run("prune --yes")
    assert refused.value.id == "commands.prune-what"
    monkeypatch.setenv(retention.DAYS, "30")
    assert say.PRUNED(jobs="1 job") in run("prune --yes")


@pytest.mark.parametrize(
    "variable, value",
    [
        (retention.DAYS, "soon"),
        (retention.DAYS, "-1"),
        (retention.DAYS, "nan"),
        (retention.BYTES, "10 gigs"),
        (retention.BYTES, "10"),
    ],
)
def test_bounds_that_make_no_sense_are_refused_by_their_name(variable, value, home, monkeypatch):
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=variable):
        retention.Bounds.of_environment()


def test_a_submission_prunes_only_when_the_environment_says_so(home, monkeypatch):
    monkeypatch.setenv("JAXTRAIN_WARM", "0")
    old_job("old", 40)
    first = jupyter_jax_trainer.train(int, name="first")
    assert "old" in layout.names()
    monkeypatch.setenv(retention.DAYS, "30")
    second = jupyter_jax_trainer.train(int, name="second")
    assert layout.names() == {"first", "second"}
    monkeypatch.setenv(retention.DAYS, "soon")
    with pytest.raises(UsageError, match=retention.DAYS):
        jupyter_jax_trainer.train(int, name="third")
    first.cancel()
    second.cancel()


def test_the_environment_deletes_nothing_of_the_last_day_for_its_size(home, monkeypatch):
    old_job("older", 2, size=3_000_000)
    old_job("fresh", 0.5, size=3_000_000)
    monkeypatch.setenv(retention.BYTES, "2M")
    retention.apply_environment()  # as each submission does
    assert layout.names() == {"fresh"}
    assert say.PRUNED(jobs="1 job") in run("prune --yes")  # somebody has asked


def test_the_cells_of_a_session_count_as_one_job_and_make_no_other_go(home):
    old_job("fit", 9, size=1_000_000)
    with held(old_job("lab", 8, state="Running")):
        for number in range(4):
            made_cell(old_job(f"lab-cell-{number}", 5 - number, size=1_000_000), "lab")
        run("prune --larger-than 2.5M --yes")
        assert layout.names() == {"fit", "lab", "lab-cell-3"}
        run("prune --larger-than 1.5M --yes")
        assert layout.names() == {"lab", "lab-cell-3"}


def test_with_a_session_go_its_cells_unless_they_are_kept(home):
    old_job("lab", 1, spec=JobSpec(session="lab", name="lab"))
    old_job("lab-other", 1, spec=JobSpec(session="lab-other", name="lab-other"))
    for number in range(3):
        made_cell(old_job(f"lab-cell-{number}", 1), "lab")
    made_cell(old_job("lab-other-cell-1", 1), "lab-other")
    run("keep lab-cell-1")
    run("delete lab-cell-2")
    assert "lab" in layout.names()
    run("delete lab --yes")
    assert layout.names() == {"lab-cell-1", "lab-other", "lab-other-cell-1"}


def test_cells_that_are_spared_for_a_day_make_no_other_job_go(home, monkeypatch):
    old_job("fit", 9, size=1_000_000)
    for number in range(4):
        made_cell(old_job(f"lab-cell-{number}", 0.5, size=1_000_000), "lab")
    monkeypatch.setenv(retention.BYTES, "2.5M")
    retention.apply_environment()
    assert len(layout.names()) == 5


def test_dying_while_files_are_deleted_leaves_nothing_that_looks_like_a_job(home):
    old_job("old", 40, size=100)
    code = (
        "import os, shutil; shutil.rmtree = lambda *a, **k: os._exit(9)\n"
        "from jupyter_jax_trainer.commands import Context, run_command\n"
        "run_command(['prune', '--older-than', '30d', '--yes'], Context())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=dict(os.environ))
    assert done.returncode == 9, done.stderr
    assert layout.names() == set() and list(layout.jobs_directory().iterdir())
    directory, lock = layout.create()  # the next submission
    assert list(layout.jobs_directory().iterdir()) == [directory.path]
    os.close(lock)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 5000), st.booleans()), max_size=8),
    st.none() | st.floats(0.01, 100),
    st.none() | st.integers(1, 20_000),
)
def test_bounds_hold_and_no_more_goes_than_they_need(jobs, days, size):
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as home:
        patch.setenv("JAXTRAIN_HOME", home)
        sizes, ages, kept = {}, {}, set()
        for number, (age, bytes_, keep) in enumerate(jobs):
            directory = old_job(name := f"job{number}", age, bytes_)
            ages[name] = age
            if keep:
                directory.keep.touch()
                kept.add(name)
            sizes[name] = sum(p.stat().st_size for p in directory.path.rglob("*") if p.is_file())
        bounds = retention.Bounds(days and days * DAY, size)
        going = retention.surplus(bounds)
        names = [one.directory.path.name for one in going]
        left = set(sizes) - set(names)
        assert not kept & set(names)
        ordinary = left - kept
        if days is not None:
            assert not [n for n in ordinary if ages[n] > days + 0.01]
        if size is not None and ordinary:
            assert sum(sizes[n] for n in left) <= size
        # The last one had to go, or those before it would not have been enough.
        for one in going[-1:]:
            name = one.directory.path.name
            young = days is None or ages[name] < days - 0.01
            if young:
                assert size is not None and sum(sizes[n] for n in left) + sizes[name] > size


# -- comparison -----------------------------------------------------------------------------------


def reports(directory: layout.JobDir, **series: list[Any]) -> None:
    with directory.metrics.open("w") as file:
        for step in range(max(map(len, series.values()))):
            values = {name: found[step] for name, found in series.items() if step < len(found)}
            for rank in (0, 1):
                line = {
                    "time": 1.0 + step,
                    "rank": rank,
                    "step": step,
                    "total": None,
                    "values": {n: v if rank == 0 else -1.0 for n, v in values.items()},
                }
                file.write(json.dumps(line) + "\n")


def test_jobs_are_compared_by_metrics_and_options(home):
    reports(make_job("a", spec=JobSpec(nodes=2)), loss=[3.0, 1.0, 2.0], acc=[0.1, 0.5])
    reports(make_job("b", "Failed", spec=JobSpec(nodes=4, cpu="2")), loss=[9.0, "nan", 0.5, "inf"])
    first, second = jupyter_jax_trainer.compare("a", jupyter_jax_trainer.job("b"))
    assert (first["loss"], first["loss_min"], first["loss_min_step"]) == (2.0, 1.0, 1)
    assert (first["loss_max"], first["loss_max_step"], first["acc"]) == (3.0, 0, 0.5)
    assert (second["loss_min"], second["loss_min_step"]) == (0.5, 2)  # no NaN
    assert second["loss"] == float("inf") and "acc" not in second
    assert (first["nodes"], second["nodes"], second["state"]) == (2, 4, "Failed")

    text = run("compare a b")
    assert text.splitlines()[0].split() == ["JOB", "STATE", "NODES", "STEPS", "TOOK", "LOSS", "ACC"]
    assert ["--nodes", "2", "4"] in [line.split() for line in text.splitlines()]
    assert ["--cpu", "2"] in [line.split() for line in text.splitlines()]
    assert "--out" not in text  # the same in both
    one = run("compare a b --metric loss")
    assert "1 at step 1" in one and "0.5 at step 2" in one and "ACC" not in one


def test_runs_of_one_cell_are_told_apart_and_patterns_mean_all(home):
    for number, loss in ((1, 3.0), (2, 2.0)):
        name = "fit" if number == 1 else f"fit-{number}"
        spec = JobSpec(name="fit", cpu=str(number), explicit=frozenset({"name"}))
        reports(make_job(name, spec=spec, created=1000.0 * number), loss=[loss])
    make_job("other")
    assert [row["loss"] for row in jupyter_jax_trainer.compare("fit", "fit-2")] == [3.0, 2.0]
    text = run("compare fit*")
    assert "fit-2" in text and "other" not in text and "--cpu" in text


def test_metrics_of_several_jobs_are_one_flat_list(home):
    reports(make_job("a"), loss=[3.0, 1.0])
    reports(make_job("b"), loss=[2.0])
    found = jupyter_jax_trainer.metrics("a", "b")
    mine = [(row["job"], row["step"], row["loss"]) for row in found if row["rank"] == 0]
    assert mine == [("a", 0, 3.0), ("a", 1, 1.0), ("b", 0, 2.0)]


def test_what_cannot_be_compared_is_said(home):
    reports(make_job("a"), loss=[3.0])
    make_job("silent", progress=None)
    with pytest.raises(UsageError, match="'los'") as refused:
        run("compare a silent --metric los")
    assert refused.value.id == "jobs.metric-not-reported" and "loss" in str(refused.value.hint)
    with pytest.raises(UsageError) as refused:
        run("compare silent --metric loss")
    assert refused.value.id == "jobs.no-metrics"
    with pytest.raises(JobNotFound):
        run("compare a nowhere")
    assert "silent" in run("compare a silent")


def test_a_metric_named_like_a_column_hides_nothing(home):
    reports(make_job("a"), state=[1.0], steps=[7.0])
    (row,) = jupyter_jax_trainer.compare("a")
    assert (row["state_"], row["steps_"]) == (1.0, 7.0)
    assert "7 at step 0" in run("compare a --metric steps")
    with pytest.raises(UsageError, match="'took'"):
        run("compare a --metric took")
    reports(make_job("b"), loss=[3.0, 1.0], loss_min=[0.5])
    assert jupyter_jax_trainer.compare("b")[0]["loss_min"] == 0.5
    assert row["state"] == "Succeeded" and row["steps"] == 120
