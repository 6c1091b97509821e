"""A job, seen through its directory."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_jax_trainer import byname, machine, timeouts
from jupyter_jax_trainer.backends import registry
from jupyter_jax_trainer.errors import BackendError, JobDirError, UsageError
from jupyter_jax_trainer.jobdir import retention
from jupyter_jax_trainer.jobdir.failure import CANCELLED, Failure, failed
from jupyter_jax_trainer.jobdir.files import LineReader, Stamp, stamp_of
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest, SentRecord, machine_of
from jupyter_jax_trainer.jobdir.parts import Compiled, Initializer, Progress, Rank
from jupyter_jax_trainer.jobdir.records import Event, Metric, Resource
from jupyter_jax_trainer.jobdir.resources import home_of
from jupyter_jax_trainer.jobdir.state import (
    JobState,
    NotFinite,
    ProfileState,
    ResultInfo,
    directory_deleted,
)
from jupyter_jax_trainer.logs.reader import LogLine, MergedReader
from jupyter_jax_trainer.messages import channel
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.messages import profiles as of_profiles
from jupyter_jax_trainer.options import checks
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.states import ENDED, State

if TYPE_CHECKING:
    from jupyter_jax_trainer.backends.base import Backend
    from jupyter_jax_trainer.channel.protocol import ProfileName, RankPlace
    from jupyter_jax_trainer.profiles.profile import Profile

_WIDGET = "jupyter_jax_trainer.widget:of_job"
_POLL = 0.05  # seconds between looks at the directory
_FRESH = 100_000_000  # nanoseconds in which a file may be written twice with the same stamp


class Job:
    """A job, active or ended, of this kernel or any other.

    Attributes are read from the job's directory on each access, so they are always current.

    Parameters
    ----------
    directory
        The job's directory.
    """

    def __init__(self, directory: JobDir) -> None:
        self._dir = directory
        self._known: tuple[Stamp, JobState] | None = None
        self.name = directory.path.name

    def __repr__(self) -> str:
        try:
            return f"<Job {self.name}: {self.state}>"
        except JobDirError:
            return f"<Job {self.name}: damaged>"

    def widget(self) -> Any:
        """Return a live view as a widget, for front ends such as marimo.

        Returns
        -------
        anywidget.AnyWidget
            The state, progress, last log lines and buttons.
        """
        return byname.load(_WIDGET)(self)

    # -- what it is --------------------------------------------------------------------------

    @property
    def directory(self) -> Path:
        """The job's directory."""
        return self._dir.path

    @cached_property
    def manifest(self) -> Manifest:
        """The request (see docs/reference/job-directory.md)."""
        return self._dir.read_manifest()

    @property
    def backend(self) -> Backend:
        """What runs it.

        Raises
        ------
        JobDirError
            This version does not know it.
        """
        try:
            name = str(self.manifest.get("backend", registry.DEFAULT))
        except JobDirError:  # damaged: what can be known of it, this machine knows
            name = registry.DEFAULT
        return registry.get(name)

    @property
    def uid(self) -> str:
        """A random id; names can be used again after a job is deleted."""
        return str(self.manifest["uid"])

    @property
    def created(self) -> float:
        """When it was submitted, in seconds since the epoch."""
        return float(self.manifest["created"])

    @property
    def spec(self) -> JobSpec:
        """The options."""
        return JobSpec.from_json(self.manifest["spec"])

    @property
    def is_session(self) -> bool:
        """Whether it is a session: it holds the ranks on which cells run."""
        manifest = self.manifest
        return manifest["spec"].get("session") is not None and "cell_of" not in manifest

    @property
    def sent(self) -> list[SentRecord]:
        """What was sent: a list of ``{name, kind, type, size}``."""
        return list(self.manifest["sent"])

    @property
    def code(self) -> str:
        """The code of the cell."""
        try:
            return self._dir.cell.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise JobDirError(
                say.CODE_UNREADABLE(path=self._dir.cell, error=error.strerror)
            ) from None

    # -- how it is ---------------------------------------------------------------------------

    def _state(self) -> JobState:
        """Read the state; ask the backend if no process is left to write it."""
        if self._dir.deleted:
            return directory_deleted()
        state = self._read()
        if state is not None and (state["state"] in ENDED or self._dir.is_live()):
            return state
        state = self._read()  # its end is written just before the lock is released
        if state is not None and state["state"] in ENDED:
            return state
        return self.backend.state(self._dir, state)

    def _read(self) -> JobState | None:
        """Read the state, unless its file is as it was: a cell that waits looks all the time."""
        stamp = stamp_of(self._dir.state)
        if stamp is None or self._known is None or self._known[0] != stamp:
            self._known = None
            state = self._dir.read_state()
            if stamp is None or state is None or time.time_ns() - stamp.written < _FRESH:
                return state
            self._known = stamp, state
        return self._known[1]

    def _is_elsewhere(self) -> bool:
        """Return whether another machine runs it; locks don't reach that far."""
        try:
            return machine.runs_elsewhere(machine_of(self.manifest), self._dir.lock)
        except JobDirError:
            return False

    @property
    def state(self) -> State:
        """The state, such as ``Running``."""
        return self._state()["state"]

    @property
    def reason(self) -> str | None:
        """Why it waits, or how it ended, as a sentence."""
        return self._state()["reason"]

    @property
    def hint(self) -> str | None:
        """What to do about it."""
        return self._state()["hint"]

    @property
    def active(self) -> bool:
        """Whether it has not ended yet."""
        return self.state not in ENDED

    @property
    def history(self) -> list[tuple[State, float]]:
        """The states so far, each with the time it began."""
        return [(entry["state"], entry["time"]) for entry in self._state()["history"]]

    @property
    def started(self) -> float | None:
        """When its code began to run, in seconds since the epoch."""
        return next((at for state, at in self.history if state == State.RUNNING), None)

    @property
    def ended(self) -> float | None:
        """When it ended, in seconds since the epoch."""
        return next((at for state, at in self.history if state in ENDED), None)

    @property
    def elapsed(self) -> float:
        """Seconds from its submission to now, or to its end."""
        return (self.ended or time.time()) - self.created

    @property
    def ranks(self) -> list[Rank]:
        """Its processes."""
        return [Rank.from_json(entry) for entry in self._state()["ranks"]]

    @property
    def initializers(self) -> list[Initializer]:
        """The containers that fetch its data set and model (``--dataset``, ``--model``)."""
        found = self._state().get("initializers") or []
        return [Initializer.from_json(entry) for entry in found]

    @property
    def not_finite(self) -> list[NotFinite]:
        """Metrics that were NaN or infinite, each where it was so first."""
        return list(self._state().get("not_finite", []))

    @property
    def compiled(self) -> Compiled:
        """What XLA compiled, and what the compile cache had."""
        return Compiled.of(self._state()["ranks"])

    @property
    def restarts(self) -> int:
        """How often all ranks were restarted (``--max-restarts``)."""
        return len(self._state().get("restarts", ()))

    @property
    def steps(self) -> int | None:
        """The last step that rank 0 reported."""
        return self.progress.step if self.progress else None

    @property
    def progress(self) -> Progress | None:
        """The last report of rank 0."""
        found = self._state()["progress"]
        return Progress.from_json(found) if found else None

    @property
    def failure(self) -> Failure | None:
        """Why it failed."""
        found = self._state()["failure"]
        return Failure.from_json(found) if found else None

    def where(self) -> list[RankPlace]:
        """Ask each rank where it is: at which line of the cell, and for how long.

        This works while ranks wait in a collective.

        Raises
        ------
        UsageError
            The job has ended, its ranks have not started, or its backend can't tell.
        BackendError
            The process that runs the job does not answer.
        """
        state = self.state
        if state in ENDED:
            raise UsageError(say.HAS_ENDED(job=self.name, state=state))
        if state not in (State.STARTING, State.RUNNING):
            raise UsageError(channel.NO_RANKS_YET(job=self.name, state=state))
        return list(self.backend.where(self._dir))

    @property
    def profiles(self) -> list[Profile]:
        """Its profiles, in the order in which they were begun."""
        return [self._profile(one) for one in self._state().get("profiles", [])]

    def profile(self, seconds: float = 5.0) -> Profile:
        """Profile all ranks while they run, and wait until that is here.

        Parameters
        ----------
        seconds
            For how long, a minute at most.

        Returns
        -------
        Profile
            What was taken. Of a session it belongs to the cell that runs.

        Raises
        ------
        UsageError
            The job does not run, or its backend can't do that.
        BackendError
            The process that runs the job does not answer, or no rank has given anything in time.
        """
        taken = self.begin_profile(seconds)
        job = Job(JobDir(self._dir.path.with_name(taken["job"])))
        patience = seconds + timeouts.TAKEN.seconds
        until = time.monotonic() + patience
        while time.monotonic() < until + _POLL:
            active = job.active
            for one in job.snapshot().get("profiles", []):
                late = time.monotonic() > until and any(rank["files"] for rank in one["ranks"])
                if one["name"] == taken["name"] and (one["whole"] or late or not active):
                    return job._profile(one)
            time.sleep(_POLL)
        raise BackendError(
            of_profiles.NOT_TAKEN(name=taken["name"], job=job.name, seconds=patience)
        )

    def begin_profile(self, seconds: float = 5.0) -> ProfileName:
        """Profile all ranks while they run, as `profile` does, and don't wait for that."""
        most = timeouts.PROFILE.seconds
        if not 0.1 <= seconds <= most:
            raise UsageError(of_profiles.NO_SECONDS(most=most, value=checks.shown(seconds)))
        if (state := self.state) in ENDED:
            raise UsageError(say.HAS_ENDED(job=self.name, state=state))
        return self.backend.profile(self._dir, seconds)

    def _profile(self, state: ProfileState) -> Profile:
        from jupyter_jax_trainer.profiles.profile import Profile
        from jupyter_jax_trainer.trust import policy

        return Profile(self._dir, state, partial(policy.require, self))

    def snapshot(self) -> JobState:
        """Return ``state.json`` as it is now, for views that show all of it."""
        return self._state()

    # -- what it says ------------------------------------------------------------------------

    def logs(
        self,
        rank: int | None = None,
        *,
        container: str | None = None,
        tail: int | None = None,
        follow: bool = False,
        raw: bool = False,
    ) -> Iterator[LogLine]:
        """Yield the lines that the ranks printed, in the order in which they were written.

        Parameters
        ----------
        rank
            One rank; None for all, merged.
        container
            Instead of ranks, another container of the job on Kubernetes (see `containers`).
        tail
            How many of the last lines; None for all.
        follow
            Continue until the job has ended.
        raw
            Include noise from libraries.

        Raises
        ------
        UsageError
            The job has no such rank, or no log of such a container.
        """
        reader = MergedReader(self._dir, self._sources(rank, container), raw)
        ended = not self.active
        lines = reader.finish() if ended else reader.read()
        yield from lines if tail is None else deque(lines, maxlen=max(0, tail))
        if not follow or ended:
            return
        while self.active:
            yield from reader.read()
            time.sleep(_POLL)
        yield from reader.finish()

    @property
    def containers(self) -> list[str]:
        """The other containers that have a log, such as initializers and sidecars."""
        return self._dir.containers()

    def _sources(self, rank: int | None, container: str | None) -> Sequence[int | str]:
        nodes = self.spec.nodes
        if container is not None:
            if container not in self.containers:
                raise UsageError(
                    say.NO_CONTAINER_LOG(job=self.name, container=container),
                    checks.did_you_mean(container, self.containers),
                )
            return [container]
        if rank is not None and not 0 <= rank < nodes:
            if nodes == 1:
                raise UsageError(say.ONLY_RANK_0(job=self.name, rank=rank))
            raise UsageError(say.NO_RANK(job=self.name, rank=rank, last=nodes - 1))
        return range(nodes) if rank is None else [rank]

    def metrics(self) -> list[Metric]:
        """Return everything that was reported: ``{time, rank, step, total, values}``."""
        return list(LineReader[Metric](self._dir.metrics).read())

    def resources(self) -> list[Resource]:
        """Return what the ranks used of their machines, at times; of a cell, its session's ranks.

        It is thinned as it grows, save for the last minutes.
        """
        begin, end = self.resources_time
        found = LineReader[Resource](self.resources_file).read()
        return [line for line in found if begin <= line["time"] <= end]

    @property
    def resources_file(self) -> Path:
        """The file with the samples of its ranks."""
        return home_of(self._dir).resources

    @property
    def resources_time(self) -> tuple[float, float]:
        """The time range of this job's samples in that file: a cell shares its session's."""
        if "cell_of" not in self.manifest:
            return 0.0, math.inf
        return self.created, self.ended or math.inf

    def events(self) -> list[Event]:
        """Return what happened to the job: ``{time, kind, rank, message}``."""
        return list(LineReader[Event](self._dir.events).read())

    # -- what it gives back ------------------------------------------------------------------

    @property
    def trusted(self) -> bool:
        """Whether results are loaded and HTML is shown: the job is yours, or you trust it."""
        from jupyter_jax_trainer.trust import policy

        return policy.of(self).complete

    def trust(self) -> Job:
        """Trust the maker of this job: its results and HTML may run code in this kernel.

        Your own jobs don't need it. Trust applies to this one TrainJob, in all notebooks that use
        this job store, until the job is deleted.

        Returns
        -------
        Job
            This job.

        Raises
        ------
        UsageError
            The administrator forbids it.
        """
        from jupyter_jax_trainer.trust import policy

        policy.grant(self)
        return self

    @property
    def results_info(self) -> list[ResultInfo]:
        """Name, type and size of each variable in ``--out``, or why it did not come back."""
        return list(self._state()["results"] or [])

    def result(self, name: str | None = None) -> Any:
        """Wait for the end of the job, and return what it brought back.

        Parameters
        ----------
        name
            One variable. If omitted: the function's value for a job of ``train()``, otherwise a
            dictionary of all variables.

        Raises
        ------
        JobFailed
            The job failed, so there is no result.
        ResultError
            There is no such variable, or it could not be brought back.
        ResultsWithheld
            Somebody else submitted the job, and you have not trusted it (see `trust`).
        """
        from jupyter_jax_trainer.jobdir.results import load_results
        from jupyter_jax_trainer.trust import policy

        if self.active:  # not only after hours
            policy.require(self)
        self.wait()
        return load_results(self, name)

    # -- what one can do ---------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> Job:
        """Wait for the end of the job.

        Parameters
        ----------
        timeout
            The most seconds to wait.

        Returns
        -------
        Job
            This job.

        Raises
        ------
        JobFailed
            It failed or was cancelled.
        TimeoutError
            It has not ended after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.active:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(say.NOT_ENDED_IN_TIME(job=self.name, timeout=timeout))
            time.sleep(_POLL)
        self.raise_for_state()
        return self

    def raise_for_state(self) -> None:
        """Raise `JobFailed` if the job has failed or was cancelled."""
        state = self._state()
        if state["state"] == State.FAILED:
            reason = state["reason"] or say.NO_REASON()
            raise failed(self.name, self.failure or Failure(kind="error", message=reason))
        if state["state"] == State.CANCELLED:
            reason = state["reason"] or CANCELLED
            raise failed(self.name, Failure(kind="cancelled", message=reason))

    def cancel(self) -> None:
        """Stop the job and everything it started, unless it has ended.

        Raises
        ------
        BackendError
            It has not ended after 10 s, on Kubernetes after 45 s. A session's cell has 9 s more,
            until its ranks are restarted.
        """
        if not self.active:
            return
        self.begin_cancel()
        patience = self.backend.cancel_timeout.seconds
        if "cell_of" in self.manifest:
            # Its ranks may come to a report, and then to an end, before they are killed.
            patience += timeouts.INTERRUPT.seconds + timeouts.AGREE.seconds
        deadline = time.monotonic() + patience
        while self.active:
            if time.monotonic() > deadline:
                elsewhere = say.CANCEL_ELSEWHERE() if self._is_elsewhere() else None
                raise BackendError(say.DOES_NOT_END(job=self.name), elsewhere)
            time.sleep(0.02)

    def begin_cancel(self) -> None:
        """Have the job stopped, as `cancel` does, and don't wait for that."""
        self._dir.cancel.touch(mode=0o600)
        self.backend.cancel(self._dir)

    def take_over(self) -> None:
        """Have the ranks of a job on Kubernetes answer to this job store from now on.

        One job store at a time asks the ranks of a job: at first the one that submitted it, or
        one on another machine while that does not ask. The one before goes on to follow the
        job's state, log and results.

        Raises
        ------
        UsageError
            The job is local, has ended, or somebody else submitted it.
        """
        if not self.active:
            raise UsageError(say.HAS_ENDED(job=self.name, state=self.state))
        self.backend.take_over(self._dir)

    def suspend(self) -> None:
        """Stop the pods of a job on Kubernetes; `resume` starts it from the beginning.

        Raises
        ------
        UsageError
            The job is local, or has ended.
        BackendError
            The cluster refuses it.
        """
        self._set_suspended(True)

    def resume(self) -> None:
        """Restart a suspended job, from the beginning of its cell.

        Raises
        ------
        UsageError, BackendError
            As for `suspend`.
        """
        self._set_suspended(False)

    def _set_suspended(self, suspended: bool) -> None:
        if self.backend.capabilities.suspend and not self.active:
            raise UsageError(say.HAS_ENDED(job=self.name, state=self.state))
        self.backend.set_suspended(self._dir, suspended)

    def delete(self) -> None:
        """Cancel the job if it is active, and delete its logs, results and checkpoints for good.

        On Kubernetes, its TrainJob is deleted, too; checkpoints on a volume stay. If somebody else
        submitted the job, only the local directory is deleted: it continues in the cluster, where
        `cancel` ends it. With a session go its cells that have ended, unless they are kept.
        """
        from jupyter_jax_trainer.trust import policy

        cells_of: str | None = None
        with contextlib.suppress(JobDirError):  # a damaged one
            cells_of = self.uid if self.is_session else None
        if policy.is_mine(self):
            self._delete_all()
        else:
            self._dir.remove()
        if cells_of is not None:
            retention.remove_cells(cells_of)

    def _delete_all(self) -> None:
        try:
            self.cancel()
        except JobDirError:
            if self._dir.is_live():
                raise
        deadline = time.monotonic() + timeouts.CANCEL.seconds
        while self._dir.is_live() and time.monotonic() < deadline:
            time.sleep(0.01)  # the keeper holds the lock a moment longer
        with contextlib.suppress(JobDirError):  # of another version's backend only this is known
            self.backend.delete(self._dir)
        self._dir.remove()
