"""What the follower says, from job directories as they are on disk."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import made_jobs
import pytest
from test_commands import make_job

from jupyter_jax_trainer.errors import JobFailed
from jupyter_jax_trainer.jobdir.failure import CANCELLED
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.state import new_rank
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.messages import views as say
from jupyter_jax_trainer.messages import worker
from jupyter_jax_trainer.views import card, notebook
from jupyter_jax_trainer.views.bundle import JOB, whole
from jupyter_jax_trainer.views.card import Facts
from jupyter_jax_trainer.views.follow import Stragglers, follow
from jupyter_jax_trainer.views.source import Source

TRACEBACK = "Traceback (most recent call last):\n  Cell, line 2\nValueError: grün"
STOPPED = worker.STOPPED(rank=1, summary="ValueError: grün")


class Shown:
    """A view that keeps what it is given."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def log(self, lines: list[bytes], unfinished: bytes) -> None:
        self.lines += lines

    def show(self, *display: Any) -> None:
        self.lines.append(repr(display).encode())


def failed(tail: str) -> tuple[Job, dict[str, Any]]:
    error = {"type": "ValueError", "message": "grün", "traceback": TRACEBACK}
    failure = {"kind": "error", "message": "ValueError: grün", "rank": 1, "error": error}
    directory = make_job("a", "Failed", failure=failure)
    directory.log(0).write_text(f"one\n{TRACEBACK}\ntwo\n{tail}", encoding="utf-8")
    job = Job(directory)
    return job, job.snapshot()


@pytest.mark.parametrize(
    ("tail", "left_out"),
    [
        (f"{TRACEBACK}\n", True),
        (f"{TRACEBACK}\n[Gloo] Rank 0 is connected to 1 peer ranks\n", True),
        (f"{STOPPED}\n", True),
        (f"{STOPPED}\nthe end\n", False),
        (f"{TRACEBACK}\nthe end\n", False),
        (f"not it {TRACEBACK}\n", False),
    ],
)
def test_the_failing_traceback_is_left_out_when_it_ends_the_log(home, tail, left_out):
    job, snapshot = failed(tail)
    view = Shown()
    Source(job).pump(view, snapshot)
    first = [b"one", *TRACEBACK.encode().splitlines(), b"two"]
    assert view.lines[:5] == first
    assert (view.lines[5:] == []) == left_out, view.lines


def test_a_log_may_begin_with_another_traceback_or_be_nothing_else(home):
    job, snapshot = failed("")
    log = JobDir(job.directory).log(0)
    for before in ("", f"{TRACEBACK}\n", f"Traceback{TRACEBACK}\n"):
        log.write_text(f"{before}{TRACEBACK}\n", encoding="utf-8")
        view = Shown()
        Source(job).pump(view, snapshot)
        assert b"\n".join(view.lines).decode() == before.rstrip("\n")


def test_another_traceback_stays(home):
    job, snapshot = failed(f"{TRACEBACK}\n")
    snapshot["failure"]["error"]["traceback"] = TRACEBACK.replace("line 2", "line 3")
    view = Shown()
    Source(job).pump(view, snapshot)
    assert len(view.lines) == 8


