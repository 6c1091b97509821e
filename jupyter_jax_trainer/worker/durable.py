"""Writing files: large ones, and those that a loss of power does not take."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_NO_WAY = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)  # of file systems without fsync of folders


# Bytes. Larger writes took eight times as long (ext4, Linux 6.18), unless a large file had just
# been deleted.
_AT_ONCE = 128 << 10


def write_all(file: int, data: bytes | bytearray | memoryview) -> None:
    """Write bytes where an open file stands.

    Raises
    ------
    OSError
        Not all can be written.
    """
    view = memoryview(data)
    while view.nbytes:
        view = view[os.write(file, view[:_AT_ONCE]) :]


def put_in_place(part: Path, path: Path) -> None:
    """Rename a file that is whole; when this returns, it is on the disk under its name.

    Raises
    ------
    OSError
        It is not.
    """
    file = os.open(part, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
    part.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Put the names in a folder on the disk, on file systems that have a way to do so."""
    folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in _NO_WAY:
            raise
    finally:
        os.close(folder)
