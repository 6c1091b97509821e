"""The cells of a session when its ranks leave and others come in their place."""

from __future__ import annotations

import time
from typing import Any

import pytest
from made_jobs import made_cell, make_job

from jupyter_jax_trainer.backends.sequencer import Sequencer
from jupyter_jax_trainer.jobdir import files, session
from jupyter_jax_trainer.jobdir.failure import Failure, summary
from jupyter_jax_trainer.jobdir.state import new_rank
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.messages import session as say
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.states import State

VARIABLE = {
    "kind": "array",
    "type": "float32[3]",
    "size": 12,
    "sharding": None,
    "device_size": 12,
    "token": None,
    "deleted": False,
}
SAVED: session.Saved = {
    "time": 1_700_000_000.0,
    "folder": "session/1",
    "digest": "d",
    "nodes": 2,
    "names": ["w"],
    "left_out": ["text"],
    "size": 12,
}


class Ranks:
    """Two ranks that do what they are told, of which nothing has to be seen."""

    ends, hears = False, True

    def __init__(self, record: Recorder) -> None:
        self.record = record

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def begun(lab):
    """Have a cell begin, and give its directory."""
    _, cells = lab
    cells.start()
    cell = make_job("lab-cell-1", "Running", spec=JobSpec(nodes=2, session="lab"))
    made_cell(cell, "lab")
    assert cells.accept("lab-cell-1", cell.take_lock()) is None
    cells.step()
    return cell


def made(name):
    return made_cell(make_job(name, "Queued", spec=JobSpec(nodes=2, session="lab")), "lab")


def another(cells, name):
    """Send another cell, and give its directory."""
    cell = made(name)
    assert cells.accept(name, cell.take_lock()) is None
    cells.step()
    return cell


@pytest.fixture
def lab(home):
    directory = make_job("lab", "Running", spec=JobSpec(nodes=2, session="lab"))
    return directory, Sequencer(directory, Ranks(Recorder(directory, [new_rank(0), new_rank(1)])))


def bound(names, cell=0):
    variables = {name: {**VARIABLE, "cell": cell} for name in names}
    return {"cell": cell, "bound": [*names], "gone": [], "variables": variables}


def end_first(cells, saved):
    """Have the first cell end well on both ranks, with two variables."""
    for rank in (0, 1):
        cells.take_end(rank, 1, None, {**bound(["w", "text"], 1), "saved": saved}, rank)
        cells.take_check(rank, 1, True)


def test_ranks_that_come_in_the_place_of_others_have_what_those_saved_and_it_is_said(lab):
    directory, cells = lab
    begun(lab)
    end_first(cells, None)
    behind = made_cell(make_job("lab-cell-2", "Queued", spec=JobSpec(nodes=2)), "lab")
    cells.accept("lab-cell-2", behind.take_lock())
    cells.take_saved(SAVED)
    cells.leave("preempted")
    left = files.read_json(behind.state, {})
    assert left["state"] == "Cancelled" and "preempted" in left["reason"]
    known = session.known(directory)
    assert (known["lost"], known["saved"], known["variables"]) == (["text", "w"], SAVED, {})
    for rank in (0, 1):
        cells.take_restored(rank, bound(["w"]), SAVED)
    cells.start()
    known = session.known(directory)
    assert (known["lost"], known["restored"], [*known["variables"]]) == (["text"], SAVED, ["w"])
    told = directory.events.read_text()
    assert say.SAVED_BEFORE_END(names="w") in told and say.DID_NOT_COME_BACK(names="text") in told
    cells.lose()  # ranks started anew in the same pods have nothing
    assert session.known(directory)["restored"] is None


def test_a_cell_whose_pods_are_lost_says_why_and_what_comes_back(lab):
    _, cells = lab
    begun(lab)
    end_first(cells, SAVED)
    cell = another(cells, "lab-cell-2")
    cells.part(None)  # a rank has lost the other before anybody knew of the pod
    cells.lose()
    cells.leave("rank 1 was lost with its node a")
    state = files.read_json(cell.state, {})
    assert (state["state"], state["reason"]) == ("Failed", "rank 1 was lost with its node a")
    when = time.strftime("%H:%M", time.localtime(SAVED["time"]))
    told = state["failure"]["hint"]
    assert "text and w" in told and say.COMES_BACK(names="w", time=when) in told
    assert not cells.ready and cells.accept("lab-cell-3", made("lab-cell-3").take_lock()) is None


