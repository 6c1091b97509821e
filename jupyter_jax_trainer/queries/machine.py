"""The resources of a job's ranks as its page draws them: few lines, however many ranks there are.

Up to eight ranks have a line each. For more, it draws the minimum, the median and the maximum, and
lines of up to three ranks that are far from the median.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.resources import ResourceReader, quantities
from jupyter_jax_trainer.queries.protocol import Course, CourseLine, Machine, Role

_ALONE = 8  # ranks that each have a line
_ODD = 3  # lines of ranks that differ
_FAR, _APART = 4.0, 0.1  # times the median deviation, and the median: beyond both
_POINTS = 160  # of a line
_SPARK = 24  # of the small line in the table of ranks
_GIB, _MB = float(1 << 30), 1e6


Reading = Callable[[Mapping[str, float]], float | None]
"""How a value is read from what is known of a rank."""


@dataclass(frozen=True)
class _Kind:
    """What is drawn in one plot.

    Attributes
    ----------
    name, unit
        Its name, and the unit in which it is drawn.
    value, limit
        How a sample says how much is used, and of how much.
    idle
        It is drawn even if no rank uses any of it.
    """

    name: str
    unit: float
    value: Reading
    limit: Reading = lambda _: None
    idle: bool = False


def _of_devices(
    name: str, choose: Callable[[Sequence[float]], float]
) -> Callable[..., float | None]:
    def value(known: Mapping[str, float]) -> float | None:
        found = [amount for key, amount in known.items() if key.endswith(f"/{name}")]
        return choose(found) if found else None

    return value


_KINDS = (
    _Kind("memory", _GIB, lambda known: known.get("memory"), lambda known: known.get("limit")),
    _Kind("cpu", 1.0, lambda known: known.get("cpu"), lambda known: known.get("cores")),
    _Kind("device_memory", _GIB, _of_devices("memory", max), _of_devices("limit", max)),
    _Kind("gpu", 0.01, _of_devices("use", statistics.fmean), idle=True),
    _Kind("power", 1.0, _of_devices("power", sum)),
    _Kind("received", _MB, lambda known: known.get("received")),
    _Kind("sent", _MB, lambda known: known.get("sent")),
    _Kind("read", _MB, lambda known: known.get("read")),
    _Kind("written", _MB, lambda known: known.get("written")),
)

Points = dict[int, float]
"""Values by their place in time."""


class MachineReader:
    """Reads what the ranks of a job use, again and again.

    Parameters
    ----------
    job
        The job.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._reader = ResourceReader(job.resources_file)
        self._ranks: dict[int, list[tuple[float, list[float | None]]]] = {}
        self._limits: dict[int, list[float | None]] = {}

    @property
    def ranks(self) -> int:
        """How many ranks have said something."""
        return len(self._ranks)

    def read(self) -> Machine | None:
        """Return what is drawn; None while nothing has changed."""
        again, found = self._reader.read()
        if again:
            self._ranks.clear()
        begin, end = self._job.resources_time
        wanted = [line for line in found if begin <= line["time"] <= end]
        for line in wanted:
            known, rank = quantities(line), line["rank"]
            values = [kind.value(known) for kind in _KINDS]
            self._ranks.setdefault(rank, []).append((line["time"], values))
            self._limits[rank] = [kind.limit(known) for kind in _KINDS]
        if not wanted:
            return None
        times = [time for course in self._ranks.values() for time, _ in course]
        began, ended = min(times), max(times)
        courses = [self._course(number, began, ended) for number in range(len(_KINDS))]
        return {
            "kind": "machine",
            "courses": [course for course in courses if course is not None],
            "sparks": self._sparks(began, ended),
        }

    def _course(self, number: int, began: float, ended: float) -> Course | None:
        """Return the plot of a kind; None where there is nothing to see."""
        width = max(1e-3, (ended - began) / _POINTS)
        points = {rank: self._points(rank, number, began, width) for rank in sorted(self._ranks)}
        points = {rank: of_rank for rank, of_rank in points.items() if of_rank}
        kind = _KINDS[number]
        used = any(any(of_rank.values()) for of_rank in points.values())
        if not points or not (used or kind.idle):
            return None

        def line(rank: int | None, role: Role, drawn: Points) -> CourseLine:
            placed = [
                [round(began + (place + 0.5) * width, 1), round(value, 4)]
                for place, value in sorted(drawn.items())
            ]
            return {"rank": rank, "role": role, "points": placed}

        if len(points) <= _ALONE:
            lines = [line(rank, "rank", of_rank) for rank, of_rank in points.items()]
        else:
            lines = [line(None, role, drawn) for role, drawn in _band(points).items()]
            lines += [line(rank, "rank", points[rank]) for rank in _odd(points)]
        limits = [of_rank[number] for of_rank in self._limits.values()]
        known = [limit for limit in limits if limit is not None]
        return {
            "name": kind.name,
            "limit": max(known) / kind.unit if known else None,
            "lines": lines,
        }

    def _points(self, rank: int, number: int, began: float, width: float) -> Points:
        """Return the most of each part of the time."""
        points: Points = {}
        unit = _KINDS[number].unit
        for time, values in self._ranks[rank]:
            value = values[number]
            if value is not None:
                place = int((time - began) / width)
                points[place] = max(points.get(place, 0.0), value / unit)
        return points

    def _sparks(self, began: float, ended: float) -> list[list[float]]:
        """Return of each rank how its memory went, in few points."""
        width = max(1e-3, (ended - began) / _SPARK)
        found = [
            self._points(rank, 0, began, width) if rank in self._ranks else {}
            for rank in range(1 + max(self._ranks))
        ]
        return [[round(points[place], 2) for place in sorted(points)] for points in found]


def _band(by_rank: Mapping[int, Points]) -> dict[Role, Points]:
    """Return the least, the median and the most of all ranks."""
    band: dict[Role, Points] = {"least": {}, "median": {}, "most": {}}
    last: dict[int, float] = {}
    for place in sorted({place for points in by_rank.values() for place in points}):
        # Ranks sample at different times: what one has said last counts until it says more.
        last |= {rank: points[place] for rank, points in by_rank.items() if place in points}
        values = sorted(last.values())
        band["least"][place], band["most"][place] = values[0], values[-1]
        band["median"][place] = statistics.median(values)
    return band


def _odd(by_rank: Mapping[int, Points]) -> list[int]:
    """Return the outliers among ranks, the farthest from the median first."""
    means = {rank: statistics.fmean(points.values()) for rank, points in by_rank.items()}
    middle = statistics.median(means.values())
    away = {rank: abs(mean - middle) for rank, mean in means.items()}
    far = max(_FAR * statistics.median(away.values()), _APART * middle)
    odd = [rank for rank, distance in away.items() if distance > far]
    return sorted(odd, key=lambda rank: -away[rank])[:_ODD]
