"""What a process uses of its machine: processor, memory, network and disks (Linux).

All of it is read from a few small files. Elsewhere, and where a file is missing, it is not known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from jupyter_jax_trainer.worker import memory
from jupyter_jax_trainer.worker.processes import descendants
from jupyter_jax_trainer.worker.records import Usage

_COUNTERS = {  # of a control group: the time that it has had of processors, in seconds
    "cpu.stat": ("usage_usec", 1e-6),
    "cpuacct.usage": ("", 1e-9),
}
_SEARCH = 10.0  # seconds between two searches for processes that this one has started


class UsageReader:
    """Reads what is used, again and again; rates are those since the last time.

    Parameters
    ----------
    contained
        The container is this rank's own: what is used in it, is used by the rank.
    root
        Where ``proc`` and ``sys`` are.
    """

    def __init__(self, *, contained: bool, root: Path = memory.ROOT) -> None:
        self._contained, self._root = contained, root
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._tick = os.sysconf("SC_CLK_TCK")
        self._cores = _cores(root)
        self._pids: list[int] = []
        self._search_at = 0.0
        self._looked, self._counted = time.monotonic(), self._count()

    def read(self) -> Usage:
        """Return what is used now."""
        pids = self._processes()
        bound = memory.tightest(self._root)
        own = memory.of_container(self._root) if self._contained else None
        before, self._counted = self._counted, self._count(pids)
        then, self._looked = self._looked, time.monotonic()
        passed = max(1e-3, self._looked - then)

        def rate(name: str) -> float | None:
            if name not in before or name not in self._counted:
                return None
            return round(max(0.0, self._counted[name] - before[name]) / passed, 3)

        return {
            "cpu": rate("cpu"),
            "cores": self._cores,
            "memory": self._resident(pids) if own is None else own,
            "used": None if bound is None else bound.used,
            "limit": None if bound is None else bound.limit,
            "received": rate("received"),
            "sent": rate("sent"),
            "read": rate("read"),
            "written": rate("written"),
        }

    def _count(self, pids: Iterable[int] = ()) -> Mapping[str, float]:
        """Return what only grows."""
        found = {"cpu": self._processor_time(pids)}
        received = sent = 0
        lines = memory.lines_of(self._root / "proc/self/net/dev")[2:]
        for line in lines:
            name, _, numbers = line.partition(":")
            if name.strip() != "lo":
                columns = numbers.split()
                received, sent = received + int(columns[0]), sent + int(columns[8])
        if lines:
            found |= {"received": received, "sent": sent}
        # What a process has read and written counts for its parent once that has waited for it.
        others = (str(pid) for pid in pids if pid != os.getpid())
        counts = [self._disk_bytes(pid) for pid in ("self", *others)]
        if any(counts):
            for name in ("read", "written"):
                found[name] = sum(one.get(name, 0) for one in counts)
        return found

    def _disk_bytes(self, pid: str) -> Mapping[str, int]:
        """Return how much a process has read and written; nothing where that is not known."""
        lines = memory.lines_of(self._root / f"proc/{pid}/io")
        words = dict(line.split(": ", 1) for line in lines)
        if "read_bytes" not in words:
            return {}
        return {"read": int(words["read_bytes"]), "written": int(words["write_bytes"])}

    def _processor_time(self, pids: Iterable[int]) -> float:
        if self._contained and (found := _of_group(self._root)) is not None:
            return found
        total = time.process_time()
        for pid in pids:
            if pid != os.getpid():
                stat = memory.read(self._root / f"proc/{pid}/stat").rpartition(")")[2].split()
                total += sum(map(int, stat[11:13])) / self._tick
        return total

    def _processes(self) -> list[int]:
        """Return this process and those below it, which are looked for now and then."""
        now = time.monotonic()
        if now >= self._search_at:
            self._search_at = now + _SEARCH
            self._pids = [os.getpid(), *descendants(os.getpid())]
        return self._pids

    def _resident(self, pids: Iterable[int]) -> int | None:
        pages = [memory.read(self._root / f"proc/{pid}/statm").split() for pid in pids]
        # What processes share counts once.
        own = [
            int(words[1]) - (int(words[2]) if n else 0) for n, words in enumerate(pages) if words
        ]
        return sum(own) * self._page if own else None


def _of_group(root: Path) -> float | None:
    """Return how many seconds of processors the control group has had."""
    for folder in ("sys/fs/cgroup", "sys/fs/cgroup/cpuacct", "sys/fs/cgroup/cpu,cpuacct"):
        for name, (word, unit) in _COUNTERS.items():
            for line in memory.lines_of(root / folder / name):
                if line.startswith(word):
                    return int(line.split()[-1]) * unit
    return None


def _cores(root: Path) -> float | None:
    """Return how many cores this process may use."""
    found = [float(len(os.sched_getaffinity(0)))] if hasattr(os, "sched_getaffinity") else []
    quota, _, period = memory.read(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if not quota:
        top = root / "sys/fs/cgroup/cpu"
        quota = memory.read(top / "cpu.cfs_quota_us")
        period = memory.read(top / "cpu.cfs_period_us")
    if quota.isdecimal() and period.isdecimal():
        found.append(int(quota) / int(period))
    return min(found, default=None)
