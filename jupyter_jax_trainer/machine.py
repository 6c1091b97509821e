"""Which machine this is: a home directory may be shared by several, with equal host names even."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path

from jupyter_jax_trainer import timeouts

_BEATS = 6  # signs of life of a supervisor in the time after which it is taken for dead
_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Machine:
    """What tells a machine from others.

    Attributes
    ----------
    host
        Its name.
    machine
        A hash of its installation's id; empty where it has none, as many containers.
    boot
        The id that its kernel has since it was started, which all its containers share; empty
        where the system has none.
    """

    host: str
    machine: str
    boot: str


@functools.cache
def this() -> Machine:
    """Return this machine."""
    # The id itself is to be kept confidential (machine-id(5)).
    number = next(filter(None, map(_read, map(Path, _IDS))), "")
    digest = hashlib.sha256(f"jupyter-jax-trainer {number}".encode()).hexdigest()
    return Machine(platform.node(), digest[:16] if number else "", _read(_BOOT))


def beat() -> float:
    """Return the seconds between the signs of life of a job's supervisor."""
    return timeouts.SUPERVISOR.seconds / _BEATS


def free_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes of memory that could be used now; None where the system doesn't say.

    The bounds of the control groups that this process is in count (a container's, a session's),
    those of version 1 as those of version 2. What a group keeps of files it can give up.

    Parameters
    ----------
    root
        Where ``proc`` and ``sys`` are.
    """
    values = dict(line.split(":", 1) for line in _lines(root / "proc/meminfo") if ":" in line)
    if "MemAvailable" not in values:
        return None
    free = int(values["MemAvailable"].split()[0]) * 1024
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top, bound, used = root / "sys/fs/cgroup", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            bound, used = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        group = top / path.lstrip("/")
        # In a container the path may be the host's, which is not there: its own group is the top.
        for place in (group, *group.parents):
            if (left := _left_in(place, bound, used)) is not None:
                free = min(free, left)
            if place == top:
                break
    return free


def _left_in(group: Path, bound: str, used: str) -> int | None:
    """Return what a control group may still use; None where it has no bound."""
    limit, taken = _read(group / bound), _read(group / used)
    if not limit.isdecimal() or not taken.isdecimal():
        return None
    stat = dict(line.split(maxsplit=1) for line in _lines(group / "memory.stat") if " " in line)
    files = int(stat.get("total_inactive_file") or stat.get("inactive_file") or 0)
    return max(0, int(limit) - max(0, int(taken) - files))


def runs_elsewhere(there: Machine, lock: Path) -> bool:
    """Return whether another machine runs a job whose lock is free, as it is seen from here.

    Locks may not reach other machines, so those of another one say nothing.

    Parameters
    ----------
    there
        The machine that the job's manifest names; an older version names the host alone.
    lock
        The file that the job's supervisor touches as a sign of life.
    """
    here = this()
    if there.host != here.host:
        return True
    if there.machine and here.machine and there.machine != here.machine:
        return True
    if not there.boot or not here.boot or there.boot == here.boot:
        return False
    # The same machine after a restart, or one that is set up alike: the sign of life decides.
    try:
        return time.time() - os.stat(lock).st_mtime < timeouts.SUPERVISOR.seconds
    except OSError:
        return False


def _lines(path: Path) -> list[str]:
    return _read(path).splitlines()


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""
