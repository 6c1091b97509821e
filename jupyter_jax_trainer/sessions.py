"""Sessions in Python: run functions on ranks that stay, and look at their variables."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from jupyter_jax_trainer import api
from jupyter_jax_trainer.datatypes import Namespace
from jupyter_jax_trainer.errors import JobDirError, UsageError
from jupyter_jax_trainer.jobdir import layout
from jupyter_jax_trainer.jobdir import session as records
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.session import Saved, SessionRecord, Variable
from jupyter_jax_trainer.messages import api as say
from jupyter_jax_trainer.options import amounts
from jupyter_jax_trainer.options.spec import spec_from_options
from jupyter_jax_trainer.trust import policy

_SAVING = "jupyter_jax_trainer.worker.saving"


def session(name: str, **options: Any) -> Session:
    """Return a session, which may be there already; else its first function or cell starts it.

    Parameters
    ----------
    name
        Its name.
    **options
        The options of ``%%jaxtrain`` as keywords, for the start.

    Returns
    -------
    Session
        As a context manager, it ends the session at the end of the block.

    Examples
    --------
    >>> with session("lab", nodes=2) as lab:    # doctest: +SKIP
    ...     loss = lab.run(fit, 0.1).result()
    """
    spec_from_options(session=name, **options)
    return Session(name, options)


def live() -> list[Job]:
    """List the jobs of all sessions that have not ended, newest first."""
    found = [
        one
        for one in api.jobs()
        if JobDir(one.directory).session.exists() and one.active and policy.of(one).complete
    ]
    return [one for one in found if (live := api.live_session(one.name)) and live.name == one.name]


def cells_of(job: Job) -> list[Job]:
    """List the cells of a session, newest first."""
    return [one for one in api.jobs() if records.session_of(JobDir(one.directory)) == job.uid]


class Session:
    """A session: ranks that stay, on which functions and cells run one after another.

    Create one with ``session()``.
    """

    def __init__(self, name: str, options: Namespace) -> None:
        self.name = name
        self._options = options

    def __repr__(self) -> str:
        job = api.live_session(self.name)
        return f"<Session {self.name}: {job.state if job else say.NO_SESSION_STATE()}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if api.live_session(self.name) is not None:
            self.end()

    @property
    def job(self) -> Job:
        """The job that holds the ranks.

        Raises
        ------
        UsageError
            There is no session of this name, it has ended, or somebody else's is not trusted.
        """
        found = api.live_session(self.name)
        if found is None:
            raise UsageError(say.NO_SESSION(session=self.name))
        policy.require_session(found)
        return found

    def run(
        self,
        func: Callable[..., Any],
        *args: Any,
        func_args: Namespace | None = None,
        **options: Any,
    ) -> Job:
        """Run a function on the ranks, as ``train()`` does; the first call starts the session.

        Parameters
        ----------
        func
            The function; what it uses that the session has, it finds there.
        *args
            Its positional arguments.
        func_args
            Its keyword arguments.
        **options
            Options of the cell as keywords, such as ``name``.

        Returns
        -------
        Job
            The job of this call; ``.result()`` waits for it and returns the value on rank 0.

        Raises
        ------
        UsageError, CaptureError, BackendError
            The function can't be run; nothing was.
        """
        given = {**self._options, **options, "session": self.name}
        return api.train(func, *args, func_args=func_args, **given)

    def vars(self) -> dict[str, Variable]:
        """Return the session's variables, as rank 0 had them after the last cell.

        Raises
        ------
        UsageError
            There is no session of this name, or it has ended.
        """
        return dict(sorted(self._record()["variables"].items()))

    def get(self, name: str) -> Any:
        """Bring a variable back; an array that is spread over the ranks is gathered.

        It waits for the cells before it.

        Raises
        ------
        UsageError
            There is no session of this name, or it has no such variable.
        JobFailed, ResultError
            The variable can't be brought back.
        """
        from jupyter_jax_trainer.capture import capture_cell

        _ = self.job  # a session is not started for a variable that it can't have
        spec = api.in_session(spec_from_options(session=self.name, out=[name]))
        submission, plan = api.prepare(spec)
        capture = capture_cell("", {}, out=spec.out, ledger=api.ledger(submission))
        return api.submit(spec, submission, plan, capture).result(name)

    def save(self) -> Saved:
        """Save the variables that are arrays, or trees of arrays, into `checkpoint_dir()`.

        It is a cell of the session: it waits for those before it, and has a job of its own.

        Returns
        -------
        Saved
            What was saved, and what was not.

        Raises
        ------
        UsageError
            There is no session of this name, or it has ended.
        JobFailed
            They can't be saved.
        """
        self.begin_save().wait()
        saved = self._record().get("saved")
        assert saved is not None, "it has just been saved"
        return saved

    def restore(self) -> Saved:
        """Bring back what was saved last, by this session or by an earlier one of its name.

        Returns
        -------
        Saved
            What came back, and as of when.

        Raises
        ------
        UsageError
            There is no session of this name, or nothing was saved.
        JobFailed
            It can't be brought back.
        """
        saved, job = self._last_save()
        self._begin_restore(saved, job).wait()
        return saved

    def begin_save(self) -> Job:
        """Begin to save, as `save` does; return the cell that does it."""
        return self._run_line("save(globals())")

    def begin_restore(self) -> Job:
        """Begin to restore, as `restore` does; return the cell that does it."""
        return self._begin_restore(*self._last_save())

    def _begin_restore(self, saved: Saved, job: Job) -> Job:
        nodes = self.job.spec.nodes
        if saved["nodes"] != nodes:
            raise UsageError(say.SAVED_BY_OTHERS(nodes=saved["nodes"], now=nodes))
        given = [saved["folder"], saved["digest"], None if job.uid == self.job.uid else job.name]
        return self._run_line(f"restore(globals(), {', '.join(map(repr, given))})", saved["names"])

    def _last_save(self) -> tuple[Saved, Job]:
        own = self.job
        for job in [own, *api.jobs()]:
            with contextlib.suppress(JobDirError):  # a damaged one
                if not (job.is_session and job.spec.session == self.name and policy.is_mine(job)):
                    continue
                if saved := records.known(JobDir(job.directory)).get("saved"):
                    return saved, job
        raise UsageError(say.NOTHING_SAVED(session=self.name))

    def _run_line(self, call: str, binds: Iterable[str] = ()) -> Job:
        """Run a function of the worker's as a cell; it leaves no names behind."""
        from jupyter_jax_trainer.capture import Capture

        _ = self.job
        spec = api.in_session(spec_from_options(session=self.name))
        submission, plan = api.prepare(spec)
        function, _, arguments = call.partition("(")
        code = f"__import__({_SAVING!r}, fromlist=['x']).{function}({arguments};\n"
        ledger = api.ledger(submission)
        if ledger is not None:  # what it brings back counts as later than all cells so far
            ledger.note_assignments(vars(sys.modules["__main__"]))
        capture = Capture(code, binds=list(binds), ledger=ledger)
        return api.submit(spec, submission, plan, capture)

    def interrupt(self) -> None:
        """Stop the cell that runs; if its ranks don't stop alike, they are restarted.

        So are they at once if the cell has been told to stop before, and still runs.

        Raises
        ------
        UsageError
            No cell runs.
        """
        running = self._record()["running"]
        if running is None:
            raise UsageError(say.NOTHING_RUNS(session=self.name))
        directory = layout.find(running)
        if directory.cancel.exists():
            self.restart()
        else:
            Job(directory).cancel()

    def restart(self) -> None:
        """Restart all ranks, without their variables; a cell that runs fails.

        Raises
        ------
        UsageError
            There is no session of this name, or its ranks are about to start.
        """
        job = self.job
        job.backend.restart_session(JobDir(job.directory))

    def prolong(self, time: float | str | None = None) -> None:
        """Let the session be idle for longer, from now.

        Parameters
        ----------
        time
            For how long: seconds, a span such as ``"2h"``, or ``"never"`` to end; None for as long
            as its limit is.

        Raises
        ------
        UsageError
            There is no session of this name, or that is more than is allowed.
        """
        job = self.job
        seconds = None if time is None else amounts.idle("prolong", time)
        job.backend.prolong_session(JobDir(job.directory), seconds)

    def end(self) -> None:
        """End the session, and the cell that runs."""
        self.job.cancel()

    def _record(self) -> SessionRecord:
        return records.known(JobDir(self.job.directory))
