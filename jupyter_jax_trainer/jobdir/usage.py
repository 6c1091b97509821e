"""What the ranks of a job use now, in sum, and which of them are about to run out of memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jupyter_jax_trainer.jobdir.resources import MINUTE, bounds, shares
from jupyter_jax_trainer.jobdir.state import Tight, UsageState
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.text import memory, ranks_text
from jupyter_jax_trainer.worker.records import Sample

_FULL, _FILLING, _CALM = 0.9, 0.75, 0.7  # parts of a memory
_GROWN = 0.01  # of a memory in a minute: less is none
_MOST = 8  # warnings at a time


@dataclass
class Usage:
    """Sums up what ranks say, as each of them said it last."""

    last: dict[int, Sample] = field(default_factory=dict)

    def take(self, rank: int, sample: Sample) -> None:
        """Take a sample."""
        self.last[rank] = sample

    def state(self) -> UsageState:
        """Return what is used now."""
        fullest = max(self.last, key=lambda rank: self.last[rank]["memory"] or 0, default=None)
        most = None if fullest is None else self.last[fullest]
        devices = [(rank, one) for rank, said in self.last.items() for one in said["devices"]]
        full = max(devices, key=lambda of: _share(of[1]["memory"], of[1]["limit"]), default=None)
        uses = [one["use"] for _, one in devices if one["use"] is not None]
        return {
            "time": max((one["time"] for one in self.last.values()), default=0.0),
            "cpu": _sum([one["cpu"] for one in self.last.values()]),
            "memory": most and most["memory"],
            "limit": most and most["limit"],
            "used": most["used"] if most and shares(most) else None,
            "rank": fullest,
            "device_memory": full and full[1]["memory"],
            "device_limit": full and full[1]["limit"],
            "device_rank": full and full[0],
            "gpu": sum(uses) / len(uses) if uses else None,
            "power": _sum([one["power"] for _, one in devices]),
        }


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 3) if known else None


def _share(used: int | None, limit: int | None) -> float:
    return used / limit if used and limit else 0.0


Place = tuple[int | str, int | None]
"""A memory: of a rank or a host, and which device."""


class MemoryWatch:
    """Notices memory that is about to run out: nearly full, or soon, and growing."""

    def __init__(self) -> None:
        self._course: dict[Place, deque[tuple[float, float]]] = {}
        self._tight: dict[Place, Tight] = {}

    @property
    def tight(self) -> list[Tight]:
        """What is about to run out now."""
        return list(self._tight.values())[:_MOST]

    def take(self, rank: int, host: str | None, sample: Sample) -> Iterator[Tight]:
        """Take a sample, and yield what has begun to run out."""
        for number, (used, limit) in enumerate(bounds(sample)):
            if not used or not limit:
                continue
            device = number - 1 if number else None
            shared = device is None and shares(sample)
            place: Place = (host or "" if shared else rank, device)
            course = self._course.setdefault(place, deque())
            course.append((sample["time"], used / limit))
            while course[-1][0] - course[0][0] > MINUTE:
                course.popleft()
            found: Tight = {
                "rank": rank,
                "device": device,
                "shared": shared,
                "share": round(used / limit, 3),
                "limit": limit,
            }
            if place in self._tight:
                if used / limit < _CALM:
                    del self._tight[place]
                elif self._tight[place]["rank"] == rank:
                    self._tight[place] = found
            elif _runs_out(course):
                self._tight[place] = found
                yield found


def _runs_out(course: deque[tuple[float, float]]) -> bool:
    (began, first), (now, share) = course[0], course[-1]
    grown = share - first
    if grown < _GROWN or share < max(part for _, part in course) - _GROWN:
        return False
    soon = share + grown * MINUTE / max(1.0, now - began) > 1.0
    return share >= _FULL or (share >= _FILLING and soon)


def tight_text(found: Tight) -> str:
    """Return ``rank 3 uses 92 % of its 16 GiB and grows``."""
    if found["shared"]:
        message = say.TIGHT_MACHINE
    else:
        message = say.TIGHT if found["device"] is None else say.TIGHT_DEVICE
    return message(
        ranks=ranks_text([found["rank"]]),
        share=f"{100 * found['share']:.0f}",
        limit=memory(found["limit"]),
        device=found["device"],
    )


def usage_text(found: UsageState, ranks: int) -> str:
    """Return what is used in one line: ``CPU 7.9 cores · memory 3.1 of 16 GiB (rank 2)``."""
    parts = []
    if found["cpu"] is not None:
        parts.append(say.USES_CPU(cores=f"{found['cpu']:.1f}"))
    if found["memory"] is not None:
        parts.append(
            say.USES_MEMORY(memory=_of(found["memory"], found["limit"], found["rank"], ranks))
        )
    if found["used"] is not None:
        parts.append(say.USED_IN_ALL(memory=memory(found["used"])))
    if found["gpu"] is not None:
        parts.append(say.USES_GPU(percent=f"{100 * found['gpu']:.0f}"))
    if found["device_memory"] is not None:
        words = _of(found["device_memory"], found["device_limit"], found["device_rank"], ranks)
        parts.append(say.USES_DEVICE(memory=words))
    if found["power"] is not None:
        parts.append(say.USES_POWER(watts=f"{found['power']:.0f}"))
    return " · ".join(parts)


def _of(used: int, limit: int | None, rank: int | None, ranks: int) -> str:
    words = memory(used) if not limit else say.PART_OF(used=memory(used), limit=memory(limit))
    return words if ranks == 1 else say.OF_RANK(what=words, rank=rank)
