"""The follower of a session in pods: what it makes of messages that come late, or not at all."""

from __future__ import annotations

import contextlib
import os
import threading

import pytest
from made_jobs import made_cell, made_elsewhere, make_job

from jupyter_jax_trainer.backends.kubernetes.follow.errands import Restart, Tell
from jupyter_jax_trainer.backends.kubernetes.follow.ownership import Ownership
from jupyter_jax_trainer.backends.kubernetes.follow.ranks import Ranks
from jupyter_jax_trainer.backends.kubernetes.follow.session import Session
from jupyter_jax_trainer.backends.kubernetes.logs import messages
from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.state import new_rank
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.states import State


class Nobody:
    """A cluster that is never asked, and a place where nothing can be reached."""

    target = None


class Followed:
    """A session of two pods, whose logs are what a test says, and which nobody can tell anything."""

    def __init__(self, *, nodes: int = 2, elsewhere: bool = False) -> None:
        self.nodes, self.session = nodes, None
        spec = JobSpec(nodes=nodes, session="lab")
        ranks = [new_rank(number) for number in range(nodes)]
        self.directory = make_job("lab", "Running", spec=spec, ranks=ranks)
        if elsewhere:
            made_elsewhere(self.directory)
        self.follow()

    def follow(self) -> None:
        """Begin to follow it, or go on as the process after one that was killed."""
        for cell in self.session._cells._all() if self.session else ():
            with contextlib.suppress(OSError):  # it has ended
                os.close(cell._lock)
        manifest, guard = self.directory.read_manifest(), threading.RLock()
        ranks = Ranks(self.directory, self.nodes, guard, lambda _: None)
        self.owner = Ownership(self.directory, manifest, lambda *_: None)
        self.session = Session(
            self.directory, manifest, Nobody(), self.owner, ranks, guard, lambda: Nobody()
        )

    def say(self, kind: str, times: int, rank: int | None = None, **more: object) -> None:
        """Have ranks say something, as their processes of that time."""
        for number in range(self.nodes) if rank is None else (rank,):
            found = {"kind": kind, "frame": [f"{times}-{number}", 1], **more}
            self.session.take(number, messages.read(found), 0)

    def begin(self, times: int) -> None:
        """Have all ranks begin."""
        self.say("hello", times, channel=None)
        self.say("running", times)

    def cell(self, name: str) -> None:
        """Send a cell."""
        made = make_job(name, "Queued", spec=JobSpec(nodes=self.nodes, session="lab"))
        made.bundle.write_bytes(b"code")
        made_cell(made, "lab")
        files.write_json(made.manifest, {**made.read_manifest(), "digest": "d"})
        assert self.session.accept(name, made.take_lock()) is None

    def state(self, name: str) -> str:
        return str(files.read_json(self.directory.path.parent / name / "state.json", {})["state"])

    def todo(self, kind: type) -> list:
        """Return what it has not been able to do."""
        return [one for one in self.session._errands._todo if isinstance(one, kind)]


@pytest.fixture
def lab(home):
    return Followed()


def test_ranks_that_begin_before_their_restart_is_known_to_be_done_get_the_next_cell(lab):
    lab.begin(1)
    assert lab.session.restart() is None
    lab.begin(2)  # the answer to the restart was lost, and is asked for again
    (errand,) = lab.todo(Restart)
    errand.on_done()
    lab.cell("lab-cell-1")
    assert lab.state("lab-cell-1") == "Running"


def test_a_follower_that_is_killed_as_it_begins_a_restart_leaves_it_to_the_next(lab, monkeypatch):
    lab.begin(1)
    with monkeypatch.context() as patch:
        patch.setattr(lab.session._cells, "_hand_back", lambda _: lab.session.save() or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            lab.session.restart()
    lab.follow()
    (errand,) = lab.todo(Restart)
    lab.begin(2)
    errand.on_done()
    lab.cell("lab-cell-1")
    assert lab.state("lab-cell-1") == "Running"


def test_a_cell_that_no_rank_has_heard_of_is_taken_back_and_the_ranks_stay(lab):
    lab.begin(1)
    lab.cell("lab-cell-1")
    lab.cell("lab-cell-2")
    assert lab.state("lab-cell-1") == "Running"
    (lab.directory.path.parent / "lab-cell-1" / "cancel").touch()
    lab.session.look()
    assert [lab.state(f"lab-cell-{number}") for number in (1, 2)] == ["Cancelled"] * 2
    assert [one.dropped for one in lab.todo(Tell)] == [True]
    assert lab.session._cells.ready and lab.session._cells.restarts == 0
    lab.cell("lab-cell-3")
    lab.todo(Tell)[0].on_no_room(False)  # as it was being sent
    assert lab.state("lab-cell-3") == "Running"
    lab.todo(Tell)[1].on_no_room(False)
    assert lab.state("lab-cell-3") == "Failed"


def test_a_cell_that_ranks_may_have_heard_of_is_interrupted(lab):
    lab.begin(1)
    lab.cell("lab-cell-1")
    lab.follow()  # the one before may have told them
    (lab.directory.path.parent / "lab-cell-1" / "cancel").touch()
    lab.session.look()
    assert lab.state("lab-cell-1") == "Running"
    assert [one.told["kind"] for one in lab.todo(Tell)] == ["cell", "hold"]


def test_a_cell_that_has_ended_is_told_to_nobody_any_more(home):
    lab = Followed(nodes=1)
    lab.begin(1)
    lab.cell("lab-cell-1")
    lab.follow()
    lab.say("began", 1, cell=1)
    lab.say("ended", 1, cell=1, error=None, bound=[], gone=[], variables={})
    assert lab.state("lab-cell-1") == "Succeeded"
    (errand,) = lab.todo(Tell)
    assert not (lab.directory.path.parent / "lab-cell-1" / "bundle.pyz").exists()
    errand.run(None, None)  # nothing keeps from it


def test_what_waited_for_a_cell_whose_failure_was_not_noted_any_more_is_not_run(lab):
    lab.begin(1)
    lab.cell("lab-cell-1")
    lab.cell("lab-cell-2")
    cell = lab.session.running_cell
    cell.end(State.FAILED, "it broke")
    lab.follow()
    lab.session.look()
    assert lab.state("lab-cell-2") == "Cancelled"


def test_a_store_that_has_taken_over_can_restart_ranks_that_do_not_answer(home):
    lab = Followed(elsewhere=True)
    assert lab.session.restart() is not None
    lab.owner._save(1000, None)
    lab.begin(1)
    lab.session.look()
    assert [one.told["kind"] for one in lab.todo(Tell)] == ["check"]
    assert lab.session.restart() is None
    (errand,) = lab.todo(Restart)
    lab.begin(2)
    errand.on_done()
    lab.cell("lab-cell-1")
    assert lab.state("lab-cell-1") == "Running"
