"""``resources.jsonl``: what the ranks of a job used of their machines, bounded by thinning.

It is rewritten when it has become long, so its readers look whether it is still the file that they
have read. A cell of a session has none of its own: its ranks are the session's.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.errors import JobDirError
from jupyter_jax_trainer.jobdir.files import LineReader, LineWriter, open_regular, write_private
from jupyter_jax_trainer.jobdir.formats import Shape, misfit
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.records import Frame, Resource
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.text import joined, memory
from jupyter_jax_trainer.worker.records import HeldArray, Sample

MINUTE = 60.0
_LEAST, _EACH = 2_000, 128  # lines of a file that are not thinned, and those of each rank
_WHOLE = 2 * MINUTE  # at the end, which are kept as they are
_NAMED = 5  # arrays that a sentence lists
_POINTS = 4  # of the last minute

_MOST = {"samples": 1_000, "devices": 16, "arrays": 16}  # of a message, and of a sample
_MAX_TEXT = 200  # characters of a name, a type or a problem
_HIGHEST = float(1 << 62)
_NUMBER = (int, float, type(None))
_QUANTITIES = ("cpu", "cores", "received", "sent", "read", "written")
_BYTES = ("memory", "used", "limit")
_OF_DEVICE = ("memory", "peak", "limit", "use", "power")
_SAMPLE: dict[str, Shape] = {
    "time": (int, float),
    **dict.fromkeys((*_QUANTITIES, *_BYTES), _NUMBER),
    "devices": [dict.fromkeys(_OF_DEVICE, _NUMBER)],
}
_ARRAY: dict[str, Shape] = {"name": (str, type(None)), "type": str, "size": int}


def samples_record(message: Mapping[str, JsonValue]) -> list[Sample]:
    """Read the samples that a rank has sent; it may be somebody else's, and have said anything.

    Raises
    ------
    KeyError, TypeError
        They are none.
    """
    told: Any = message["samples"]
    if not isinstance(told, list):
        raise TypeError("samples are a list")
    return [_sample(one) for one in told[: _MOST["samples"]]]


def problem_record(message: Mapping[str, JsonValue]) -> str | None:
    """Read why a rank has no samples, as it has sent it."""
    problem = message.get("problem")
    return problem[:_MAX_TEXT] if isinstance(problem, str) else None


def _sample(one: Any) -> Sample:
    if (fault := misfit(one, _SAMPLE, "the sample")) is not None:
        raise TypeError(f"{fault} has another type")
    numbers = {name: _number(one[name]) for name in (*_QUANTITIES, *_BYTES)}
    devices = [
        {name: _number(device[name]) for name in _OF_DEVICE}
        for device in one["devices"][: _MOST["devices"]]
    ]
    found = {"time": _number(one["time"]) or 0.0, **numbers, "devices": devices}
    if isinstance(arrays := one.get("arrays"), list):
        found["arrays"] = [
            {
                "name": array["name"] and array["name"][:_MAX_TEXT],
                "type": array["type"][:_MAX_TEXT],
                "size": _number(array["size"]),
            }
            for array in arrays[: _MOST["arrays"]]
            if misfit(array, _ARRAY, "the array") is None
        ]
    return cast(Sample, found)


def resource(sample: Sample, rank: int, frame: Frame | None = None) -> Resource:
    """Return the line of a sample."""
    line = cast(Resource, {**cast(Mapping[str, JsonValue], sample), "rank": rank})
    if frame is not None:
        line["frame"] = frame
    return line


def _number(value: float | None) -> float | None:
    """Return a number that can be drawn; None for what is none, as JSON in Python has some."""
    if value is None or not math.isfinite(value):
        return None
    return min(max(0, value), _HIGHEST)


class ResourceWriter:
    """Appends samples, and thins the file when it has become long.

    Parameters
    ----------
    path
        The file; made when the first sample is written.
    ranks
        How many there are.
    """

    def __init__(self, path: Path, ranks: int) -> None:
        self._path = path
        self._most = max(_LEAST, _EACH * ranks)
        self._file = LineWriter(path)
        self._count: int | None = None

    def write(self, lines: Sequence[Resource]) -> None:
        """Append samples.

        Raises
        ------
        OSError
            They can't be written.
        """
        if self._count is None:  # what a writer has written that is gone
            self._count = sum(1 for _ in LineReader[Resource](self._path).read())
        self._file.write(*lines)
        self._count += len(lines)
        if self._count > self._most:
            self._thin()

    def _thin(self) -> None:
        # It is read twice: all that is in it at once takes four times as much memory.
        points = [_point(line) for line in LineReader[Resource](self._path).read()]
        kept = _kept(points, self._most // 2)
        lines = (
            json.dumps(line).encode() + b"\n"
            for number, line in enumerate(LineReader[Resource](self._path).read())
            if number in kept
        )
        part = self._path.with_name(f"{self._path.name}.{os.getpid()}.part")
        try:
            write_private(part, b"".join(lines))
            part.replace(self._path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        self._file = LineWriter(self._path)
        self._count = len(kept)


class _Point(NamedTuple):
    """What decides whether a sample is kept."""

    time: float
    rank: int
    fullness: float


def _point(line: Resource) -> _Point:
    return _Point(line["time"], line["rank"], fullness(line))


def _kept(points: Sequence[_Point], most: int) -> set[int]:
    """Return the indices of about `most` samples: all of the last minutes, fewer of before.

    Earlier time is cut into equal intervals; each rank keeps its sample with the fullest memory.
    """
    end = max((point.time for point in points), default=0.0) - _WHOLE
    begin = min((point.time for point in points), default=0.0)
    last = [number for number, point in enumerate(points) if point.time > end][-most:]
    ranks = len({point.rank for point in points})
    width = max(1e-3, (end - begin) / max(1, (most - len(last)) // max(1, ranks)))
    best: dict[tuple[int, int], int] = {}
    for number, point in enumerate(points):
        if point.time <= end:
            place = point.rank, int((point.time - begin) / width)
            if place not in best or point.fullness > points[best[place]].fullness:
                best[place] = number
    return {*best.values(), *last}


def quantities(sample: Sample) -> dict[str, float]:
    """Return what is known in a sample by its names: ``memory``, ``device0/memory``."""
    numbers = cast(Mapping[str, float | None], sample)
    found = {name: numbers[name] for name in (*_QUANTITIES, *_BYTES)}
    for place, device in enumerate(sample["devices"]):
        of_device = cast(Mapping[str, float | None], device)
        found |= {f"device{place}/{name}": of_device[name] for name in _OF_DEVICE}
    return {name: value for name, value in found.items() if value is not None}


def fullness(sample: Sample) -> float:
    """Return the highest share of memory in use, of the host and all devices."""
    return max((used / limit for used, limit in bounds(sample) if used and limit), default=0.0)


def bounds(sample: Sample) -> list[tuple[int | None, int | None]]:
    """Return of the host and each device how much memory is in use, and how much there is."""
    devices = [(device["memory"], device["limit"]) for device in sample["devices"]]
    return [(sample["used"], sample["limit"]), *devices]


class ResourceReader:
    """Reads samples, each once; all of them again when the file was thinned.

    Parameters
    ----------
    path
        The file; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = LineReader[Resource](path)
        self._file = 0  # its inode

    def read(self) -> tuple[bool, list[Resource]]:
        """Return whether it begins again, and the samples that have come."""
        again, inode = False, 0
        with contextlib.suppress(FileNotFoundError), open_regular(self._path) as file:
            inode = os.fstat(file.fileno()).st_ino
        if inode != self._file:
            again, self._file = self._file != 0, inode
            self._lines = LineReader[Resource](self._path)
        return again, list(self._lines.read())


