"""report() outside of a job, and what it takes."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest

from jupyter_jax_trainer import report
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import reporting
from jupyter_jax_trainer.worker.channel import Channel
from jupyter_jax_trainer.worker.exceptions import NotFiniteError, describe


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


@pytest.mark.parametrize("name", ["jaxtrain/memory", "jaxtrain/mine"])
def test_names_of_resources_are_reserved(name):
    with pytest.raises(ValueError, match="jaxtrain/") as caught:
        report({name: 1.0})
    assert str(caught.value) == say.RESERVED_NAME(name=name, reserved=reporting.RESERVED)
    report({"jaxtrain": 1, "my/jaxtrain/x": 2})


# ---- metrics that are not finite


class Sent(Channel):
    def __init__(self) -> None:
        super().__init__(None)
        self.values: list[dict[str, object]] = []

    def send(self, kind: str, **fields: Any) -> None:
        self.values += [one["values"] for one in fields["reports"]]


@pytest.mark.parametrize(("value", "shown"), [("nan", "NaN"), ("inf", "Inf"), ("-inf", "-Inf")])
def test_a_report_that_is_not_finite_is_sent_and_then_ends_a_job_that_wants_it(value, shown):
    channel = Sent()
    reporter = reporting.Reporter(channel)
    bad = {"accuracy": 0.5, "loss": float(value)}
    reporter.add(1, None, bad)  # nobody has asked for it
    reporter.stop_on_nan(True)
    reporter.add(2, None, {"loss": 1e308})
    with pytest.raises(NotFiniteError) as caught:
        reporter.add(3, None, bad)
    assert str(caught.value) == say.NOT_FINITE(metric="loss", value=shown, step=3)
    assert channel.values[-1] == {"accuracy": 0.5, "loss": value}
    assert describe(caught.value, "", {})["hint"]


# ---- the report at which all ranks of a session stop


def test_a_report_waits_to_hear_whether_it_is_the_last_one():
    reporter = reporting.Reporter(Channel(None))
    made: list[int] = []

    def work() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                reporter.add(None, None, {})
                made.append(len(made) + 1)

    for _ in range(2):
        reporter.add(None, None, {})
    assert reporter.hold() == 2
    thread = threading.Thread(target=work)
    thread.start()
    assert made == []
    reporter.stop_at(5)  # the rank that is the furthest has made four
    thread.join()
    assert made == [1, 2]
    reporter.begin()  # another cell
    assert reporter.hold() == 0
    reporter.stop_at(2)
    reporter.add(None, None, {})
    with pytest.raises(KeyboardInterrupt):
        reporter.add(None, None, {})


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
