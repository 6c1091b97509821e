"""The end of a worker in a pod: the process stays until its node has taken what it printed.

A busy node drops what its containerd has not taken 2 s after the process has ended. And jax aborts
a process whose rank 0 is gone. So what has to wait is this file alone, in the worker's place.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pkgutil
import stat
import struct
import sys
import termios
import time

_MOMENT = 0.02  # seconds that a node needs when it is not busy
_INTERVAL = 0.002


def leave(pipe: int, seconds: float, status: int) -> None:
    """Return when a pipe has been read; where that takes long, end the process when it has been.

    Parameters
    ----------
    pipe
        The file descriptor of its end for writing. For what is no pipe there is no wait.
    seconds
        How long to stay at most.
    status
        The exit code.
    """
    if _wait(pipe, _MOMENT):
        return
    with contextlib.suppress(OSError):  # then the worker ends at once
        source = (pkgutil.get_data(__package__, "handover.py") or b"").decode()
        os.set_inheritable(pipe, True)
        arguments = [str(pipe), str(seconds), str(status)]
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", source, *arguments], {})


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


def _main(pipe: int, seconds: float, status: int) -> None:
    began = time.monotonic()
    _wait(pipe, seconds)
    took = time.monotonic() - began
    # Behind the pipe there is up to as much again, and half of that in between.
    time.sleep(min(2 * took, max(0.0, seconds - took)))
    os._exit(status)


if __name__ == "__main__":
    _main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