def test_a_traceback_that_may_be_the_last_word_waits_a_moment(home, monkeypatch):
    directory = make_job("a", "Running")
    directory.log(0).write_text(f"one\n{TRACEBACK}\n", encoding="utf-8")
    Recorder(directory, [new_rank(0)]).index_logs()
    job, view, now = Job(directory), Shown(), [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    source, running = Source(job), {"state": "Running", "ranks": [{"rank": 0, "state": "Running"}]}
    source.pump(view, running)
    now[0] += 0.2
    source.pump(view, running)
    assert view.lines == [b"one"]
    now[0] += 2
    source.pump(view, {"state": "Running", "ranks": [{"rank": 0, "state": "Failed"}]})
    assert view.lines == [b"one"]  # it is the last word
    source.pump(view, running)
    assert len(view.lines) == 4  # it was caught, and printed


def test_ranks_that_have_finished_long_ago_are_named(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stragglers = Stragglers()

    def note(*states: str) -> str | None:
        ranks = [{"rank": rank, "state": state} for rank, state in enumerate(states)]
        return stragglers.note({"state": "Running", "ranks": ranks})

    assert note("Running", "Running", "Running") is None
    assert note("Running", "Finished", "Running") is None
    now[0] = 10.5
    one = say.SOME_FINISHED(finished="rank 1", running="ranks 0 and 2")
    two = say.SOME_FINISHED(finished="ranks 0 and 1", running="rank 2")
    assert note("Running", "Finished", "Running") == one
    assert note("Finished", "Finished", "Running") == two
    assert note("Finished", "Finished", "Finished") is None
    assert note("Running", "Failed", "Running") is None


def test_reasons_are_cut_and_cancelled_is_said_once(home):
    job = Job(make_job("a", plan={}))
    facts = Facts(name="a", created=job.created, shape="1 node", sent="")
    snapshot = job.snapshot()
    for state in ("Failed", "Queued"):
        giant = {**snapshot, "state": state, "reason": "x" * 1_000_000}
        for text in (card.text(facts, giant), card.render(facts, giant), card.line(facts, giant)):
            assert len(text) < 3_000
        assert "…" in card.text(facts, giant)
    cancelled = {**snapshot, "state": "Cancelled", "reason": CANCELLED}
    assert card.line(facts, cancelled).endswith(f"· {say.BY_USER()}")
    assert card.text(facts, cancelled).lower().count("cancelled") == 1
    assert "cancelled" not in card.render(facts, cancelled)


def test_damaged_display_records_are_no_error(home):
    directory = JobDir(make_job("a").path)
    directory.log(0).write_text("one\n")
    directory.displays.write_text(
        '{"log_offset": 4, "data": {}, "metadata": {}, "id": ["x"], "update": 3}\n'
        '{"log_offset": 4, "data": {}, "metadata": {}}\n'
    )
    view = Shown()
    Source(Job(directory)).pump(view, {"state": "Succeeded", "ranks": [], "failure": None})
    assert len(view.lines) == 3


class _EndError(Exception):
    pass


def test_a_cancellation_is_said_before_it_is_done_whenever_the_interrupt_comes(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path))
    directory = made_jobs.make_job("one", "Running")
    interrupts = SimpleNamespace(times=[time.monotonic()])
    said: list[Any] = []

    class Pressed(Shown):
        def begin(self, *_: Any) -> None:
            pass

        def status(self, snapshot: dict[str, Any], note: str | None) -> None:
            said.append(note)
            interrupts.times.append(time.monotonic())  # while the countdown is being shown

    def cancel(self: Job) -> None:
        raise _EndError

    monkeypatch.setattr(Job, "cancel", cancel)
    with made_jobs.held(directory), pytest.raises(_EndError):
        follow(Job(directory), interrupts, Pressed())
    assert [note.id for note in said] == ["views.interrupt-again", "views.cancelling"]


class Displayed:
    """Takes what a notebook's view displays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[dict[str, Any]] = []
        monkeypatch.setattr(notebook, "display", self._display)

    def _display(self, data: dict[str, Any], **_: Any) -> Displayed:
        self.update(data)
        return self

    def update(self, data: dict[str, Any], **_: Any) -> None:
        self.shown.append(data)


def test_a_failure_is_said_by_the_error_alone(home, monkeypatch, capsys):
    why = "rank 1 failed first: ValueError: boom"
    error = {"type": "ValueError", "message": "boom", "traceback": TRACEBACK}
    failure = {"kind": "error", "message": "ValueError: boom", "rank": 1, "error": error}
    job = Job(make_job("a", "Failed", failure=failure, reason=why, plan={}))
    displayed = Displayed(monkeypatch)
    with pytest.raises(JobFailed) as raised:
        follow(job, view=notebook.NotebookView())
    card = displayed.shown[-1]
    assert "Failed" in card["text/plain"] and "Failed" in card["text/html"]
    everything = f"{card['text/plain']}{card['text/html']}{capsys.readouterr()}"
    assert "boom" in str(raised.value) and "boom" not in everything
    assert "boom" in whole(job)["text/html"]  # no error follows where a job is only displayed


def test_a_page_is_told_that_the_cell_prints_the_log_and_when_it_no_longer_does(home, monkeypatch):
    job, displayed = Job(make_job("a", "Running", plan={})), Displayed(monkeypatch)
    monkeypatch.setattr(notebook, "available", lambda: False)
    view, snapshot = notebook.NotebookView(), {**job.snapshot(), "state": "Running"}
    view.begin(Facts.of(job), snapshot, job)
    first, second = (data[JOB] for data in displayed.shown)
    assert first["key"] is None and second["key"] == "a"
    assert second["printing"] and "printed" not in second
    view.close(snapshot, "detached")
    assert not {"printing", "printed"} & displayed.shown[-1][JOB].keys()
    view.close({**snapshot, "state": "Succeeded"}, None)
    assert displayed.shown[-1][JOB]["printed"] and "printing" not in displayed.shown[-1][JOB]


@pytest.mark.parametrize("loaded", [True, False])
def test_a_shell_shows_the_view_of_a_job(home, loaded):
    program = (
        "from IPython.core.interactiveshell import InteractiveShell; "
        "shell = InteractiveShell.instance(); "
        + ("shell.run_line_magic('load_ext', 'jupyter_jax_trainer'); " if loaded else "")
        + "import jupyter_jax_trainer, sys; "
        "assert 'jupyter_jax_trainer.views.bundle' not in sys.modules; "
        "data, _ = shell.display_formatter.format(jupyter_jax_trainer.job('a')); "
        "print(*sorted(data))"
    )
    make_job("a", plan={})
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == [JOB, "text/html", "text/plain"], done.stderr
