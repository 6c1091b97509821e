"""A job described in few words: size, progress, time left, what it sends and brings back."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypedDict

from jupyter_jax_trainer.jobdir.layout import RETURNED
from jupyter_jax_trainer.jobdir.manifest import Held, Plan, SentRecord
from jupyter_jax_trainer.jobdir.parts import Compiled
from jupyter_jax_trainer.jobdir.state import (
    NotFinite,
    ProfileState,
    ProgressState,
    RankState,
    ResultInfo,
    Snapshot,
)
from jupyter_jax_trainer.jobdir.timing import timeline, timeline_text
from jupyter_jax_trainer.jobdir.usage import tight_text, usage_text
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.options.amounts import ALL
from jupyter_jax_trainer.states import ENDED, State
from jupyter_jax_trainer.text import counted, duration, joined, metric, one_line, ranks_text, size

if TYPE_CHECKING:
    from jupyter_jax_trainer.options.spec import SpecRecord

_BRIEF = 10.0  # seconds of a job, or of compilation, that are not worth a word
_MANY = 6  # variables that are named one by one


class Thing(TypedDict):
    """A variable, function, class or package that goes to a job or comes back; its bytes."""

    name: str
    type: str
    size: int
    kind: str


def shape(spec: SpecRecord, plan: Plan) -> str:
    """Return how large a job is: ``4 nodes × 2 CPU devices``, ``rank 0,3 of 4 nodes``."""
    nodes = counted(spec["nodes"], "node")
    if (rank := spec.get("rank")) is not None and rank != ALL:
        nodes = say.ONLY_RANKS(ranks=rank, nodes=nodes)
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


def profile_text(profile: ProfileState) -> str:
    """Return what there is of a profile, and what is not: ``profile 1: 3.1 MB from ranks 0-3``."""
    given = [one["rank"] for one in profile["ranks"] if one["files"]]
    total = sum(sum(one["files"].values()) for one in profile["ranks"])
    name = profile["name"]
    texts: list[str] = [say.PROFILE_OF_NONE(name=name)]
    if given:
        texts = [say.PROFILE_TAKEN(name=name, size=size(total), ranks=ranks_text(given))]
    lacks: dict[str, list[int]] = {}
    left_out: dict[str, list[int]] = {}
    for one in profile["ranks"]:
        if one["problem"] is not None:
            lacks.setdefault(one["problem"], []).append(one["rank"])
        if one["left_out"]:
            files = joined(f"{file} ({size(n)})" for file, n in one["left_out"].items())
            left_out.setdefault(files, []).append(one["rank"])
    texts += [
        say.PROFILE_LACKS(ranks=ranks_text(ranks), problem=problem)
        for problem, ranks in lacks.items()
    ]
    texts += [
        say.PROFILE_LEFT_OUT(ranks=ranks_text(ranks), files=files)
        for files, ranks in left_out.items()
    ]
    return "; ".join(texts)


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


def pulse(snapshot: Snapshot) -> str:
    """Return in a line what the ranks of a running job use, and of another where its time went."""
    return used_text(snapshot) or _spent_text(snapshot)


def remarks(snapshot: Snapshot) -> list[str]:
    """Return what else there is to know.

    Memory that runs out, metrics that were not finite, warnings, no channel, and what the cache
    saved or lacked.
    """
    running = snapshot["state"] == State.RUNNING
    found = [tight_text(one) for one in snapshot.get("tight", [])] if running else []
    found += [not_finite_text(one) for one in snapshot.get("not_finite", [])]
    found += snapshot.get("warnings", [])
    if running and (lacking := snapshot.get("no_channel")):
        found.append(lacking)
    if saved := compiled_text(snapshot["ranks"], brief=True):
        found.append(saved)
    return found


def _spent_text(snapshot: Snapshot) -> str:
    """Return where the time has gone, of a job that took any."""
    history = snapshot["history"]
    if not history or elapsed(history[0]["time"], snapshot) < _BRIEF:
        return ""
    begun = history[0]["time"]
    found = timeline(snapshot, begun, begun + elapsed(begun, snapshot))
    return timeline_text(found) if found is not None else ""


def used_text(snapshot: Snapshot) -> str:
    """Return what the ranks of a running job use; empty where that is not known."""
    usage = snapshot.get("usage")
    if usage is None or snapshot["state"] != State.RUNNING:
        return ""
    return usage_text(usage, len(snapshot["ranks"]))


def not_finite_text(found: NotFinite) -> str:
    """Return where a metric was not finite for the first time."""
    return say.NOT_FINITE(**found)


def compiled_text(ranks: Iterable[RankState], *, brief: bool = False) -> str:
    """Return what XLA compiled and what the cache had; empty for nothing.

    Parameters
    ----------
    brief
        Only where the cache has saved something, or what it lacked took long.
    """
    found = Compiled.of(ranks)
    if not found.hits and (not found.misses or (brief and found.seconds < _BRIEF)):
        return ""
    parts: list[str] = []
    if found.misses:
        misses = counted(found.misses, "program")
        parts.append(say.COMPILED(misses=misses, seconds=_seconds(found.seconds)))
    if found.hits:
        hits = counted(found.hits, "program")
        parts.append(say.FOUND_COMPILED(hits=hits, saved=_seconds(found.saved)))
    return "; ".join(parts)


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else duration(seconds)


def results_text(results: Sequence[ResultInfo] | None) -> str:
    """Return what came back: ``params dict of 4 1.2 MB, loss float32[] 4 B``."""
    return things_text(
        Thing(name=entry["name"], kind="value", type=entry["type"], size=entry["size"])
        for entry in results or []
        if "error" not in entry and entry["name"] != RETURNED
    )


def sent_text(
    sent: Iterable[Thing | SentRecord], kept: Sequence[str] = (), held: Held | None = None
) -> str:
    """Return what went to a job: ``lr float 3 B; kept w (session, 1.2 GB on 4 devices)``.

    Parameters
    ----------
    sent
        What was sent.
    kept, held
        What a cell reads that its session has, and how large that is.
    """
    things = things_text(sent)
    if not kept:
        return things
    things, names = things or say.NOTHING(), joined(kept, most=_MANY)
    if held is None:
        return say.SENT_AND_KEPT(things=things, names=names)
    large: str = size(held["size"])
    if held["devices"] > 1:
        large = say.ON_DEVICES(size=large, devices=held["devices"])
    return say.SENT_AND_KEPT_LARGE(things=things, names=names, size=large)


def things_text(entries: Iterable[Thing | SentRecord]) -> str:
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


def _packages_text(packages: Sequence[Thing | SentRecord]) -> str:
    """Return ``flax 0.12.1 and 2 more (3 MB)``: the first is one that is imported."""
    if not packages:
        return ""
    named = one_line(f"{packages[0]['name']} {packages[0]['type']}")
    more = f" and {len(packages) - 1} more" if len(packages) > 1 else ""
    return f"{named}{more} ({size(sum(one['size'] for one in packages))})"
