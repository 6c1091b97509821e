"""A job described in few words: size, progress, time left, what it sends and brings back."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypedDict

from jupyter_jax_trainer.jobdir.layout import RETURNED
from jupyter_jax_trainer.jobdir.manifest import Plan
from jupyter_jax_trainer.jobdir.state import ProgressState, ResultInfo, Snapshot
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.states import ENDED, State
from jupyter_jax_trainer.text import counted, metric, one_line, size

if TYPE_CHECKING:
    from jupyter_jax_trainer.options.spec import SpecRecord

_MANY = 6  # variables that are named one by one


class Thing(TypedDict):
    """A variable, function, class or package that goes to a job or comes back; its bytes."""

    name: str
    type: str
    size: int
    kind: str


def shape(spec: SpecRecord, plan: Plan) -> str:
    """Return how large a job is: ``4 nodes × 2 CPU devices``."""
    nodes = counted(spec["nodes"], "node")
    each = plan["devices_per_node"]
    if each == 1 and plan["device"] == "cpu":
        return nodes
    device = f"{plan['device'].upper()} device"
    return f"{nodes} × {counted(each, device)}"


def renamed(wanted: str | None, name: str) -> str | None:
    """Return why a job is not called what it was to be called."""
    if wanted is None or wanted == name:
        return None
    return say.RENAMED(wanted=wanted, job=name)


def elapsed(created: float, snapshot: Snapshot) -> float:
    """Return the seconds from submission to now, or to the end."""
    last = snapshot["history"][-1] if snapshot["history"] else None
    end = last["time"] if last and last["state"] in ENDED else time.time()
    return max(0.0, float(end) - created)


def time_left(snapshot: Snapshot) -> float | None:
    """Estimate the seconds to the end from the progress so far; None where it isn't known."""
    progress = snapshot["progress"]
    if snapshot["state"] != State.RUNNING or not progress or not progress["fraction"]:
        return None
    began = next((e["time"] for e in snapshot["history"] if e["state"] == State.RUNNING), None)
    fraction = progress["fraction"]
    if began is None or fraction < 0.02:
        return None
    return float((time.time() - began) * (1 - fraction) / fraction)


def progress_text(progress: ProgressState | None) -> str:
    """Return how far it is: ``1240/2000  loss 0.0831``."""
    if not progress:
        return ""
    step = (
        f"{progress['step']}/{progress['total']}"
        if progress["total"]
        else (f"step {progress['step']}")
    )
    values = [f"{name} {metric(value)}" for name, value in progress["metrics"].items()]
    return "  ".join([step, *values[:6]])


def results_text(results: Sequence[ResultInfo] | None) -> str:
    """Return what came back: ``params dict of 4 1.2 MB, loss float32[] 4 B``."""
    return things_text(
        Thing(name=entry["name"], kind="value", type=entry["type"], size=entry["size"])
        for entry in results or []
        if "error" not in entry and entry["name"] != RETURNED
    )


def things_text(entries: Iterable[Thing]) -> str:
    """Name things with type and size, the largest first; packages together, before all others."""
    known = list(entries)
    packages = [entry for entry in known if entry["kind"] == "package"]
    others = [entry for entry in known if entry["kind"] != "package"]
    by_size = sorted(others, key=lambda entry: -entry["size"])
    named = [
        one_line(f"{entry['name']} {entry['type']} {size(entry['size'])}")
        for entry in by_size[:_MANY]
    ]
    more = len(by_size) - len(named)
    things = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    return ", ".join(part for part in (_packages_text(packages), things) if part)


def _packages_text(packages: Sequence[Thing]) -> str:
    """Return ``flax 0.12.1 and 2 more (3 MB)``: the first is one that is imported."""
    if not packages:
        return ""
    named = one_line(f"{packages[0]['name']} {packages[0]['type']}")
    more = f" and {len(packages) - 1} more" if len(packages) > 1 else ""
    return f"{named}{more} ({size(sum(one['size'] for one in packages))})"