def home_of(directory: JobDir) -> JobDir:
    """Return the directory that has the samples of a job: of a cell it is its session's."""
    with contextlib.suppress(JobDirError, KeyError):
        cell_of = directory.read_manifest().get("cell_of")
        if cell_of is not None:
            session = JobDir(directory.path.parent / cell_of["session"])
            if session.read_manifest()["uid"] == cell_of["uid"]:
                return session
    return directory


def last_minute(directory: JobDir, rank: int, *, of_device: bool = False) -> list[str]:
    """Return what the memory of a rank was in the last minute that is known, in sentences.

    Parameters
    ----------
    of_device
        A device's memory ran out, even if no sample shows it: an allocation that is too large
        fails as a whole.
    """
    found = LineReader[Resource](home_of(directory).resources).read()
    lines = [line for line in found if line["rank"] == rank]
    lines = [line for line in lines if line["time"] > lines[-1]["time"] - MINUTE]
    if not lines:
        return []
    said = [_course(lines, of_device)]
    named = next((line["arrays"] for line in reversed(lines) if line.get("arrays")), None)
    if named:
        arrays = joined((array_text(one) for one in named[:_NAMED]), last="and")
        said.append(say.LARGEST_ARRAYS(arrays=arrays))
    return said


def _course(lines: Sequence[Resource], of_device: bool) -> str:
    """Say how the fullest memory of a rank has filled up."""
    last = lines[-1]
    parts = [used / limit if used and limit else 0.0 for used, limit in bounds(last)]
    if of_device and any(limit for _, limit in bounds(last)[1:]):
        parts[0] = -1.0
    place = parts.index(max(parts))  # 0 is the host, else a device
    points = [line for line in lines if len(bounds(line)) > place]
    wanted = [last["time"] - MINUTE * part / (_POINTS - 1) for part in range(_POINTS - 1, -1, -1)]
    chosen = list({id(line): line for line in (_nearest(points, at) for at in wanted)}.values())
    if place == 0:
        amounts = [memory(line["memory"]) for line in chosen if line["memory"] is not None]
        limit = last["limit"]
        said = say.LAST_MINUTE if not shares(last) else say.LAST_MINUTE_SHARED
        used = memory(last["used"] or 0)
    else:
        known = [line["devices"][place - 1]["memory"] for line in chosen]
        amounts = [memory(amount) for amount in known if amount is not None]
        limit, said, used = last["devices"][place - 1]["limit"], say.LAST_MINUTE_OF_DEVICE, ""
    of = memory(limit) if limit else say.UNKNOWN()
    seconds = f"{last['time'] - lines[0]['time']:.0f}"
    return said(
        rank=last["rank"],
        seconds=seconds,
        course=" → ".join(amounts),
        limit=of,
        used=used,
        device=place - 1,
    )


def _nearest(lines: Sequence[Resource], time: float) -> Resource:
    return min(lines, key=lambda line: abs(line["time"] - time))


def shares(sample: Sample) -> bool:
    """Return whether much of the host's memory that is in use is not this rank's."""
    return (sample["memory"] or 0) < 0.8 * (sample["used"] or 0)


def array_text(array: HeldArray) -> str:
    """Return ``params['w'] float32[4096,4096] 64 MiB``."""
    return f"{array['name'] or say.NO_NAME()} {array['type']} {memory(array['size'])}"
