"""Sockets in the store's private folder, and who is at their other end."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from jupyter_jax_trainer.jobdir import store


def path_of(uid: str) -> Path:
    """Return where the writer of a job listens.

    Parameters
    ----------
    uid
        The job's own id.
    """
    return store.home() / "run" / f"job-{uid[:16]}.sock"


@contextlib.contextmanager
def socket_at(path: Path) -> Iterator[tuple[socket.socket, str]]:
    """Open a socket, and give an address for a path that may be too long for one (108 bytes)."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = socket.socket(socket.AF_UNIX)
    try:
        yield connection, f"/proc/self/fd/{directory}/{path.name}"
    finally:
        connection.close()
        os.close(directory)


def is_same_user(connection: socket.socket) -> bool:
    """Return whether this user is at the other end."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", data)[1] == os.getuid())
