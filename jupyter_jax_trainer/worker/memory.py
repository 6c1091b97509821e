"""How much memory a machine or a container has, and how much of it is in use (Linux)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")


@dataclass(frozen=True)
class Bound:
    """Memory that cannot be exceeded: the machine's, or that of a control group.

    Attributes
    ----------
    used
        Bytes in use, without what can be given up at once.
    limit
        Bytes there are.
    """

    used: int
    limit: int

    @property
    def free(self) -> int:
        """Bytes that could be used now."""
        return max(0, self.limit - self.used)


def tightest(root: Path = ROOT) -> Bound | None:
    """Return the bound of this process that leaves the least; None where the system has none.

    The bounds of the control groups that this process is in count (a container's, a session's),
    those of version 1 as those of version 2. What a group keeps of files it can give up.

    Parameters
    ----------
    root
        Where ``proc`` and ``sys`` are.
    """
    values = dict(line.split(":", 1) for line in lines_of(root / "proc/meminfo") if ":" in line)
    if "MemAvailable" not in values:
        return None
    free, there = (_kilobytes(values.get(name, "")) for name in ("MemAvailable", "MemTotal"))
    there = max(there, free)
    bounds = [Bound(there - free, there)]
    for group, bound, used in _groups(root):
        limit, taken = read(group / bound), _taken(group, used)
        if limit.isdecimal() and taken is not None:
            bounds.append(Bound(taken, int(limit)))
    return min(bounds, key=lambda one: one.free)


def of_container(root: Path = ROOT) -> int | None:
    """Return the bytes that the control group of this process uses; None where that is unknown."""
    found = (_taken(group, used) for group, _, used in _groups(root))
    return next((taken for taken in found if taken is not None), None)


def _groups(root: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield the groups of this process and those above, with the files of bound and use."""
    for line in lines_of(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top, bound, used = root / "sys/fs/cgroup", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            bound, used = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        # In a container the path may be the host's, which is not there: its own group is the top.
        group = top / path.lstrip("/")
        for place in (group, *group.parents):
            yield place, bound, used
            if place == top:
                break


def _taken(group: Path, used: str) -> int | None:
    taken = read(group / used)
    if not taken.isdecimal():
        return None
    stat = dict(line.split(maxsplit=1) for line in lines_of(group / "memory.stat") if " " in line)
    files = int(stat.get("total_inactive_file") or stat.get("inactive_file") or 0)
    return max(0, int(taken) - files)


def _kilobytes(text: str) -> int:
    return int(text.split()[0]) * 1024 if text else 0


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file of the system; none where it cannot be read."""
    return read(path).splitlines()


def read(path: Path) -> str:
    """Return the text of a file of the system; nothing where it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""
