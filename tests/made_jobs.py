"""Job directories as they are on disk, without processes."""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Iterator
from typing import Any

from jupyter_jax_trainer.jobdir import files, layout, store
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.options.spec import JobSpec


def uid_of(name: str) -> str:
    """Return the id that a job made here has."""
    return uuid.uuid5(uuid.NAMESPACE_DNS, name).hex


def make_job(name: str, state: str = "Succeeded", **more: Any) -> layout.JobDir:
    """Make the directory of a job; `more` is what `_fill` takes."""
    final = layout.JobDir(layout.jobs_directory() / name)
    if final.path.exists():
        _fill(final, name, state, **more)
        return final
    # Hidden until it is whole, as those of real jobs are: somebody may look all the time.
    hidden = _hidden(name)
    _fill(hidden, name, state, **more)
    hidden.path.rename(final.path)
    return final


@contextlib.contextmanager
def running_job(name: str, state: str = "Running", **more: Any) -> Iterator[layout.JobDir]:
    """Make a job that runs, and be its process from the moment that it can be seen."""
    final = layout.JobDir(layout.jobs_directory() / name)
    hidden = _hidden(name)
    _fill(hidden, name, state, **more)
    with held(hidden):
        hidden.path.rename(final.path)
        yield final


def _hidden(name: str) -> layout.JobDir:
    return layout.JobDir(store.private_directory(layout.jobs_directory() / f".made-{name}"))


def _fill(
    directory: layout.JobDir,
    name: str,
    state: str,
    *,
    created: float | None = None,
    logs: dict[int, list[str]] | None = None,
    spec: JobSpec | None = None,
    **more: Any,
) -> None:
    """Write the files of a job; `more` are fields of its state."""
    store.private_directory(directory.logs)
    created = time.time() - 134 if created is None else created
    spec = spec or JobSpec(nodes=2, out=("loss",))
    files.write_json(
        directory.manifest,
        {
            "format": 1,
            "name": name,
            "uid": uid_of(name),
            "backend": "local",
            "host": os.uname().nodename,
            "created": created,
            "spec": spec.to_json(),
            "plan": {"device": "cpu", "devices_per_node": 1, "runtime": "local-cpu"},
            "origin": {},
            "sent": [{"name": "data", "kind": "array", "type": "float32[10]", "size": 40}],
            "returns": False,
        },
    )
    history = [{"state": "Running", "time": created + 1}, {"state": state, "time": created + 61}]
    values = {
        "format": 1,
        "state": state,
        "reason": None,
        "hint": None,
        "history": history,
        "ranks": [{"rank": 0, "pid": 123, "state": "Finished", "exit": 0}],
        "progress": {
            "step": 120,
            "total": 500,
            "fraction": 0.24,
            "metrics": {"loss": 0.23123},
            "time": created,
        },
        "failure": None,
        "results": [
            {"name": "loss", "type": "float", "size": 8},
            {"name": "acc", "error": say.NEVER_SET(name="acc")},
        ],
        **more,
    }
    files.write_json(directory.state, values)
    index = []
    for rank, lines in (logs or {}).items():
        data = "".join(f"{line}\n" for line in lines).encode()
        directory.log(rank).write_bytes(data)
        index.append(json.dumps([rank, len(data), created + 2 + rank]) + "\n")
    directory.log_index.write_text("".join(index))


def made_cell(directory: layout.JobDir, session: str) -> layout.JobDir:
    """Make of a job a cell of a session, which was made here, too."""
    cell_of = {"session": session, "uid": uid_of(session), "kernel": "k"}
    files.write_json(directory.manifest, {**directory.read_manifest(), "cell_of": cell_of})
    return directory


@contextlib.contextmanager
def held(directory: layout.JobDir) -> Iterator[None]:
    """Be the process that runs a job; without one it would count as abandoned."""
    lock = directory.take_lock()
    assert lock is not None
    try:
        yield
    finally:
        os.close(lock)


def made_elsewhere(
    directory: layout.JobDir, trainjob_uid: str | None = "t-1", **more: Any
) -> layout.JobDir:
    """Make of a job one that was attached; `more` are fields of its manifest."""
    found = directory.read_manifest()
    there = {"namespace": "ns", "context": "ctx", "server": "https://c", "cluster": "c"}
    manifest = {
        **found,
        "plan": {**found["plan"], **there},
        "backend": "kubernetes",
        "host": "",
        "maker": "mallory@laptop",
        "origin": {"attached": time.time()},
        **more,
    }
    files.write_json(directory.manifest, manifest)
    directory.trainjob.unlink(missing_ok=True)
    if trainjob_uid is not None:
        files.write_json(directory.trainjob, {"format": 1, "uid": trainjob_uid})
    return directory
