"""The jobs as a list shows them: kept by change, for all pages together."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from jupyter_jax_trainer import jobdir
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.handle import Job
from jupyter_jax_trainer.jobdir import ENDED, JobDir
from jupyter_jax_trainer.views.card import shape

_FRESH = 0.1  # seconds for which the last look is good enough
_CHECK = 2.0  # seconds after which an active job is looked at, though its files are as before
_SLOW = 1.0  # seconds between looks at the files of jobs that have ended

Row = dict[str, Any]


class Table:
    """The rows of all jobs, each with the version in which it changed last.

    Parameters
    ----------
    root
        Jupyter's root directory, below which notebooks have names.
    """

    def __init__(self, root: str) -> None:
        self.root = Path(root)
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._gone: dict[str, int] = {}
        self._version = 0
        self._looked = self._looked_at_ended = 0.0

    def rows(self) -> tuple[int, list[Row]]:
        """Give the present version, and all rows, the newest first."""
        with self._lock:
            self._refresh()
            found = [entry.row for entry in self._entries.values()]
            return self._version, sorted(found, key=lambda row: -row["created"])

    def since(self, version: int) -> tuple[int, list[Row], list[str]]:
        """Give what has changed.

        Parameters
        ----------
        version
            The version that is known.

        Returns
        -------
        tuple
            The present version, the rows that are new or changed, and the keys that are gone.
        """
        with self._lock:
            if time.monotonic() - self._looked >= _FRESH:  # else another page has just looked
                self._refresh()
            rows = [one.row for one in self._entries.values() if one.version > version]
            gone = [key for key, when in self._gone.items() if when > version]
            return self._version, rows, gone

    def _refresh(self) -> None:
        """Look at the job directories."""
        now = self._looked = time.monotonic()
        all_of_them = now - self._looked_at_ended >= _SLOW
        if all_of_them:
            self._looked_at_ended = now
        found = {directory.path.name: directory for directory in jobdir.list_all()}
        for key in self._entries.keys() - found.keys():
            del self._entries[key]
            self._version += 1
            self._gone[key] = self._version
        for key, directory in found.items():
            entry = self._entries.get(key)
            if entry is None or entry.row["active"] or all_of_them:
                self._look(key, directory, entry, now)

    def _look(self, key: str, directory: JobDir, entry: _Entry | None, now: float) -> None:
        now_stamp = stamp(directory)
        if entry is not None and entry.stamp == now_stamp and now < entry.check_at:
            return
        row = row_of(Job(directory), self.root)
        if entry is None or row != entry.row:
            self._version += 1
            self._gone.pop(key, None)
            version = self._version
        else:
            version = entry.version
        check_at = now + _CHECK if row["active"] else float("inf")
        self._entries[key] = _Entry(row, now_stamp, version, check_at)


class _Entry:
    __slots__ = ("check_at", "row", "stamp", "version")

    def __init__(self, row: Row, stamp: object, version: int, check_at: float) -> None:
        self.row, self.stamp, self.version, self.check_at = row, stamp, version, check_at


def stamp(directory: JobDir) -> object:
    """Give what changes when a job's manifest or state is written."""
    found: list[tuple[int, int] | None] = []
    for path in (directory.state, directory.manifest):
        try:
            stat = os.stat(path)
        except OSError:
            found.append(None)
        else:
            found.append((stat.st_mtime_ns, stat.st_ino))
    return found


def row_of(job: Job, root: Path) -> Row:
    """Describe a job for a list; one that can't be read is a row like others.

    Parameters
    ----------
    job
        The job.
    root
        Jupyter's root directory.
    """
    try:
        return _row(job, root)
    except (JaxTrainError, KeyError, TypeError, ValueError) as error:
        why = error.message if isinstance(error, JaxTrainError) else f"it is damaged: {error}"
        return {
            "key": job.name, "name": job.name, "uid": None, "state": "damaged", "reason": why,
            "hint": None, "active": False, "created": 0.0, "ended": None, "elapsed": 0.0,
            "nodes": 0, "shape": "", "backend": "local", "place": "", "runtime": None,
            "progress": None, "notebook": None, "cell": None, "actions": ["delete"],
        }  # fmt: skip


def _row(job: Job, root: Path) -> Row:
    manifest, state = job.manifest, job.snapshot()
    spec, plan = manifest["spec"], manifest["plan"]
    active = state["state"] not in ENDED
    ended = next((one["time"] for one in state["history"] if one["state"] in ENDED), None)
    origin = manifest.get("origin") or {}
    return {
        "key": job.name, "name": job.name, "uid": manifest["uid"], "state": state["state"],
        "reason": state["reason"], "hint": state["hint"], "active": active,
        "created": manifest["created"], "ended": ended,
        "elapsed": None if active else (ended or manifest["created"]) - manifest["created"],
        "nodes": spec["nodes"], "shape": shape(spec, plan), "backend": manifest["backend"],
        "place": place(manifest), "runtime": plan.get("runtime"), "progress": state["progress"],
        "notebook": notebook_path(origin.get("notebook"), root), "cell": origin.get("cell"),
        "actions": actions(manifest["backend"], state["state"]),
    }  # fmt: skip


def actions(backend: str, state: str) -> list[str]:
    """Say what can be done with a job."""
    if state in ENDED:
        return ["delete"]
    if backend != "kubernetes":
        return ["cancel", "delete"]
    return ["cancel", "resume" if state == "Suspended" else "suspend", "delete"]


def place(manifest: dict[str, Any]) -> str:
    """Say where a job runs."""
    plan = manifest["plan"]
    if manifest["backend"] != "kubernetes":
        return "this machine"
    return " · ".join(str(plan[what]) for what in ("namespace", "context") if plan.get(what))


def notebook_path(path: str | None, root: Path) -> str | None:
    """Give a notebook's path as Jupyter knows it; None for one that is elsewhere."""
    if not path:
        return None
    try:
        return Path(path).relative_to(root).as_posix()
    except ValueError:
        return None
