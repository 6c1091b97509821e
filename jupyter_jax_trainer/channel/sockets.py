"""Sockets in the store's private folder, and who is at their other end."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from jupyter_jax_trainer.jobdir import store

_OLD = 3600.0  # seconds


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
        short = f"/proc/self/fd/{directory}/{path.name}"
        yield connection, short if os.path.isdir("/proc/self/fd") else str(path)
    finally:
        connection.close()
        os.close(directory)


def prune(folder: Path) -> None:
    """Delete sockets of writers that were killed; a fresh one may not listen yet."""
    for path in folder.glob("job-*.sock"):
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime > _OLD and not is_listened_to(path):
                path.unlink()


def is_listened_to(path: Path) -> bool:
    """Return whether somebody listens at a path, without waiting.

    Raises
    ------
    OSError
        That can't be told: too many others wait, or it is somebody else's.
    """
    try:
        with socket_at(path) as (connection, address):
            connection.setblocking(False)
            connection.connect(address)
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    return True


def is_same_user(connection: socket.socket) -> bool:
    """Return whether this user is at the other end.

    Where the system does not tell, nobody else can come here: the folder is private.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", data)[1] == os.getuid())
