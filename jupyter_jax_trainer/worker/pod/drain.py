"""The end of a pod's first process: it stays until the node has taken what was printed.

At the end of a container containerd 1.6 drops what it has not read yet, and later ones do so 2 s
after it. That is what the pipe holds, and behind it the shim's buffer and a second pipe.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
import termios
import time

_BURST = 16 << 10  # bytes; containerd has taken half as much again before it looks for the end
_BEHIND = 0.5  # seconds at least for what is behind a pipe that was found full
_INTERVAL = 0.002


def wait_for_reader(pipe: int, seconds: float) -> None:
    """Return when what was written to a pipe has been read, and what is behind it, probably.

    Parameters
    ----------
    pipe
        The file descriptor of its end for writing. For what is no pipe there is no wait.
    seconds
        How long to stay while nothing is read.
    """
    began = read_at = time.monotonic()
    first = left = _unread(pipe)
    while left:
        time.sleep(_INTERVAL)
        now, before, left = time.monotonic(), left, _unread(pipe)
        if left < before:
            read_at = now
        elif now - read_at > seconds:
            return
    if first >= _BURST:
        # Up to as much again is in the second pipe, and half of that in between.
        time.sleep(max(_BEHIND, 2 * (time.monotonic() - began)))


def _unread(pipe: int) -> int:
    """Return how many bytes of a pipe nobody has read; 0 for what is no pipe."""
    with contextlib.suppress(OSError):
        if stat.S_ISFIFO(os.fstat(pipe).st_mode):
            count = fcntl.ioctl(pipe, termios.FIONREAD, struct.pack("i", 0))
            return int(struct.unpack("i", count)[0])
    return 0
