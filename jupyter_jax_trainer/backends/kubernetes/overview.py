"""A list of all TrainJobs of a namespace, whoever made them, updated incrementally."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jupyter_jax_trainer.backends.base import ClusterJob
from jupyter_jax_trainer.backends.kubernetes.api.cache import JOB_SET, Store, Watched
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client
from jupyter_jax_trainer.backends.kubernetes.api.marks import uid_of
from jupyter_jax_trainer.backends.kubernetes.api.objects import Event, Job, Pod, TrainJob
from jupyter_jax_trainer.backends.kubernetes.api.watch import ADDED, list_all
from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import Seen, judge
from jupyter_jax_trainer.backends.kubernetes.submit import launch
from jupyter_jax_trainer.jobdir.files import LineReader, LineWriter
from jupyter_jax_trainer.states import State

_COMPACT = 4  # times as many lines as there are TrainJobs, before the file is written anew


def row(store: Store, name: str) -> ClusterJob | None:
    """Make the row of a TrainJob; None when it is gone."""
    found = store.trainjobs.get(name)
    if found is None:
        return None
    nodes, ours = found.nodes, uid_of(found)
    pods, jobs = store.pods(name, ours), store.jobs(name, ours)
    uids = {found.uid, *pods, *(job.uid for job in jobs)}
    seen = Seen(
        trainjob=found,
        jobs=jobs,
        jobset=None,
        pods=list(pods.values()),
        events=store.events(name, uids),
        workloads=store.workloads(found),
        nodes=nodes,
        now=time.time(),
    )
    verdict = judge(seen)
    state, reason = verdict.state, verdict.reason
    if (marked := launch.marked(found)) is not None:
        state, reason = State.FAILED, marked
    elif state == State.STARTING and len(seen.live) == nodes:
        state, reason = State.RUNNING, None  # what runs in it is known to its owner only
    return ClusterJob(
        name=name,
        state=state,
        reason=reason,
        hint=verdict.hint,
        nodes=nodes,
        created=found.created or None,
        uid=ours,
    )


def rows(client: Client) -> list[ClusterJob]:
    """List the TrainJobs of a namespace as they are now, the newest first.

    What may not be read is left out of the reasons.

    Raises
    ------
    ApiError, Unreachable
        The TrainJobs can't be listed.
    """
    store = Store()
    _fill(store, list_all(client, client.trainer("trainjobs"), TrainJob))
    parts: tuple[Iterable[Watched], ...] = (
        list_all(client, client.core("pods"), Pod, JOB_SET),
        list_all(client, client.batch("jobs"), Job, JOB_SET),
        list_all(client, client.core("events"), Event),
    )
    for found in parts:
        try:
            _fill(store, found)
        except ApiError as error:
            if error.status != 403:
                raise
    made = [one for name in store.trainjobs if (one := row(store, name)) is not None]
    return sorted(made, key=lambda one: -(one.created or 0.0))


def _fill(store: Store, found: Iterable[Watched]) -> None:
    for item in found:
        store.put(ADDED, item)


class Overview:
    """Keeps the list in a file: a line for each change.

    Parameters
    ----------
    path
        The file; it is begun anew.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, ClusterJob] = {}
        self._lines = 0
        self._rewrite()

    def update(self, store: Store, names: Iterable[str]) -> None:
        """Look at some TrainJobs again."""
        changed: list[dict[str, Any]] = []
        for name in names:
            try:
                found = row(store, name)
            except Exception:
                continue  # made with other tools, and odd: it must not hide the others
            if found == self._rows.get(name):
                continue
            if found is None:
                del self._rows[name]
                changed.append({"name": name, "state": None})
            else:
                self._rows[name] = found
                changed.append(asdict(found))
        if not changed:
            return
        self._lines += len(changed)
        if self._lines > _COMPACT * max(100, len(self._rows)):
            self._rewrite()
        else:
            self._writer.write(*changed)

    def _rewrite(self) -> None:
        part = self._path.with_name(f"{self._path.name}.{os.getpid()}.part")
        with open(part, "w", opener=_private) as file:
            file.writelines(json.dumps(asdict(found)) + "\n" for found in self._rows.values())
        part.replace(self._path)
        self._writer = LineWriter(self._path)
        self._lines = len(self._rows)


def read(path: Path) -> Iterator[ClusterJob]:
    """Read what an `Overview` keeps."""
    found: dict[str, dict[str, Any]] = {}
    for line in LineReader[dict[str, Any]](path).read():
        if line["state"] is None:
            found.pop(line["name"], None)
        else:
            found[line["name"]] = line
    for line in found.values():
        known: dict[str, Any] = {name: line.get(name) for name in ClusterJob.__dataclass_fields__}
        yield ClusterJob(**{**known, "state": State(known["state"])})


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
