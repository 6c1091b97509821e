"""The files of a cache: each appears when it is whole, and those unused for longest go first."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterable

PART = ".part"
_OLD = 3600.0  # seconds after which nobody writes a part any more


def write_whole(folder: int, name: str, pieces: Iterable[bytes], *, synced: bool = False) -> None:
    """Write a file, which appears under its name when it is whole, and takes the place of another.

    Parameters
    ----------
    folder
        The open folder.
    synced
        It is on disk before it appears.

    Raises
    ------
    OSError
        It can't be written.
    """
    part = f"{name}.{secrets.token_hex(8)}{PART}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(part, flags, 0o600, dir_fd=folder), "wb") as file:
            file.writelines(pieces)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        if synced:
            with contextlib.suppress(OSError):  # no way to do so, on some file systems
                os.fsync(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=folder)
        raise


def mark_as_used(folder: int, name: str) -> None:
    """Note that a file was used just now."""
    with contextlib.suppress(OSError):  # a folder that can only be read
        os.utime(name, dir_fd=folder, follow_symlinks=False)


def make_room(
    folder: int,
    ours: re.Pattern[str],
    size: int,
    most: int,
    *,
    spare: int = 0,
    least: int = 0,
    wanted: str | None = None,
) -> int:
    """Remove the files that were not used for the longest time, and parts that nobody writes.

    Parameters
    ----------
    folder
        The open folder.
    ours
        The names of the cache's files and parts; others are left alone.
    size
        Bytes that are needed.
    most
        Bytes of all.
    spare
        Bytes that are free afterwards, too, if anything has to go.
    least
        Bytes that a file counts at least.
    wanted
        A file that stays.

    Returns
    -------
    int
        Bytes of all files, with those that are needed.
    """
    files, now = [], time.time()
    with os.scandir(folder) as entries:
        for entry in entries:
            if ours.fullmatch(entry.name):
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    files.append((found.st_mtime, max(found.st_size, least), entry.name))
    total = max(size, least) + sum(length for _, length, _ in files)
    aim = most if total <= most else most - spare
    for used, length, name in sorted(files):
        if name == wanted:
            continue
        if now - used > _OLD if name.endswith(PART) else total > aim:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
                total -= length
    return total
