"""Cells of a session: which session runs one, with which options, and its submission."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.base import Backend, Submission
from jupyter_jax_trainer.channel import asking
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.jobdir import files, session
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest, Plan, packages_in
from jupyter_jax_trainer.jobdir.session import IDLE, SessionRecord
from jupyter_jax_trainer.jobdir.state import first_state
from jupyter_jax_trainer.messages import backends as say
from jupyter_jax_trainer.messages import session as of_sessions
from jupyter_jax_trainer.options.amounts import ranks_in
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.options.table import BY_FIELD
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.text import joined

if TYPE_CHECKING:
    from jupyter_jax_trainer.capture import Capture
    from jupyter_jax_trainer.jobdir.job import Job

# The options of a cell; all others are those of its session.
OF_CELL = frozenset(
    (
        "name",
        "out",
        "use",
        "files",
        "allow_large",
        "hang_timeout",
        "stop_on_nan",
        "profile",
        "detach",
        "session",
        "rank",
        "dry_run",
        "show_secrets",
    )
)
_PAUSE = 0.01  # seconds between looks for a writer that starts
_LONGEST = 50  # characters of a session's name in those of its cells


@dataclass
class CellSubmission:
    """One submission of a cell to a session.

    Parameters
    ----------
    runs_on
        The backend of the session.
    inner
        How a job is submitted there.
    holder
        The job of the session; None while there is none.
    ranks
        The ranks that run the cell; None for all.
    """

    runs_on: Backend
    inner: Submission
    holder: Job | None
    ranks: Sequence[int] | None = None

    def __post_init__(self) -> None:
        self.backend = self.inner.backend
        self.bundle_travels = self.inner.bundle_travels
        self.wheels: Mapping[str, bytes] = {}

    def known(self) -> SessionRecord | None:
        """Return what the session has; None where it has not begun.

        Raises
        ------
        JobDirError
            The session's record is damaged.
        """
        return None if self.holder is None else session.read(JobDir(self.holder.directory))

    def pending(self) -> list[Manifest]:
        """Return what is known of the cells that run or wait in the session."""
        record = self.known()
        if record is None:
            return []
        assert self.holder is not None, "it has a record"
        return _pending(JobDir(self.holder.directory), record)

    def plan(self, spec: JobSpec) -> Plan:
        """Return what the session has got, or would get."""
        return self.inner.plan(spec) if self.holder is None else self.holder.manifest["plan"]

    def check_size(self, total: int, spec: JobSpec) -> None:
        """Refuse what can't be sent, as for any job."""
        self.inner.check_size(total, spec)

    def check_capture(self, capture: Capture, spec: JobSpec, plan: Plan) -> None:
        """Refuse what can't be used there, as for any job."""
        if self.holder is None:
            self.inner.check_capture(capture, spec, plan)
            return
        self.inner.check_capture(capture, replace(spec, no_packages=True), plan)
        if not spec.no_packages:
            self.wheels = self.runs_on.packages_for_cell(JobDir(self.holder.directory), capture)

    def is_free(self, name: str) -> bool:
        """Return whether no job has this name where the session runs."""
        return self.inner.is_free(name)

    def dry_run(
        self,
        spec: JobSpec,
        plan: Plan,
        capture: Capture,
        manifest: Manifest,
        write: Callable[[Path], str],
    ) -> str:
        """Return what would be started, as for any job."""
        return self.inner.dry_run(spec, plan, capture, manifest, write)

    def start(self, directory: JobDir, lock: int, manifest: Manifest) -> None:
        """Hand a cell to whoever holds the ranks."""
        assert self.holder is not None, "the session is started before its cells"
        files.write_json(directory.state, first_state(State.QUEUED, say.TO_SESSION()))
        self.runs_on.run_in_session(JobDir(self.holder.directory), directory, lock)


def _pending(session: JobDir, record: SessionRecord) -> list[Manifest]:
    names = [*filter(None, [record["running"]]), *record["waiting"]]
    found = [JobDir(session.path.with_name(name)) for name in names]
    return [one.read_manifest() for one in found if one.manifest.exists()]


def packages_of(holder: JobDir) -> dict[str, str]:
    """Return the packages that a session has, or will have, beside its image's: name → version.

    Raises
    ------
    JobDirError
        A manifest or the session's record is damaged.
    """
    record = session.known(holder)
    found = packages_in(holder.read_manifest()) | record.get("packages", {})
    for manifest in _pending(holder, record):
        found |= packages_in(manifest)
    return found


