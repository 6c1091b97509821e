"""The end of a pod's first process: it stays until the node has taken what was printed.

A busy node drops what its containerd has not taken 2 s after the process has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
import termios
import time

_MOMENT = 0.02  # seconds that a node needs when it is not busy
_INTERVAL = 0.002


def wait_for_reader(pipe: int, seconds: float) -> None:
    """Return when a pipe has been read.

    Parameters
    ----------
    pipe
        The file descriptor of its end for writing. For what is no pipe there is no wait.
    seconds
        How long to stay at most.
    """
    if _wait(pipe, _MOMENT):
        return
    began = time.monotonic()
    _wait(pipe, seconds)
    took = time.monotonic() - began
    # Behind the pipe there is up to as much again, and half of that in between.
    time.sleep(min(2 * took, max(0.0, seconds - took)))


def _wait(pipe: int, seconds: float) -> bool:
    """Wait until a pipe is empty; tell whether it is."""
    until = time.monotonic() + seconds
    while _unread(pipe):
        if time.monotonic() > until:
            return False
        time.sleep(_INTERVAL)
    return True


def _unread(pipe: int) -> int:
    """Return how many bytes of a pipe nobody has read; 0 for what is no pipe."""
    with contextlib.suppress(OSError):
        if stat.S_ISFIFO(os.fstat(pipe).st_mode):
            count = fcntl.ioctl(pipe, termios.FIONREAD, struct.pack("i", 0))
            return int(struct.unpack("i", count)[0])
    return 0
