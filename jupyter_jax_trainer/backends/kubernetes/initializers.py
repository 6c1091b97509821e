"""Trainer's initializers: what fetches a data set or a model before the training begins."""

from __future__ import annotations

from collections.abc import Collection

from jupyter_jax_trainer.backends.kubernetes.seen import (
    Json,
    Seen,
    containers,
    exit_code,
    role_of,
    status,
)
from jupyter_jax_trainer.spec import JobSpec

NAMES = {"dataset": "dataset-initializer", "model": "model-initializer"}


def lacking(jobs: Collection[str], spec: JobSpec) -> str | None:
    """Give the option for which there is no initializer among a runtime's replicated jobs."""
    asked = (option for option in NAMES if getattr(spec, option))
    return next((option for option in asked if NAMES[option] not in jobs), None)


def look(seen: Seen) -> list[Json]:
    """Say how the initializers are: the newest pod of each, in the order in which they came.

    Returns
    -------
    list
        ``name``, ``state``, ``exit``, ``restarts``, ``host`` and ``pod``, as of a rank.
    """
    newest: dict[str, Json] = {}
    count: dict[str, int] = {}
    for pod in seen.initializers:
        name = role_of(pod)
        newest[name] = pod
        count[name] = count.get(name, 0) + 1
    return [_step(name, pod, count[name] - 1) for name, pod in newest.items()]


def _step(name: str, pod: Json, pods_before: int) -> Json:
    found = next((state for state in containers(pod) if state.get("name") == name), {})
    now, before = found.get("state") or {}, found.get("lastState") or {}
    end = now.get("terminated") or before.get("terminated")
    doing = "Running" if "running" in now else "Starting"
    ended = {"Succeeded": "Finished", "Failed": "Failed"}
    return {
        "name": name, "state": ended.get(str(status(pod).get("phase")), doing),
        "exit": None if end is None else exit_code(end),
        "restarts": int(found.get("restartCount") or 0) + pods_before,
        "host": (pod.get("spec") or {}).get("nodeName"), "pod": pod["metadata"].get("name"),
    }  # fmt: skip
