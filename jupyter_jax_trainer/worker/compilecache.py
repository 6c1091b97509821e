"""The compile cache: files with the programs that XLA compiled, for later jobs.

Files are written atomically, and verified before they are loaded, as nothing checks what a compiled
program does. Files and folders that others could have written are ignored.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import bounds, cachefolder

FOLDER_VARIABLE = "JAXTRAIN_COMPILE_CACHE"
OFF = "off"  # in place of a folder: jax's own cache is off, too
BYTES_VARIABLE = "JAXTRAIN_COMPILE_CACHE_BYTES"
_USUAL_BYTES = 2 << 30
_LEAST = 64 << 10  # bytes that an entry counts at least: there are not too many of them
_HEAD = struct.Struct("<16s32sd")  # the magic, the digest of all that follows, seconds to compile
_OURS = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{16}\.part)?")


def bound(environment: Mapping[str, str]) -> int:
    """Return how many bytes an environment allows a compile cache; 0 for none at all.

    Raises
    ------
    UsageError
        It is no number of bytes.
    """
    return bounds.bound(environment, BYTES_VARIABLE, _USUAL_BYTES)


class Entry(NamedTuple):
    """A compiled program, as jax gives it, and how long that took."""

    data: bytes
    seconds: float


class Seal(NamedTuple):
    """How an entry is kept: with a digest by which it is known to be whole, or whose it is.

    Attributes
    ----------
    magic
        What an entry begins with: 16 bytes.
    begin
        Begins a digest of 32 bytes, as hashlib and hmac have them.
    """

    magic: bytes
    begin: Callable[[], Any]

    def pack(self, name: str, entry: Entry) -> bytes:
        """Return the bytes of an entry under its name."""
        return _HEAD.pack(self.magic, self._digest(name, entry), entry.seconds) + entry.data

    def unpack(self, name: str, packed: bytes) -> Entry | None:
        """Return the entry; None for bytes that are none under this name."""
        if len(packed) < _HEAD.size:
            return None
        magic, digest, seconds = _HEAD.unpack_from(packed)
        entry = Entry(packed[_HEAD.size :], seconds)
        right = magic == self.magic and hmac.compare_digest(digest, self._digest(name, entry))
        return entry if right else None

    def _digest(self, name: str, entry: Entry) -> bytes:
        found = self.begin()
        found.update(f"{name} {entry.seconds!r} ".encode())
        found.update(entry.data)
        return bytes(found.digest())


_WHOLE = Seal(b"jaxtrain-xla-1\n\0", hashlib.sha256)


class CompileCache:
    """The compiled programs of one user, bounded: those unused for the longest time go first.

    Parameters
    ----------
    folder
        Where they are; it need not exist.
    most
        Bytes of all.
    """

    def __init__(self, folder: Path, most: int = _USUAL_BYTES) -> None:
        self._path = folder
        self._most = most
        self._room = 0  # bytes that may be written until the next look at the size

    def read(self, name: str) -> Entry | None:
        """Return an entry; None where there is none, or none that this user has written whole.

        Raises
        ------
        OSError
            It can't be read, or others can write to the folder.
        """
        # What is in its place is neither followed nor waited for.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with self._folder() as folder:
                with open(os.open(name, flags, dir_fd=folder), "rb", buffering=0) as file:
                    found = os.fstat(file.fileno())
                    if not stat.S_ISREG(found.st_mode) or found.st_size > self._most:
                        return None
                    if not _is_own(found):
                        return None
                    entry = _WHOLE.unpack(name, file.readall())
                if entry is not None:
                    cachefolder.mark_as_used(folder, name)
                else:
                    with contextlib.suppress(OSError):  # a folder that can only be read
                        os.unlink(name, dir_fd=folder)
                return entry
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
                return None
            raise

    def has(self, name: str) -> bool:
        """Return whether there is a file of that name."""
        with contextlib.suppress(OSError), self._folder() as folder:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
            return True
        return False

    def add(self, name: str, entry: Entry) -> None:
        """Add an entry, or take its place.

        Raises
        ------
        OSError
            It can't be written, or others can write to the folder.
        """
        packed = _WHOLE.pack(name, entry)
        if len(packed) > self._most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        with self._folder(make=True) as folder:
            if len(packed) > self._room:
                self._make_room(folder, len(packed))
            self._room -= max(len(packed), _LEAST)
            cachefolder.write_whole(folder, name, [packed])

    @contextlib.contextmanager
    def _folder(self, *, make: bool = False) -> Iterator[int]:
        """Open the folder, unless others can write to it; a link in its place is not followed."""
        if make and not self._path.is_dir():
            above = self._path.parent
            if not above.is_dir():
                above.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._path.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        opened = os.open(self._path, flags)
        try:
            if not _is_own(os.fstat(opened)):
                raise PermissionError(errno.EPERM, say.CACHE_OF_OTHERS(path=self._path))
            yield opened
        finally:
            os.close(opened)

    def _make_room(self, folder: int, size: int) -> None:
        """Remove what was not used for the longest time, so that a tenth is free."""
        spare = self._most - self._most * 9 // 10
        total = cachefolder.make_room(folder, _OURS, size, self._most, spare=spare, least=_LEAST)
        # Others write, too: all look again before the bound can be far away.
        self._room = max(size, min(self._most // 16, self._most - total))


def _is_own(found: os.stat_result) -> bool:
    """Return whether a file or folder is this user's, and nobody else can write to it.

    At each mount, the kubelet opens a pod's volumes to the group of the pod (fsGroup).
    """
    by_kubelet = "KUBERNETES_SERVICE_HOST" in os.environ
    writable = stat.S_IWOTH if by_kubelet else stat.S_IWOTH | stat.S_IWGRP
    return found.st_uid == os.geteuid() and not found.st_mode & writable
