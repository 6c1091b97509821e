"""The processes below one: what a rank, or a supervisor, has to end with itself."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from jupyter_jax_trainer.worker import timeouts

LINUX = sys.platform == "linux"


def descendants(*pids: int) -> list[int]:
    """List the processes below some, parents first (Linux; elsewhere nothing is found).

    Zombies are left out.
    """
    if not LINUX or not pids:
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
    found, unseen = [], list(pids)
    while unseen:
        below = children.get(unseen.pop(), [])
        found += below
        unseen += below
    return found


def end_descendants(*spared: int) -> None:
    """Kill every descendant of this process and wait until they are gone, but not for ever.

    Children are killed before their parents: if this process is killed meanwhile, what is left
    still has the parent by which it is found.

    Parameters
    ----------
    spared
        Descendants that live on, with those below them.
    """
    deadline = time.monotonic() + timeouts.KILL.seconds
    while time.monotonic() < deadline:
        living = {*spared, *descendants(*spared)}
        found = [pid for pid in descendants(os.getpid()) if pid not in living]
        if not found:
            break
        for pid in reversed(found):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        time.sleep(0.002)
    _reap()


def memory_kills(*paths: str) -> int:
    """Count the processes that the kernel has ended for lack of memory (Linux).

    Parameters
    ----------
    paths
        Files that say it; the first that is there and does counts.
    """
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            for line in Path(path).read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
