"""report() outside of a job, and what it takes."""

from __future__ import annotations

import pytest

from jupyter_jax_trainer import report
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import reporting


@pytest.mark.parametrize(
    ("arguments", "metrics", "printed"),
    [
        ((), {"step": 10, "total": 100, "loss": 0.25}, "step 10/100  loss 0.25\n"),
        ((10, 100), {"loss": 0.25}, "step 10/100  loss 0.25\n"),
        ((10,), {"total": 100}, "step 10/100\n"),
        (({"eval/loss": 2},), {"step": 3}, "step 3  eval/loss 2\n"),
        ((), {"loss": float("nan")}, "loss nan\n"),
    ],
)
def test_it_prints_outside_of_a_job(capsys, arguments, metrics, printed):
    report(*arguments, **metrics)
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    ("arguments", "metrics", "words"),
    [
        ((1, 2, 3), {}, say.REPORT_ARGUMENTS()),
        ((0.5,), {}, "integer"),
        ((), {"loss": [1, 2]}, say.NOT_A_NUMBER(name="loss", what="list")),
    ],
)
def test_what_it_cannot_take_is_named(arguments, metrics, words):
    with pytest.raises(TypeError) as caught:
        report(*arguments, **metrics)
    assert words in str(caught.value)


# ---- checkpoints of another job


@pytest.fixture
def volume(tmp_path, monkeypatch):
    """Be in a pod of the job ``new`` with a volume, on which the job ``old`` has left something."""
    (tmp_path / "jaxtrain/old/checkpoints").mkdir(parents=True)
    monkeypatch.setenv("JAXTRAIN_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.setenv("JAXTRAIN_CHECKPOINT_DIR", str(tmp_path / "jaxtrain/new/checkpoints"))
    return tmp_path


def test_checkpoints_of_another_job_lie_beside_those_of_this_one(volume):
    assert reporting.checkpoint_dir("old") == volume / "jaxtrain/old/checkpoints"
    assert reporting.checkpoint_dir() == volume / "jaxtrain/new/checkpoints"


@pytest.mark.parametrize("name", ["nobody", "", "..", "../old", "/etc", "old/checkpoints"])
def test_what_is_no_other_job_is_refused(volume, name):
    with pytest.raises(FileNotFoundError) as caught:
        reporting.checkpoint_dir(name)
    own = volume / "jaxtrain/new/checkpoints"
    assert str(caught.value) == say.NO_CHECKPOINTS(job=name, folder=own)


def test_without_a_volume_a_pod_sees_no_other_jobs(volume, monkeypatch, capsys):
    monkeypatch.delenv("JAXTRAIN_CHECKPOINT_DIR")
    monkeypatch.setattr(reporting, "_noted", False)
    with pytest.raises(FileNotFoundError):
        reporting.checkpoint_dir("old")
    assert "--volume PVC:/path" in capsys.readouterr().out


def test_outside_a_job_all_share_one_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert reporting.checkpoint_dir("old") == reporting.checkpoint_dir()