def hand_over(
    session: JobDir, cell: JobDir, lock: int, has_ended: Callable[[], str | None]
) -> None:
    """Hand a cell to its session's writer, as soon as that is listening.

    Parameters
    ----------
    lock
        The open file with the lock of the cell.
    has_ended
        Called while no writer is listening: says why the session ended; None if it hasn't.

    Raises
    ------
    UsageError
        The session has ended, or refuses the cell.
    BackendError
        No writer was listening in time.
    """
    uid, name = session.read_manifest()["uid"], session.path.name
    until = time.monotonic() + timeouts.SESSION.seconds
    while True:
        try:
            refused = asking.run(uid, name, cell.path.name, lock)
            break
        except BackendError:
            if (reason := has_ended()) is not None:
                raise UsageError(of_sessions.SESSION_ENDED(session=name, reason=reason)) from None
            if time.monotonic() > until:
                raise
        time.sleep(_PAUSE)
    if refused is not None:
        raise UsageError(of_sessions.SESSION_REFUSED(session=name, reason=refused))


def restart(session: JobDir) -> None:
    """Have the writer of a session restart its ranks.

    Raises
    ------
    UsageError
        It refuses that.
    BackendError
        It does not answer.
    """
    name = session.path.name
    if (refused := asking.restart(session.read_manifest()["uid"], name)) is not None:
        raise UsageError(of_sessions.SESSION_REFUSED(session=name, reason=refused))


def prolong(session: JobDir, seconds: float | None) -> None:
    """Have the writer of a session wait for longer, until it ends for being idle.

    Parameters
    ----------
    seconds
        From now; 0 for ever, None for as long as its limit is.

    Raises
    ------
    UsageError
        It refuses that.
    BackendError
        It does not answer.
    """
    name = session.path.name
    refused = asking.prolong(session.read_manifest()["uid"], name, seconds)
    if refused is not None:
        raise UsageError(of_sessions.SESSION_REFUSED(session=name, reason=refused))


def check(spec: JobSpec, backend: Backend) -> None:
    """Raise `UsageError` where options and sessions don't go together, or there are no sessions."""
    if spec.session is None:
        if spec.idle is not None:
            raise UsageError(say.IDLE_WITHOUT_SESSION())
        if spec.rank is not None:
            raise UsageError(say.RANK_WITHOUT_SESSION())
        return
    if not backend.capabilities.sessions:
        raise UsageError(say.NO_SESSIONS(backend=backend.name))
    if spec.timeout is not None:
        raise UsageError(say.NOT_WITH_SESSION(option=BY_FIELD["timeout"].flag))
    if spec.rank is not None and (rank := max(ranks_in(spec.rank, spec.nodes))) >= spec.nodes:
        raise UsageError(say.NO_SUCH_RANK(rank=rank, last=spec.nodes - 1))


def of_cell(spec: JobSpec, holder: Job) -> JobSpec:
    """Return the options of a cell in a session that there is: its own, and the session's.

    Raises
    ------
    UsageError
        It has other options than the session.
    """
    whole = holder.spec
    other = [
        name
        for name in sorted(spec.explicit - OF_CELL)
        if getattr(spec, name) != getattr(whole, name)
        and (name, spec.backend) != ("backend", "auto")
    ]
    if other:
        flags = joined(BY_FIELD[name].flag for name in other)
        raise UsageError(say.SESSION_HAS_OPTIONS(session=holder.name, options=flags))
    own = {name: getattr(spec, name) for name in OF_CELL}
    return replace(whole, **own, explicit=spec.explicit)


def of_session(spec: JobSpec, plan: Plan) -> JobSpec:
    """Return the options of the session that a first cell starts."""
    none = {name: getattr(JobSpec(), name) for name in OF_CELL}
    idle = plan.get("idle", IDLE)
    own = {"session": spec.session, "name": spec.session, "idle": None if idle == IDLE else idle}
    return replace(spec, **{**none, **own})


def cell_name(holder: str, names: set[str]) -> str:
    """Return a name for the next cell of a session, among the names of all jobs."""
    stem = f"{holder[:_LONGEST]}-cell-"
    taken = (name.removeprefix(stem) for name in names if name.startswith(stem))
    return f"{stem}{1 + max((int(one) for one in taken if one.isdecimal()), default=0)}"
