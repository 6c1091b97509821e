"""Metrics that are not finite: what the job directory says of them, and settings that find them."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from zipfile import ZipFile

import pytest

from jupyter_jax_trainer import api
from jupyter_jax_trainer.bundle import Part, write_bundle
from jupyter_jax_trainer.capture import Capture
from jupyter_jax_trainer.jobdir.describe import remarks
from jupyter_jax_trainer.jobdir.files import LineReader
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.records import Event
from jupyter_jax_trainer.jobdir.state import new_rank
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.options.spec import parse_cell_line
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.views.card import Facts, line, render, text


@pytest.fixture
def record(tmp_path):
    return Recorder(JobDir(tmp_path), [new_rank(0), new_rank(1)])


def reports(step, **values):
    return [{"time": 1.0, "step": step, "total": None, "values": values}]


def events(record):
    found = LineReader[Event](record._directory.events).read()
    return [(e["rank"], e["message"]) for e in found if e["kind"] == "not-finite"]


def test_each_metric_is_told_once_with_step_and_rank(record):
    record.reports(0, reports(119, loss=0.5))
    record.reports(1, reports(120, loss="nan", accuracy=0.5))
    record.reports(0, reports(120, loss="nan"))
    record.reports(0, reports(121, loss="inf", norm="-inf"))
    said = [(1, "loss was NaN at step 120 (rank 1)"), (0, "norm was -Inf at step 121 (rank 0)")]
    assert events(record) == said
    assert remarks(record.state) == [message for _, message in said]
    facts = Facts(name="fit", created=0.0, shape="2 nodes", sent="")
    for shown in (text(facts, record.state), render(facts, record.state)):
        assert said[0][1] in shown
    assert said[0][1] not in line(facts, record.state)


def test_there_is_a_bound_and_other_ranks_begin_anew(record):
    record.reports(0, reports(1, **{f"m{number}": "nan" for number in range(99)}))
    assert len(events(record)) == len(remarks(record.state)) == 10
    record.restart(3, "rank 0 was killed")
    assert remarks(record.state) == []
    record.reports(0, reports(1, m0="nan"))
    assert len(events(record)) == 11


def test_a_follower_that_comes_later_does_not_say_it_again(record, tmp_path):
    record.reports(0, reports(1, loss="nan"))
    record.change(State.RUNNING)
    later = Recorder(JobDir(tmp_path), [], JobDir(tmp_path).read_state())
    later.reports(0, reports(2, loss="nan"))
    assert len(events(record)) == 1


@pytest.mark.parametrize("value", ["nan ", "NaN", "x", None, [], {"a": 1}])
def test_what_a_job_says_in_place_of_numbers_is_passed_over(record, value):
    record.reports(0, reports(1, loss=value))
    assert events(record) == []


# ---- jax_debug_nans of the notebook


@pytest.fixture
def debugging(monkeypatch):
    values = {"jax_debug_nans": True, "jax_debug_infs": False, "jax_enable_x64": True}
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(config=SimpleNamespace(values=values)))
    return values


def manifest(path):
    with ZipFile(path) as bundle:
        return json.loads(bundle.read("manifest.json"))


def test_what_can_hang_several_processes_is_not_sent_to_them(debugging, tmp_path):
    for nodes, sent in ((1, True), (2, False)):
        write_bundle(tmp_path / "b", "b", Capture(""), nodes=nodes, part=Part.CELL)
        config = manifest(tmp_path / "b")["jax_config"]
        assert ("jax_debug_nans" in config) is sent
        assert config["jax_enable_x64"] is True and config["jax_debug_infs"] is False
        assert "stop_on_nan" not in manifest(tmp_path / "b")
    write_bundle(tmp_path / "b", "b", Capture(""), stop_on_nan=True, part=Part.CELL)
    assert manifest(tmp_path / "b")["stop_on_nan"] is True


@pytest.mark.parametrize(("nodes", "count"), [(1, 0), (2, 1)])
def test_and_that_is_said(debugging, home, nodes, count):
    spec = parse_cell_line(f"-n {nodes}")
    capture = Capture("")
    submission, plan = api.prepare(spec)
    api.check(spec, submission, plan, capture)
    notes = [note for note in capture.notes if "jax_debug_nans" in note]
    assert len(notes) == count
    assert all("--stop-on-nan" in note and "jax_debug_infs" not in note for note in notes)
