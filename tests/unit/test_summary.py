"""The summary of a job, and a cell's wait, from job directories as they are on disk."""

from __future__ import annotations

import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_jobs import held, made_cell, make_job

from jupyter_jax_trainer import widget
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir import files, session
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.waiting import Waiting, is_waited_for, let_go
from jupyter_jax_trainer.messages import views
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.queries.summary import SummaryReader, tail
from jupyter_jax_trainer.views.spark import sparkline


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path))


def say(directory: JobDir, source: int | str, text: str, time: float) -> None:
    """Print something, as the writer of the directory puts it down."""
    with directory.log(source).open("ab") as log:
        log.write(text.encode())
    row = json.dumps([source, directory.log(source).stat().st_size, time])
    with directory.log_index.open("a") as index:
        index.write(row + "\n")


def lines(directory: JobDir) -> list[tuple[object, str]]:
    return [(source, text) for source, _, text in tail(directory)]


def test_the_last_lines_of_all_ranks_in_their_order():
    job = make_job("one")
    say(job, 0, "a\nb\n", 1.0)
    say(job, 1, "c\n", 2.0)
    say(job, 0, "d\n[2026-01-01 00:00:00,000] not noise\n", 3.0)
    say(job, "proxy", "e\n", 4.0)
    say(job, 1, "f\npart", 5.0)
    assert lines(job) == [
        (0, "d"),
        (0, "[2026-01-01 00:00:00,000] not noise"),
        ("proxy", "e"),
        (1, "f"),
        (1, "part"),
    ]
    say(job, 1, "ly\n", 6.0)
    assert lines(job)[-2:] == [(1, "f"), (1, "partly")]


def test_a_progress_bar_is_its_last_state_and_commands_of_a_terminal_are_nothing():
    job = make_job("one")
    say(job, 0, "10%\r50%\r99%", 1.0)
    say(job, 1, "\x1b]52;c;aGk=\x07\x1b[31mred\x1b[0m\u202e\n\n   \n", 2.0)
    assert lines(job) == [(0, "99%"), (1, "\x1b[31mred\x1b[0m")]


def test_a_huge_log_costs_no_more_than_a_small_one():
    job = make_job("one")
    say(job, 0, "x" * 10_000_000 + "\nlast\n", 1.0)
    assert [len(text) for _, text in lines(job)][-1] == 4
    with job.log_index.open("a") as index:
        index.write('[0, 1, 2.0\nrubbish\n["a", "b"]\n')
    assert lines(job)[-1] == (0, "last")


@given(st.lists(st.tuples(st.integers(0, 2), st.text("ab\n", max_size=12)), max_size=12))
def test_whatever_is_printed_the_tail_is_the_end_of_it(tmp_path_factory, pieces):
    job = JobDir(tmp_path_factory.mktemp("job"))
    job.logs.mkdir()
    said: dict[int, str] = {}
    for number, (rank, text) in enumerate(pieces):
        say(job, rank, text, float(number))
        said[rank] = said.get(rank, "") + text
    found = tail(job)
    assert len(found) <= 5
    for rank, text in said.items():
        whole = [line for line in text.split("\n") if line.strip()]
        mine = [line for source, _, line in found if source == rank]
        assert mine == whole[len(whole) - len(mine) :]
    assert len(found) == min(5, sum(bool(w.strip()) for t in said.values() for w in t.split("\n")))


def test_a_cell_says_when_its_session_ends_if_that_is_soon():
    lab, spec = make_job("lab", "Running"), JobSpec(session="lab")
    reader = SummaryReader(Job(made_cell(make_job("lab-cell-1", spec=spec), "lab")))
    record = session.first(1800.0)
    now = time.time()
    for left, soon in ((299, True), (301, False), (-1, False)):
        record.update(idle_since=now - 1800 + left, idle_ends=now + left)
        session.write(lab, record)
        with held(lab):
            assert reader.read()["idle_ends"] == (now + left if soon else None)
    record.update(idle_since=now - 1500, idle_ends=now + 200)
    session.write(lab, record)
    assert reader.read()["idle_ends"] is None  # nobody holds the session any more
    with held(lab):
        assert reader.read()["idle_ends"] == now + 200
        record.update(idle_since=None, idle_ends=None)
        session.write(lab, record)
        assert reader.read()["idle_ends"] is None


def test_a_cell_of_a_session_says_what_there_is_to_say_of_what_it_reads():
    cell = made_cell(make_job("lab-cell-1", warnings=["later"]), "lab")
    large = {"size": 1_200_000_000, "devices": 4}
    more = {"kept": ["model", "lr"], "held": large, "remarks": ["lr may differ"]}
    files.write_json(cell.manifest, {**cell.read_manifest(), **more})
    found = SummaryReader(Job(cell)).read()
    assert found["sent"].endswith("; kept model and lr (session, 1.2 GB on 4 devices)")
    assert found["remarks"] == ["lr may differ", "later"]


