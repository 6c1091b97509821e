"""What a profile says in short, by rank, and over all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, cast

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.jobdir.formats import Shape, misfit
from jupyter_jax_trainer.messages import profiles as say

HOST, DEVICE, CPU = "host", "device", "cpu"
_IDLE = 0.3  # share of idle device time that makes a job host-bound
_MOST = 30  # operations, or places that allocate
_TEXT = 400  # characters


class Operation(TypedDict):
    """An operation of a compiled program.

    Attributes
    ----------
    module
        The program.
    seconds, count
        Of all devices of the rank together; what it calls is counted there.
    collective
        Whether it waits for other devices.
    """

    name: str
    module: str
    seconds: float
    count: int
    collective: bool


class Allocation(TypedDict):
    """What one line of the program has allocated on devices, and not freed: bytes and buffers."""

    where: str
    device: str
    size: int
    count: int


class RankSummary(TypedDict):
    """What the profile of one rank says.

    Attributes
    ----------
    platform
        ``cpu``, ``gpu`` or ``tpu``; None where no operation ran.
    devices
        How many devices ran something.
    seconds
        For how long it was profiled.
    busy, collectives
        Seconds in which a device ran operations, and those that wait for others; on average.
    operations, allocations
        The largest.
    cut
        There were too many events: those at the end are not counted.
    problem
        Why the rest is empty.
    """

    rank: int
    platform: str | None
    devices: int
    seconds: float
    busy: float
    collectives: float
    operations: list[Operation]
    allocations: list[Allocation]
    cut: bool
    problem: str | None


class SharedOperation(Operation):
    """An operation over all ranks: `seconds` is the average, `most` what the slowest rank took."""

    most: float
    rank: int


class ProfileSummary(TypedDict):
    """What a profile says.

    Attributes
    ----------
    bound
        What bounds the job: its ``host``, or its ``device``; None where that can't be told.
    notes
        What there is to know of it, as sentences.
    """

    name: str
    bound: str | None
    notes: list[str]
    ranks: list[RankSummary]
    operations: list[SharedOperation]


_NUMBER = (int, float)
_OPERATION: dict[str, Shape] = {
    "name": str,
    "module": str,
    "seconds": _NUMBER,
    "count": int,
    "collective": bool,
}
_ALLOCATION: dict[str, Shape] = {"where": str, "device": str, "size": int, "count": int}
_RANK: dict[str, Shape] = {
    "rank": int,
    "platform": (str, type(None)),
    "devices": int,
    "seconds": _NUMBER,
    "busy": _NUMBER,
    "collectives": _NUMBER,
    "operations": [_OPERATION],
    "allocations": [_ALLOCATION],
    "cut": bool,
    "problem": (str, type(None)),
}


def read(found: JsonValue) -> RankSummary | None:
    """Return a summary in bounds, if it is one."""
    if misfit(found, _RANK) is not None:
        return None
    one = cast(RankSummary, found)
    for operation in one["operations"]:
        operation["name"] = operation["name"][:_TEXT]
        operation["module"] = operation["module"][:_TEXT]
    for allocation in one["allocations"]:
        allocation["where"] = allocation["where"][:_TEXT]
    one["operations"], one["allocations"] = one["operations"][:_MOST], one["allocations"][:_MOST]
    return one


def missing(rank: int, problem: str) -> RankSummary:
    """Return the summary of a rank of which there is nothing to say but why."""
    return {
        "rank": rank,
        "platform": None,
        "devices": 0,
        "seconds": 0.0,
        "busy": 0.0,
        "collectives": 0.0,
        "operations": [],
        "allocations": [],
        "cut": False,
        "problem": problem,
    }


def of_ranks(name: str, ranks: Sequence[RankSummary]) -> ProfileSummary:
    """Sum up what the ranks of a profile say."""
    read = [one for one in ranks if one["problem"] is None]
    platforms = {one["platform"] for one in read} - {None}
    bound, notes = None, list[str]()
    if platforms and CPU not in platforms:
        total = sum(one["seconds"] for one in read)
        idle = 1 - sum(one["busy"] for one in read) / total if total else 0.0
        bound = HOST if idle > _IDLE else DEVICE
        notes.append(say.HOST_BOUND(idle=idle) if bound == HOST else say.DEVICE_BOUND(idle=idle))
    elif platforms:
        notes.append(say.ON_CPU())
    elif read:
        notes.append(say.NOTHING_RAN())
    if any(one["collectives"] for one in read):
        notes.append(say.COLLECTIVES_WAIT())
    if any(one["cut"] for one in read):
        notes.append(say.EVENTS_CUT())
    return {
        "name": name,
        "bound": bound,
        "notes": notes,
        "ranks": [*ranks],
        "operations": _shared(read),
    }


def _shared(ranks: Sequence[RankSummary]) -> list[SharedOperation]:
    """Return the operations that take longest, averaged over ranks."""
    found: dict[tuple[str, str], SharedOperation] = {}
    for one in ranks:
        for operation in one["operations"]:
            key = (operation["module"], operation["name"])
            if key not in found:
                found[key] = {**operation, "most": operation["seconds"], "rank": one["rank"]}
                continue
            known = found[key]
            known["seconds"] += operation["seconds"]
            known["count"] += operation["count"]
            if operation["seconds"] > known["most"]:
                known["most"], known["rank"] = operation["seconds"], one["rank"]
    for operation in found.values():
        operation["seconds"] /= len(ranks)
    return sorted(found.values(), key=lambda one: -one["seconds"])[:_MOST]
