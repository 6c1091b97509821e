"""A job as a list shows it: its row (docs/reference/server.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypedDict

from jupyter_jax_trainer.backends import registry
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.jobdir.describe import shape
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.manifest import submitted_of
from jupyter_jax_trainer.jobdir.state import ProgressState
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.states import ENDED, State
from jupyter_jax_trainer.trust import policy

DAMAGED: Final = "damaged"  # in place of a state
Action = Literal["cancel", "delete", "suspend", "resume", "trust"]


class Row(TypedDict):
    """What a list shows of a job; times are seconds since the epoch.

    `elapsed` is None while it is active, as `now` is not in here. `where` tells whether its ranks
    can say where they are.
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
    trust: policy.Trust
    maker: str | None


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
            "trust": policy.Trust.OWN,
            "maker": None,
        }


def _row(job: Job, root: Path | None) -> Row:
    manifest, state = job.manifest, job.snapshot()
    spec, plan = manifest["spec"], manifest["plan"]
    active = state["state"] not in ENDED
    ended = next((one["time"] for one in state["history"] if one["state"] in ENDED), None)
    origin = submitted_of(manifest)
    standing = policy.of(job)
    able = job.backend.capabilities
    can = actions(able.suspend, state["state"])
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
        "actions": ["trust", *can] if standing is policy.Trust.FOREIGN else can,
        "trust": standing,
        "maker": policy.claimed_maker(job),
    }


def actions(suspends: bool, state: State) -> list[Action]:
    """Return what can be done with a job, of a backend that suspends jobs or does not."""
    if state.ended:
        return ["delete"]
    if not suspends:
        return ["cancel", "delete"]
    return ["cancel", "resume" if state == State.SUSPENDED else "suspend", "delete"]


def notebook_path(path: str | None, root: Path | None) -> str | None:
    """Return a notebook's path as Jupyter knows it; None for one that is elsewhere."""
    if not path or root is None:
        return None
    try:
        return Path(path).relative_to(root).as_posix()
    except ValueError:
        return None
