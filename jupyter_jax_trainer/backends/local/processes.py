"""Whole families of processes on this machine: find them, end them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from jupyter_jax_trainer.worker.processes import LINUX, descendants

_PR_SET_CHILD_SUBREAPER = 36
_Target = Callable[[int], None]


def adopt_orphans() -> None:
    """Make this process the parent of descendants that lose theirs (Linux).

    So a grandchild that a cell left behind, in a session of its own even, can still be found.
    """
    if not LINUX:
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_strays(uid: str) -> None:
    """Kill what is left of a job whose keeper and supervisor are both gone (Linux).

    Ranks are recognised by their environment alone, as their parents are gone; their descendants,
    whose environment may differ, by their parents. So all are found and stopped before any is
    killed, children before their parents: another reader finds what is left by one that is killed.
    """
    with contextlib.ExitStack() as opened:
        family: dict[int, _Target] = {}
        while True:
            ranks = _of_job(uid)
            found = dict.fromkeys([*ranks, *descendants(*ranks, *family)])
            new = {
                pid: one
                for pid in found
                if pid not in family and (one := _target(pid, opened)) is not None
            }
            # An id may have gone to another process before it was opened; now it can't any more.
            ranks = _of_job(uid)
            still = {*ranks, *descendants(*ranks, *family)}
            new = {pid: one for pid, one in new.items() if pid in still}
            if not new:
                break
            family |= new
            _signal(new.values(), signal.SIGSTOP)
        _signal(reversed(family.values()), signal.SIGKILL)


def _of_job(uid: str) -> list[int]:
    wanted = f"JAXTRAIN_JOB_UID={uid}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*") if LINUX else ():
        with contextlib.suppress(OSError):
            if wanted in entry.joinpath("environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def _target(pid: int, opened: contextlib.ExitStack) -> _Target | None:
    """Return a function that signals a process, safe from pid reuse; None if the process is gone.

    Kernels before 5.3 have no pidfd: there, the bare pid is used.
    """
    try:
        file = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    except OSError:
        return partial(os.kill, pid)
    opened.callback(os.close, file)
    return partial(signal.pidfd_send_signal, file)


def _signal(targets: Iterable[_Target], number: int) -> None:
    for target in targets:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            target(number)


def close_files_from(first: int) -> None:
    """Close all open files from a number on."""
    try:
        last = max(map(int, os.listdir("/proc/self/fd")))
    except OSError:
        last = os.sysconf("SC_OPEN_MAX")
    os.closerange(first, last + 1)


def move_file(number: int, to: int) -> int:
    """Return an open file a number, which it may have already; children don't get it."""
    if number != to:
        os.dup2(number, to)
        os.close(number)
    os.set_inheritable(to, False)
    return to