def test_a_cell_whose_session_is_lost_says_what_restore_brings_back(lab):
    _, cells = lab
    begun(lab)
    end_first(cells, SAVED)
    cell, behind = another(cells, "lab-cell-2"), another(cells, "lab-cell-3")
    failure = Failure(kind="cluster", message="rank 1 was lost with its node a", hint="Wait.")
    cells._ranks.record.end(State.FAILED, summary(failure), failure)
    cells.finish()
    told = files.read_json(cell.state, {})["failure"]["hint"]
    assert told.startswith(f"Wait. {say.LOST_WITH_SESSION(names='text and w')}")
    when = time.strftime("%H:%M", time.localtime(SAVED["time"]))
    assert say.LAST_SAVE_OF_ENDED(session="lab", names="w", time=when) in told
    assert files.read_json(behind.state, {})["state"] == "Cancelled"


def test_a_cell_for_a_suspended_session_waits_and_says_what_resumes_it(lab):
    _, cells = lab
    begun(lab)
    cells.leave("suspended")
    cells._ranks.record.change(State.SUSPENDED, "its pods are stopped", "hint of a job")
    sent = made_cell(make_job("lab-cell-2", "Queued", spec=JobSpec(nodes=2)), "lab")
    assert cells.accept("lab-cell-2", sent.take_lock()) is None
    state = files.read_json(sent.state, {})
    assert state["state"] == "Queued" and "its pods are stopped" in state["reason"]
    assert "%jaxtrain resume lab" in state["hint"]
    for refused in (cells.restart(), cells.prolong(60)):
        assert "%jaxtrain resume lab" in refused
    cells._ranks.record.change(State.STARTING)
    cells.look()
    state = files.read_json(sent.state, {})
    assert state["state"] == "Queued" and state["hint"] is None
    assert "resume" not in cells.restart()
    cells.start()
    cells.step()
    assert files.read_json(sent.state, {})["state"] == "Running"


def test_ranks_that_can_not_be_heard_are_given_time_to_meet(lab, monkeypatch):
    monkeypatch.setenv("JAXTRAIN_MEET_TIMEOUT", "0.001")
    _, cells = lab
    cell = begun(lab)
    stopped = []
    ranks = cells._ranks
    ranks.stop, ranks.hears = lambda: stopped.append(True), False
    for rank in (0, 1):
        cells.take_end(rank, 1, None, {**bound([], 1), "saved": None}, rank)
    time.sleep(0.01)
    cells.step()
    assert not stopped
    ranks.hears = True
    time.sleep(0.01)
    cells.step()
    assert stopped
    cells.lose()
    cells.restarted(())
    assert files.read_json(cell.state, {})["state"] == "Failed"


ERROR = {
    "type": "ValueError",
    "message": "no",
    "traceback": "ValueError: no",
    "cell_line": 1,
    "secondary": False,
    "hint": "Do it.",
}


def test_a_failed_cell_names_what_it_has_donated_and_what_it_reads_that_was_donated(lab):
    def run(number, error, kept=(), **deleted):
        cell = made_cell(make_job(f"lab-cell-{number}", "Queued", spec=JobSpec(nodes=2)), "lab")
        files.write_json(cell.manifest, {**cell.read_manifest(), "kept": [*kept]})
        cells.accept(cell.path.name, cell.take_lock())
        cells.step()
        said = bound([], number)
        said["variables"] = {
            n: {**VARIABLE, "cell": 1, "deleted": one} for n, one in deleted.items()
        }
        said["bound"] = [*deleted] if number == 1 else []
        for rank in (0, 1):
            cells.take_end(rank, number, error, said, rank)
        for rank in (0, 1):
            cells.take_check(rank, number, True)
        state = files.read_json(cell.state, {})
        return state["failure"] and state["failure"]["hint"], state.get("warnings", [])

    _, cells = lab
    cells.start()
    assert run(1, None, x=False, y=False) == (None, [])
    hint, (warning,) = run(2, ERROR, x=True, y=False)
    assert hint == f"Do it. {warning}" and warning == say.DONATED(names="x")
    hint, warnings = run(3, ERROR, ["x", "y"], x=True, y=False)
    assert hint == f"Do it. {say.READ_DONATED(names='x')}" and warnings == []
    assert run(4, ERROR, ["y"], x=True, y=False) == ("Do it.", [])
    assert run(5, None, ["x"], x=True, y=True) == (None, [])


