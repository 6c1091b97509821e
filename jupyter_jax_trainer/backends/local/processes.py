"""Whole families of processes on this machine: find them, end them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
LINUX = sys.platform == "linux"


def adopt_orphans() -> None:
    """Make this process the parent of descendants that lose theirs (Linux).

    So a grandchild that a cell left behind, in a session of its own even, can still be found.
    """
    if not LINUX:
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """List the processes below one, zombies left out (Linux; elsewhere nothing is found)."""
    if not LINUX:
        return []
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path("/proc", entry, "stat").read_bytes()
        except OSError:
            continue
        # The command's name, in parentheses, may hold anything.
        state, parent = stat[stat.rindex(b")") + 2 :].split(maxsplit=2)[:2]
        if state != b"Z":
            children.setdefault(int(parent), []).append(int(entry))
    found, unseen = [], [pid]
    while unseen:
        below = children.get(unseen.pop(), [])
        found += below
        unseen += below
    return found


def end_descendants(spare: int | None = None) -> None:
    """Kill every descendant of this process and wait until they are gone.

    Parameters
    ----------
    spare
        A child that is left alone.
    """
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        found = [pid for pid in descendants(os.getpid()) if pid != spare]
        if not found:
            break
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _reap(spare)
        time.sleep(0.002)
    _reap(spare)


def _reap(spare: int | None) -> None:
    with contextlib.suppress(ChildProcessError):
        while spare is None and os.waitpid(-1, os.WNOHANG)[0]:
            pass


def memory_kills() -> int:
    """Count the processes that the kernel has ended for lack of memory since the start (Linux)."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
