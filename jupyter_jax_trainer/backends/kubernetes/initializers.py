"""Trainer's initializers: what fetches a data set or a model before the training begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.runtimes import replicated_jobs
from jupyter_jax_trainer.backends.kubernetes.seen import (
    Json,
    Seen,
    containers,
    exit_code,
    role_of,
    status,
)
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.spec import JobSpec

NAMES = {"dataset": "dataset-initializer", "model": "model-initializer"}


def has(runtime: Mapping[str, Any], spec: JobSpec) -> bool:
    """Tell whether a runtime has all the initializers that a job needs."""
    return _lacking(runtime, spec) is None


def check(
    runtime: Mapping[str, Any], spec: JobSpec, known: Callable[[], list[dict[str, Any]]]
) -> None:
    """Refuse what the runtime has no initializer for.

    Parameters
    ----------
    runtime, spec
        The runtime, and what was asked for.
    known
        Gives all runtimes, to name those that would do.

    Raises
    ------
    UsageError
        The runtime lacks one.
    """
    option = _lacking(runtime, spec)
    if option is None:
        return
    others = [item["metadata"]["name"] for item in known() if has(item, spec)]
    raise UsageError(
        f"--{option} needs a runtime with a {NAMES[option]}, and {runtime['metadata']['name']} has "
        "none.",
        f"Choose another --runtime: {', '.join(others)}." if others else
        "docs/platform.md has an example of one; the platform engineer can install it.",
    )


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


def _lacking(runtime: Mapping[str, Any], spec: JobSpec) -> str | None:
    jobs = replicated_jobs(runtime)
    asked = (option for option in NAMES if getattr(spec, option))
    return next((option for option in asked if NAMES[option] not in jobs), None)


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