@pytest.mark.parametrize("slow", [False, True])
def test_ranks_that_meet_in_vain_are_started_anew_soon_and_slow_ones_are_not(
    lab, monkeypatch, slow
):
    monkeypatch.setenv("JAXTRAIN_AGREE_TIMEOUT", "0.1")
    _, cells = lab
    begun(lab)
    stopped = []
    ranks = cells._ranks
    ranks.stop = lambda: stopped.append(True)
    ranks.places = lambda: [{"meets": True}, {"meets": not slow}]
    for rank in (0, 1):
        cells.take_end(rank, 1, None, {**bound([], 1), "saved": None}, rank)
    until = time.monotonic() + (0.5 if slow else 20)
    while not stopped and time.monotonic() < until:
        time.sleep(0.01)
        cells.step()
    assert bool(stopped) != slow
    if slow:  # the other one has met it, and this one can do nothing else
        cells.take_check(1, 1, True)
        until = time.monotonic() + 5
        while not stopped and time.monotonic() < until:
            cells.step()
        assert stopped


def test_what_another_store_has_the_ranks_do_is_followed_and_own_cells_are_given_up(lab):
    directory, cells = lab
    cell = begun(lab)
    behind = made_cell(make_job("lab-cell-2", "Queued", spec=JobSpec(nodes=2)), "lab")
    cells.accept("lab-cell-2", behind.take_lock())
    assert not cells.note_other(1)  # it is an own one
    cells.give_up("taken over")
    states = [files.read_json(one.state, {}) for one in (cell, behind)]
    assert [one["state"] for one in states] == ["Failed", "Cancelled"]
    assert {one["reason"] for one in states} == {"taken over"} and not cells.ready
    assert cells.note_other(5) and cells.note_other(5)
    for rank in (0, 1):
        cells.take_other(rank, bound(["theirs"], 5))
        cells.take_other(rank, bound(["mine"], 1))
    assert [*session.known(directory)["variables"]] == ["theirs"]
    cells.forget(1)
    cells.publish()
    assert session.known(directory)["variables"]["theirs"]["ranks"] == [0]
    assert cells.probe() == 6


def test_what_was_prolonged_stays_so_for_whoever_goes_on(lab):
    directory, cells = lab
    kept = []
    cells._ranks.save = lambda: kept.append(cells.saved())
    cells.start()
    usual = session.known(directory)["idle_ends"]
    assert cells.prolong(7200) is None
    ends = session.known(directory)["idle_ends"]
    assert ends > usual + 5000
    after = Sequencer(directory, cells._ranks)
    after.resume(kept[-1], lambda _: None)
    after.publish()
    assert session.known(directory)["idle_ends"] == pytest.approx(ends, abs=1)
    assert after.idle_left == pytest.approx(7200, abs=60) and after.is_prolonged
    after.prolong(0)
    last = Sequencer(directory, cells._ranks)
    last.resume(after.saved(), lambda _: None)
    last.publish()
    assert session.known(directory)["idle_ends"] is None
    last.start()  # after a cell it is as usual
    assert session.known(directory)["idle_ends"] == pytest.approx(usual, abs=60)
    older = {name: one for name, one in kept[0].items() if name != "allowed"}
    last.resume(older, lambda _: None)  # of a version that did not keep it
    assert not last.is_prolonged
