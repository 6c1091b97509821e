"""A job as a list shows it: its row (docs/reference/server.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypedDict

from jupyter_jax_trainer.backends import registry
from jupyter_jax_trainer.errors import JaxTrainError, JobDirError
from jupyter_jax_trainer.jobdir import session as sessions
from jupyter_jax_trainer.jobdir.describe import shape
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest, submitted_of
from jupyter_jax_trainer.jobdir.session import SessionRecord
from jupyter_jax_trainer.jobdir.state import ProgressState
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.states import ENDED, State
from jupyter_jax_trainer.trust import policy

DAMAGED: Final = "damaged"  # in place of a state
Action = Literal[
    "cancel",
    "delete",
    "suspend",
    "resume",
    "trust",
    "restart",
    "interrupt",
    "prolong",
    "save",
    "restore",
]


class SessionState(TypedDict):
    """What a list shows of a session besides: the cell that runs, and how many wait behind it.

    `idle_since` and `idle_ends` are as in ``session.json``.
    """

    idle_since: float | None
    idle_ends: float | None
    running: str | None
    waiting: int


class SessionOf(TypedDict):
    """The session that runs a cell: its job's key and id."""

    key: str
    uid: str


class Row(TypedDict):
    """What a list shows of a job; times are seconds since the epoch.

    `elapsed` is None while it is active, as `now` is not in here. `where` tells whether its ranks
    can say where they are, `profiles` whether they can be profiled. `session` is None for what is
    no session, and `cell_of` for what is no cell of one.
    """

    key: str
    name: str
    uid: str | None
    state: State | Literal["damaged"]
    reason: str | None
    hint: str | None
    active: bool
    created: float
    ended: float | None
    elapsed: float | None
    nodes: int
    shape: str
    backend: str
    cluster: bool
    place: str
    runtime: str | None
    progress: ProgressState | None
    notebook: str | None
    cell: str | None
    actions: list[Action]
    where: bool
    profiles: bool
    trust: policy.Trust
    maker: str | None
    session: SessionState | None
    cell_of: SessionOf | None


def row_of(job: Job, root: Path | None) -> Row:
    """Describe a job for a list; one that can't be read is a row like others.

    Parameters
    ----------
    job
        The job.
    root
        Jupyter's root directory; None where there is none.
    """
    try:
        return _row(job, root)
    except (JaxTrainError, KeyError, TypeError, ValueError) as error:
        why = error.message if isinstance(error, JaxTrainError) else say.DAMAGED(error=error)
        return {
            "key": job.name,
            "name": job.name,
            "uid": None,
            "state": DAMAGED,
            "reason": why,
            "hint": None,
            "active": False,
            "created": 0.0,
            "ended": None,
            "elapsed": 0.0,
            "nodes": 0,
            "shape": "",
            "backend": registry.DEFAULT,
            "cluster": False,
            "place": "",
            "runtime": None,
            "progress": None,
            "notebook": None,
            "cell": None,
            "actions": ["delete"],
            "where": False,
            "profiles": False,
            "trust": policy.Trust.OWN,
            "maker": None,
            "session": None,
            "cell_of": None,
        }


def _row(job: Job, root: Path | None) -> Row:
    manifest, state = job.manifest, job.snapshot()
    spec, plan = manifest["spec"], manifest["plan"]
    active = state["state"] not in ENDED
    ended = next((one["time"] for one in state["history"] if one["state"] in ENDED), None)
    origin = submitted_of(manifest)
    standing = policy.of(job)
    able = job.backend.capabilities
    session = session_state(job)
    can = actions(job, state["state"], session)
    return {
        "key": job.name,
        "name": job.name,
        "uid": manifest["uid"],
        "state": state["state"],
        "reason": state["reason"],
        "hint": state["hint"],
        "active": active,
        "created": manifest["created"],
        "ended": ended,
        "elapsed": None if active else (ended or manifest["created"]) - manifest["created"],
        "nodes": spec["nodes"],
        "shape": shape(spec, plan),
        "backend": manifest["backend"],
        "cluster": job.backend.capabilities.clusters,
        "place": job.backend.place(manifest),
        "runtime": plan.get("runtime"),
        "progress": state["progress"],
        "notebook": notebook_path(origin and origin.get("notebook"), root),
        "cell": origin and origin.get("cell"),
        "where": able.where,
        "profiles": able.profiles,
        "actions": ["trust", *can] if standing is policy.Trust.FOREIGN else can,
        "trust": standing,
        "maker": policy.claimed_maker(job),
        "session": session,
        "cell_of": _session_of(manifest),
    }


def actions(job: Job, state: State, session: SessionState | None) -> list[Action]:
    """Return what can be done with a job in a state, which may be a session."""
    if state.ended:
        return ["delete"]
    found: list[Action] = ["cancel"]
    if job.backend.capabilities.suspend and "cell_of" not in job.manifest:
        found.append("resume" if state == State.SUSPENDED else "suspend")
    if session is not None and state == State.RUNNING:
        found.append("restart")
        if session["running"] is not None:
            found.append("interrupt")
        if session["idle_ends"] is not None:
            found.append("prolong")
        # In pods, what is saved outlives them on a volume alone.
        if not job.backend.capabilities.clusters or job.spec.volume:
            found += ["save", "restore"]
    return [*found, "delete"]


def session_state(job: Job) -> SessionState | None:
    """Return what a list shows of a session; None for what is none."""
    if not job.is_session:
        return None
    record = session_record(job)
    return {
        "idle_since": record["idle_since"],
        "idle_ends": record.get("idle_ends"),
        "running": record["running"],
        "waiting": len(record["waiting"]),
    }


def session_record(job: Job) -> SessionRecord:
    """Return what is known of a session; no more than at its start where the file is damaged."""
    try:
        return sessions.known(JobDir(job.directory))
    except JobDirError:
        return sessions.first(job.spec.idle)


def _session_of(manifest: Manifest) -> SessionOf | None:
    cell_of = manifest.get("cell_of")
    return cell_of and {"key": cell_of["session"], "uid": cell_of["uid"]}


def notebook_path(path: str | None, root: Path | None) -> str | None:
    """Return a notebook's path as Jupyter knows it; None for one that is elsewhere."""
    if not path or root is None:
        return None
    try:
        return Path(path).relative_to(root).as_posix()
    except ValueError:
        return None
