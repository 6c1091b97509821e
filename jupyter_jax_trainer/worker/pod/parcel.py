"""The bundle that comes through the channel: where it is put, and whether it is the right one."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.exceptions import WorkerError

AWAITED_VARIABLE = "JAXTRAIN_AWAITED"  # its sha256 and size: "5fec…:1048576"
_IN_MEMORY = ("tmpfs", "ramfs")
_LIMITS = (  # of the container: the limit, what is used of it, and what of that can be given up
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
    ),
)
_NO_LIMIT = 1 << 60


class TransferError(WorkerError):
    """The bundle does not come, or can't be kept in this pod."""


class Parcel:
    """A file that comes in order, piece by piece.

    Parameters
    ----------
    sha256, size
        What it has to be, in hex and in bytes.
    place
        The file that it becomes. Without one, memory has to do.

    Attributes
    ----------
    path
        The file.
    have
        How many bytes are here.
    is_whole
        All are here, and they are the right ones.

    Raises
    ------
    TransferError
        There is no room for it.
    """

    def __init__(self, sha256: str, size: int, place: Path | None) -> None:
        self.sha256 = sha256
        self.size = size
        self.have = 0
        self.is_whole = False
        self._hash = hashlib.sha256()
        self._place = place
        # A container that was started again in the same pod may have it already.
        self._file = -1 if place is None else self._reopen(place)
        if place is not None and self._file >= 0:
            self.path = str(place)
            return
        _check_room(size, None if place is None else place.parent)
        if place is None:
            self._file = os.memfd_create("jaxtrain-bundle")
            self.path = f"/proc/self/fd/{self._file}"
        else:
            self.path = f"{place}.part"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self.path, flags, 0o600)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], folder: Path | None) -> Self | None:
        """Return what is awaited; None where the bundle came with the pod.

        Parameters
        ----------
        environment
            Of the pod.
        folder
            Where it can be put, if anywhere.

        Raises
        ------
        TransferError
            There is no room for it.
        """
        sha256, _, size = environment.get(AWAITED_VARIABLE, "").partition(":")
        if not size.isdecimal():
            return None
        job, rank = environment.get("JAXTRAIN_JOB_UID", ""), environment.get("JAX_PROCESS_ID", "")
        place = None if folder is None else folder / f".jaxtrain-bundle-{job}-{rank}"
        return cls(sha256, int(size), place)

    def add(self, data: bytes) -> None:
        """Add the next piece.

        Raises
        ------
        TransferError
            There is no more room, or the whole is not what was sent.
        """
        try:
            view = memoryview(data)
            while view:
                written = os.pwrite(self._file, view, self.have)
                self.have += written
                view = view[written:]
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            what = say.POD_DISK_FULL if full else say.POD_CANNOT_WRITE
            raise TransferError(
                what(size=megabytes(self.size), error=error.strerror or error)
            ) from None
        self._hash.update(data)
        if self.have >= self.size:
            if self.have > self.size or self._hash.hexdigest() != self.sha256:
                raise TransferError(say.BUNDLE_DAMAGED())
            if self._place is not None:
                os.replace(self.path, self._place)
                self.path = str(self._place)
            self.is_whole = True

    def read(self, at: int, most: int) -> bytes:
        """Return a piece of what is here."""
        return os.pread(self._file, min(most, self.have - at), at)

    def _reopen(self, path: Path) -> int:
        """Open a file that is there, if it is the right one; return -1 otherwise."""
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return -1
        with open(file, "rb", closefd=False) as opened:
            found = hashlib.file_digest(opened, "sha256")
        if found.hexdigest() != self.sha256:
            os.close(file)
            return -1
        self.have, self.is_whole = self.size, True
        return file


def _check_room(size: int, folder: Path | None) -> None:
    """See whether there is room, before anything is sent: a full memory would kill the pod."""
    if folder is not None:
        free = shutil.disk_usage(folder).free
        if size > free:
            raise TransferError(
                say.NO_ROOM_ON_DISK(size=megabytes(size), free=megabytes(free), folder=str(folder))
            )
    if folder is None or _is_in_memory(folder):
        left = _memory_left()
        if size > left:
            raise TransferError(say.NO_ROOM_IN_MEMORY(size=megabytes(size), free=megabytes(left)))


def _is_in_memory(folder: Path) -> bool:
    """Return whether what is written to a folder counts as memory of the container."""
    found, kind = -1, ""
    real = os.path.realpath(folder)
    with contextlib.suppress(OSError), open("/proc/mounts") as mounts:
        for line in mounts:
            _, place, named, *_ = line.split(" ")
            inside = real == place or real.startswith(place.rstrip("/") + "/")
            if inside and len(place) >= found:
                found, kind = len(place), named
    return kind in _IN_MEMORY


def _memory_left() -> int:
    """Return how many bytes the container may still use."""
    for limit, used, statistics in _LIMITS:
        with contextlib.suppress(OSError, ValueError):
            most, current = Path(limit).read_text().strip(), int(Path(used).read_text())
            if most == "max":
                break
            rows = dict(line.split() for line in Path(statistics).read_text().splitlines())
            return int(most) - current + int(rows.get("inactive_file", 0))
    return _NO_LIMIT


def megabytes(size: int) -> str:
    """Return a size in words."""
    return f"{size / 1e6:.0f} MB"
