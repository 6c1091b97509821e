"""Reads what XLA has recorded: which operations ran, when, and on which device."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_jax_trainer.profiles.summary import CPU, Operation, RankSummary

if TYPE_CHECKING:
    from jax.profiler import ProfileData

_DEVICE = re.compile(r"/device:(GPU|TPU):\d+")
_HOST = "/host:CPU"
_OPERATIONS = "XLA Ops"  # the line of a TPU; a GPU has one for each of its streams
_STREAM = "Stream"
_OF_XLA = "tf_XLA"  # how the threads are called that run nothing but operations on a CPU
_TIMES = ("Task Environment", "profile_start_time", "profile_stop_time")
_COLLECTIVE = re.compile(
    r"(ragged-)?(all-(reduce|gather|to-all)|reduce-scatter|collective-|send|recv|nccl)", re.I
)
_NO_OPERATION = re.compile(r"[ :(]")  # in the name of an event; to look at its fields takes long
_GRAPH = re.compile(r"command_buffer(_\d+)?")  # many operations of a GPU, launched as one
_EVENTS = 1_000_000  # that are looked at
_MOST = 30  # operations
_NANO = 1e-9


@dataclass(slots=True)
class _Event:
    """An operation that ran once: from when to when, in nanoseconds."""

    start: float
    end: float
    name: str
    module: str
    device: str


@dataclass
class _Totals:
    """What is added up of a trace."""

    operations: dict[tuple[str, str], Operation] = field(default_factory=dict)
    busy: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    waiting: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    left: int = _EVENTS

    def add(self, events: Iterable[_Event]) -> None:
        """Add the events of one line; those within another one are taken off that."""
        inside: list[_Event] = []
        for event in sorted(events, key=lambda one: (one.start, -one.end)):
            while inside and inside[-1].end <= event.start:
                inside.pop()
            took = (event.end - event.start) * _NANO
            if inside:
                self._operation(inside[-1])["seconds"] -= took
            operation = self._operation(event)
            operation["seconds"] += took
            operation["count"] += 1
            self.busy.setdefault(event.device, []).append((event.start, event.end))
            if operation["collective"]:
                self.waiting.setdefault(event.device, []).append((event.start, event.end))
            inside.append(event)

    def _operation(self, event: _Event) -> Operation:
        key = (event.module, event.name)
        if key not in self.operations:
            self.operations[key] = {
                "name": event.name,
                "module": event.module,
                "seconds": 0.0,
                "count": 0,
                "collective": _COLLECTIVE.match(event.name) is not None,
            }
        return self.operations[key]


def load(path: Path) -> ProfileData:
    """Read a trace.

    Raises
    ------
    Exception
        It is none, or jax can't read it.
    """
    try:
        from jaxlib._profile_data import ProfileData  # jax itself takes half a second to import
    except ImportError:
        from jax.profiler import ProfileData
    return ProfileData.from_file(str(path))


def read(rank: int, path: Path) -> RankSummary:
    """Sum up a trace, without what is allocated.

    Raises
    ------
    Exception
        It is none, or jax can't read it.
    """
    data = load(path)
    totals = _Totals()
    platform = _add_devices(data, totals)
    if platform is None and _add_host(data, totals):
        platform = CPU
    operations = sorted(totals.operations.values(), key=lambda one: -one["seconds"])
    devices = len(totals.busy)
    return {
        "rank": rank,
        "platform": platform,
        "devices": devices,
        "seconds": _seconds(data, totals),
        "busy": _average(totals.busy, devices),
        "collectives": _average(totals.waiting, devices),
        "operations": operations[:_MOST],
        "allocations": [],
        "cut": totals.left <= 0,
        "problem": None,
    }


def _add_devices(data: ProfileData, totals: _Totals) -> str | None:
    """Add what devices have run; give their kind, if there are any."""
    kind = None
    for plane in data.planes:
        found = _DEVICE.fullmatch(plane.name)
        if found is None:
            continue
        lines = list(plane.lines)
        wanted = [line for line in lines if line.name == _OPERATIONS] or [
            line for line in lines if line.name.startswith(_STREAM)
        ]
        for line in wanted:
            totals.add(_events(line, totals, plane.name))
            kind = found[1].lower()
    return kind


def _add_host(data: ProfileData, totals: _Totals) -> bool:
    """Add what a CPU has run; say whether that is anything.

    Small programs run in the thread that calls them. Such lines come last: most of their events are
    no operations, and only so many are looked at.
    """
    for plane in data.planes:
        if plane.name == _HOST:
            for line in sorted(plane.lines, key=lambda one: not one.name.startswith(_OF_XLA)):
                totals.add(_events(line, totals, None))
    return bool(totals.operations)


def _events(line: ProfileData.Line, totals: _Totals, device: str | None) -> Iterator[_Event]:
    """Yield the operations of a line; on a host others are there, too."""
    for event in line.events:
        totals.left -= 1
        if totals.left <= 0:
            return
        name, module, on = None, "", device
        if device is None and _NO_OPERATION.search(event.name):
            continue
        for key, value in event.stats:
            if key == "hlo_op":
                name = str(value)
            elif key == "hlo_module":
                module = str(value)
            elif key == "device_ordinal" and device is None:
                on = str(value)
            if device is not None and name and module:
                break  # to look at the rest would take as long again
        if name is None and device is None:
            continue
        if name is None or _GRAPH.fullmatch(name):
            name = event.name.partition(" = ")[0].removeprefix("%")
        yield _Event(
            start=event.start_ns,
            end=event.start_ns + event.duration_ns,
            name=name,
            module=module,
            device=on or "",
        )


def _seconds(data: ProfileData, totals: _Totals) -> float:
    """Return how long it was recorded."""
    plane = data.find_plane_with_name(_TIMES[0])
    if plane is not None:
        times = dict(plane.stats)
        begun, ended = times.get(_TIMES[1]), times.get(_TIMES[2])
        if isinstance(begun, int) and isinstance(ended, int) and ended > begun:
            return (ended - begun) * _NANO
    spans = [span for found in totals.busy.values() for span in found]
    if not spans:
        return 0.0
    return (max(end for _, end in spans) - min(start for start, _ in spans)) * _NANO


def _average(spans: dict[str, list[tuple[float, float]]], devices: int) -> float:
    """Return the seconds that the spans cover, averaged over devices."""
    if not devices:
        return 0.0
    total = 0.0
    for found in spans.values():
        reached = float("-inf")
        for start, end in sorted(found):
            total += max(0.0, end - max(start, reached))
            reached = max(reached, end)
    return total * _NANO / devices
