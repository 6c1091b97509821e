"""Follow a job: in a notebook as a card, its log and its displays; elsewhere as plain lines."""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING

from jupyter_jax_trainer.errors import JobDetached, UsageError
from jupyter_jax_trainer.jobdir.describe import renamed
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Plan
from jupyter_jax_trainer.jobdir.state import JobState, announced
from jupyter_jax_trainer.jobdir.waiting import Waiting
from jupyter_jax_trainer.messages import views as say
from jupyter_jax_trainer.options.amounts import ranks_in
from jupyter_jax_trainer.states import ENDED, Phase, Unstarted
from jupyter_jax_trainer.text import plain, ranks_text, size
from jupyter_jax_trainer.views.card import Facts
from jupyter_jax_trainer.views.frontend import in_notebook, running_shell
from jupyter_jax_trainer.views.grouped import source_of
from jupyter_jax_trainer.views.source import View

if TYPE_CHECKING:
    from jupyter_jax_trainer.capture import Capture
    from jupyter_jax_trainer.jobdir.job import Job
    from jupyter_jax_trainer.options.spec import JobSpec
    from jupyter_jax_trainer.views.interrupts import Interrupts

_POLL = 0.05  # seconds between looks at the job's directory
_LONG = 10.0  # seconds after which it is said that some ranks have finished
_COUNTDOWN = 3.0  # seconds after an interrupt in which a second one cancels


class Stragglers:
    """Notices ranks that go on long after others have finished.

    Parameters
    ----------
    chosen
        The ranks that run the cell, as ``--rank`` has them; None for all.
    """

    def __init__(self, chosen: str | None = None) -> None:
        self._chosen = chosen
        self._since: float | None = None

    def note(self, snapshot: JobState) -> str | None:
        """Name both, ten seconds after the first rank has finished."""
        done = [rank["rank"] for rank in snapshot["ranks"] if rank["state"] == Phase.FINISHED]
        others = [rank["rank"] for rank in snapshot["ranks"] if rank["state"] == Phase.RUNNING]
        if not done or not others:
            self._since = None
            return None
        if self._since is None:
            self._since = time.monotonic()
        if time.monotonic() - self._since < _LONG:
            return None
        if self._chosen is not None:
            ran = ranks_in(self._chosen, len(snapshot["ranks"]))
            if not set(ran).intersection(done):
                return say.SOME_LEFT_OUT(running=ranks_text(others), others=ranks_text(done))
        return say.SOME_FINISHED(finished=ranks_text(done), running=ranks_text(others))


class _Stop:
    """Stops a cell of a session when it is interrupted, and restarts the ranks the second time.

    Parameters
    ----------
    job
        That of the cell.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._done = 0  # interrupts that were acted upon

    def note(self, interrupts: int) -> str:
        """Say what so many interrupts lead to."""
        return say.INTERRUPTING() if interrupts == 1 or not self._runs else say.RESTARTING()

    def act(self, interrupts: int) -> None:
        """Do what so many interrupts are for, once."""
        if interrupts and not self._done:
            self._job.begin_cancel()
            self._done = 1
        elif interrupts > 1 and self._done == 1 and self._runs:
            self._done = 2
            session = JobDir(
                self._job.directory.with_name(self._job.manifest["cell_of"]["session"])
            )
            with contextlib.suppress(UsageError):  # they are restarted already
                self._job.backend.restart_session(session)

    @property
    def _runs(self) -> bool:
        return self._job.started is not None and self._job.active


def open_view() -> View:
    """Make a view for where the output goes."""
    if in_notebook():
        from jupyter_jax_trainer.views.notebook import NotebookView

        return NotebookView()
    from jupyter_jax_trainer.views.terminal import TerminalView

    return TerminalView()


def announce(view: View, spec: JobSpec, plan: Plan, capture: Capture) -> None:
    """Show what will be sent, before it is."""
    facts, total = Facts.before(spec, plan, capture), size(capture.total)
    if spec.detach:
        things = facts.sent and say.SENDING_THINGS(size=total, things=facts.sent)
        print(plain(things or say.SENDING_SIZE(size=total)))
    else:
        view.begin(facts, announced(Unstarted.SENDING, say.TOTAL_SIZE(size=total)))


def not_started(view: View, spec: JobSpec) -> None:
    """Show that nothing came of what was announced."""
    if not spec.detach:
        view.close(announced(Unstarted.NOT_STARTED), None)


def follow(
    job: Job,
    interrupts: Interrupts | None = None,
    view: View | None = None,
    *,
    stops: bool = False,
) -> None:
    """Show a job until it ends.

    Parameters
    ----------
    job
        The job.
    interrupts
        Holds the interrupts: one starts a countdown, after which the job is left to itself; a
        second one within it cancels the job. Without it an interrupt is raised at once.
    view
        The view that has announced the job, if there is one.
    stops
        The job is a cell of a session: an interrupt stops it on all ranks, as one of a notebook's
        own cell does; a second one restarts them.

    Raises
    ------
    JobFailed
        The job failed or was cancelled.
    JobDetached
        The wait was interrupted; the job goes on.
    """
    view = view or open_view()
    source, stragglers = source_of(job), Stragglers(job.spec.rank)
    stop = _Stop(job) if stops else None
    snapshot, began = job.snapshot(), time.monotonic()
    with Waiting(JobDir(job.directory)) as waiting:
        view.begin(Facts.of(job), snapshot, job)
        while True:
            source.pump(view, snapshot)
            if snapshot["state"] in ENDED:
                view.close(snapshot, None)
                break
            times = list(interrupts.times) if interrupts else []  # more may come meanwhile
            # An interrupt during the submission counts from here on: nothing could show it before.
            pressed = max(times[0], began) if times else math.inf
            left = pressed + _COUNTDOWN - time.monotonic()
            note: str | None = None
            if stop is not None and times:
                note = stop.note(len(times))
            elif len(times) > 1:
                note = say.CANCELLING()
            elif left <= 0 or waiting.over():
                view.close(snapshot, say.LEFT_RUNNING())
                raise detached(job)
            elif times:
                note = say.INTERRUPT_AGAIN(seconds=math.ceil(left))
            else:
                note = stragglers.note(snapshot)
            view.status(snapshot, note)
            waiting.say(note)
            if stop is not None:
                stop.act(len(times))
            elif len(times) > 1:
                job.cancel()
            time.sleep(_POLL)
            snapshot = job.snapshot()
    job.raise_for_state()


def detached(job: Job) -> JobDetached:
    """Make the error that ends a cell whose job goes on."""
    return JobDetached(say.DETACHED(name=job.name))


def ended_meanwhile(job: Job) -> JobDetached:
    """Make the error for a job that ended between an interrupt and the end of its cell."""
    return JobDetached(say.ENDED_MEANWHILE(name=job.name))


def announce_detached(job: Job) -> None:
    """Say how to come back to a job that was started with ``--detach``."""
    if in_notebook():
        from jupyter_jax_trainer.views.bundle import show

        show(job)
    if note := renamed(job.spec.name, job.name):
        print(plain(note))
    command = "%jaxtrain" if running_shell() else "jaxtrain"
    print(say.STARTED(name=job.name, command=command))
