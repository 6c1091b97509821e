"""Where the time of a job goes, and which rank the others wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jupyter_jax_trainer.jobdir.state import CompiledFunction, RankState, Snapshot
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.states import ENDED, State
from jupyter_jax_trainer.text import duration, joined
from jupyter_jax_trainer.worker.records import KINDS

_SHARE = 0.1  # of a step: what a rank costs is worth a word from there on
_FUNCTIONS = 5  # that are named
_SHORT = 0.05  # seconds that are not worth a word
_WAITING = (State.QUEUED, State.PENDING, State.SUSPENDED)


@dataclass(frozen=True, kw_only=True)
class Lateness:
    """How late a rank comes to what the ranks do together.

    A rank can come to no collective while it is outside of jax: while it loads data, say. How long
    it is there is measured in the rank by looks at its main thread, over the last steps, and counts
    from the rank that is there for the shortest. Each rank measures by its own clock, and only
    spans of time are compared. Where jax computes something meanwhile, as GPUs do, a rank may be
    outside of it at no cost: what it costs is this at most. A rank whose device is slow is not late
    by this measure, for it waits in jax.

    Attributes
    ----------
    step, host
        Seconds that a step takes, and how many of them the rank is outside of jax.
    late
        How many more than the rank that is outside for the shortest time.
    """

    rank: int
    step: float
    host: float
    late: float


def lateness(ranks: Sequence[RankState]) -> list[Lateness]:
    """Return how late each rank comes; nothing where that can't be told yet.

    Ranks that don't report take the steps that others report.
    """
    paces = [(rank["rank"], rank.get("pace")) for rank in ranks]
    known = [(rank, pace) for rank, pace in paces if pace is not None and pace["seconds"] > 0]
    steps = [pace["seconds"] / pace["steps"] for _, pace in known if pace["steps"]]
    if len(known) < max(2, len(ranks)) or not steps:
        return []
    step = min(steps)
    hosts = {rank: step * min(1.0, pace["host"] / pace["seconds"]) for rank, pace in known}
    least = min(hosts.values())
    return [
        Lateness(rank=rank, step=step, host=host, late=host - least) for rank, host in hosts.items()
    ]


def straggler(ranks: Sequence[RankState]) -> tuple[int, str] | None:
    """Return a rank that costs more than a tenth of a step, and what to say of it.

    Its cost is how much later it is than the next latest rank: without it, a step would be that
    much shorter.
    """
    found = sorted(lateness(ranks), key=lambda one: one.late)
    if len(found) < 2:
        return None
    last, before = found[-1], found[-2]
    cost = last.late - before.late
    if cost <= _SHARE * last.step:
        return None
    words = say.STRAGGLER(
        rank=last.rank, percent=f"{100 * cost / last.step:.0f}", late=seconds_text(cost)
    )
    return last.rank, words


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """What the time of a job was spent on.

    Attributes
    ----------
    parts
        Seconds by what they were spent on; the names are those of `PARTS`.
    goodput
        The share of steps in all of it, from 0 to 1.
    """

    parts: Mapping[str, float]
    goodput: float


PARTS = ("waiting", "starting", *KINDS, "other")
_NAMES = {
    "waiting": say.WAITING,
    "starting": say.STARTING,
    "importing": say.IMPORTING,
    "compiling": say.COMPILING,
    "data": say.LOADING,
    "host": say.ON_HOST,
    "steps": say.IN_STEPS,
    "checkpoints": say.SAVING,
    "other": say.ELSE,
}


def timeline(snapshot: Snapshot, created: float, now: float) -> Timeline | None:
    """Return where the time of a job has gone; None where its ranks have said nothing of it.

    The rank that has spent the least time in steps counts: the others waited for it there. What
    came before a restart is part of the rest.

    Parameters
    ----------
    created
        When the job was submitted.
    now
        The time, for a job that has not ended.
    """
    told = [spent for rank in snapshot["ranks"] if (spent := rank.get("spent"))]
    history = snapshot["history"]
    if not told or not history:
        return None
    parts = dict.fromkeys(PARTS, 0.0)
    ends = [*(entry["time"] for entry in history[1:]), now]
    # A job is submitted a moment before it has a state.
    parts["waiting"] = max(0.0, history[0]["time"] - created)
    for entry, end in zip(history, ends, strict=True):
        name = "waiting" if entry["state"] in _WAITING else "other"
        name = "starting" if entry["state"] == State.STARTING else name
        if entry["state"] not in ENDED:
            parts[name] += max(0.0, end - entry["time"])
    slowest = min(told, key=lambda spent: spent.get("steps", 0.0))
    for kind in KINDS:
        parts[kind] = min(slowest.get(kind, 0.0), parts["other"])
        parts["other"] -= parts[kind]
    total = sum(parts.values())
    return Timeline(parts=parts, goodput=parts["steps"] / total if total else 0.0)


def timeline_text(found: Timeline) -> str:
    """Return where the time has gone, in words."""
    parts = [
        say.PART_OF_TIME(part=_NAMES[name](), time=seconds_text(seconds))
        for name, seconds in found.parts.items()
        if seconds >= _SHORT
    ]
    return say.GOODPUT(percent=f"{100 * found.goodput:.0f}", parts=joined(parts))


def functions_of(ranks: Sequence[RankState]) -> list[CompiledFunction]:
    """Return which functions took longest to compile, in the rank that took longest for each."""
    found: dict[str, CompiledFunction] = {}
    for rank in ranks:
        for one in rank.get("compiled", {}).get("functions", []):
            known = found.get(one["name"])
            if known is None or known["seconds"] < one["seconds"]:
                found[one["name"]] = one
    return sorted(found.values(), key=lambda one: -one["seconds"])[:_FUNCTIONS]


def functions_text(ranks: Sequence[RankState]) -> str:
    """Return for how long functions were compiled, in words; empty for none."""
    return joined(
        say.COMPILED_FUNCTION(name=one["name"], time=seconds_text(one["seconds"]))
        for one in functions_of(ranks)
        if one["seconds"] >= _SHORT
    )


def seconds_text(seconds: float) -> str:
    """Return a span of time, in milliseconds where it is short."""
    return duration(seconds) if seconds >= 1 else f"{1000 * seconds:.0f} ms"