def test_the_series_that_says_most_thinned_out():
    job = make_job("one")
    reader = SummaryReader(Job(job))
    assert reader.read()["spark"] is None
    with job.metrics.open("w") as file:
        for step in range(1000):
            for rank in (0, 1):
                values = {"lr": 0.1, "Loss/train": math.nan if step == 5 else 1000.0 - step}
                file.write(
                    json.dumps({"time": 1.0, "rank": rank, "step": step, "values": values}) + "\n"
                )
    found = reader.read()["spark"]
    points = found["points"]
    assert found["name"] == "Loss/train" and 50 < len(points) <= 121
    assert points[0] == [0, 1000.0] and points[-1] == [999, 1.0] and points == sorted(points)
    json.dumps(found, allow_nan=False)


def test_a_loss_that_is_reported_late_takes_the_place_of_what_came_first():
    job = make_job("one")
    reader = SummaryReader(Job(job))
    with job.metrics.open("w") as file:
        for step in range(6):
            values = {"lr": 0.1} if step < 3 else {"lr": 0.1, "loss": 9.0 - step}
            if step == 2:
                values["loss"] = math.nan
            file.write(json.dumps({"time": 1.0, "rank": 0, "step": step, "values": values}) + "\n")
            if step == 2:
                file.flush()
                assert reader.read()["spark"] == {
                    "name": "lr",
                    "points": [[0, 0.1], [1, 0.1], [2, 0.1]],
                }
    assert reader.read()["spark"] == {"name": "loss", "points": [[3, 6.0], [4, 5.0], [5, 4.0]]}


def test_nothing_of_it_can_do_harm():
    evil = "\x1b]0;x\x07\u202e\x9b"
    job = make_job(
        "one",
        "Failed",
        reason=f"ValueError: no{evil}",
        progress={"step": 1, "total": None, "fraction": None, "metrics": {evil: 1.0}, "time": 1.0},
    )
    text = json.dumps(SummaryReader(Job(job)).read(), ensure_ascii=False)
    assert "ValueError: no" in text
    assert not any(sign in text for sign in ("\\u001b", "\\u0007", "\u202e", "\x9b"))


def test_a_damaged_job_has_a_summary():
    job = make_job("one")
    job.state.write_text("{")
    assert SummaryReader(Job(job)).read()["row"]["state"] == "damaged"


def test_who_waits_is_seen_and_can_be_told_to_go_on():
    job = make_job("one", "Running")
    assert is_waited_for(job) == (False, None)
    let_go(job)  # nobody waits: it means nothing to whoever comes later
    with Waiting(job) as waiting, Waiting(job) as second:
        assert is_waited_for(job) == (True, None) and not waiting.over()
        waiting.say("interrupt again")
        second.say("something else")
        assert is_waited_for(job) == (True, "interrupt again")
        let_go(job)
        assert waiting.over() and second.over()
    assert is_waited_for(job) == (False, None)


def test_what_a_cell_that_died_has_left_is_not_said_again():
    job = make_job("one", "Running")
    job.waiting.write_text(views.INTERRUPT_AGAIN(seconds=3))
    with Waiting(job):
        assert is_waited_for(job) == (True, None)


def test_widgets_that_were_not_built_are_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(widget.built, "STATIC", tmp_path)
    for make in (widget.panel, Job(make_job("one")).widget):
        with pytest.raises(UsageError) as refused:
            make()
        assert refused.value.id == "views.no-widget"


def test_one_of_two_who_wait_goes_and_the_other_is_still_seen():
    job = make_job("one", "Running")
    with Waiting(job) as second:
        pass
    with Waiting(job) as first:
        second.__enter__()
        first.say(None)
    second.say("still here")
    assert is_waited_for(job) == (True, "still here")
    second.__exit__()


def test_a_wait_that_can_t_be_written_down_is_a_wait_all_the_same():
    job = make_job("one", "Running")
    job.waiting.mkdir()
    with Waiting(job) as waiting:
        waiting.say("x")
        assert not waiting.over() and is_waited_for(job) == (False, None)


def test_a_small_line_as_a_picture():
    assert sparkline(None, "red") == "" == sparkline({"name": "x", "points": [[1, 2]]}, "red")
    drawn = sparkline({"name": "<b>", "points": [[0, 1.0], [1, 1.0], [2, 1.0]]}, "red")
    assert "&lt;b&gt; from 1 to 1" in drawn and "<b>" not in drawn and "nan" not in drawn
