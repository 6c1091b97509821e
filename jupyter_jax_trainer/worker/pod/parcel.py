"""The bundle that comes through the channel: where it is put, and whether it is the right one."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.durable import write_all
from jupyter_jax_trainer.worker.exceptions import WorkerError
from jupyter_jax_trainer.worker.pod.wire import MAX_BODY, Data, digest_of

# Its root and size, "5fec…:1048576", and ":packages" where these are all that did not come.
AWAITED_VARIABLE = "JAXTRAIN_AWAITED"
WITHOUT_PACKAGES = ":packages"
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
_FULL = {
    errno.ENOSPC: say.POD_DISK_FULL,
    errno.EDQUOT: say.POD_DISK_FULL,
    errno.ENOMEM: say.POD_MEMORY_FULL,
}


class TransferError(WorkerError):
    """The bundle does not come, or can't be kept in this pod."""


def digests_of(file: BinaryIO) -> list[bytes]:
    """Return the digest of each piece of a file."""
    pieces = iter(lambda: file.read(MAX_BODY), b"")
    return [digest_of(piece) for piece in pieces]


def root_of(digests: Iterable[bytes]) -> str:
    """Return the digest, in hex, of the digests of all pieces of a file: it stands for the file.

    Each piece comes with its own, which its message needs in any case: nothing is hashed twice.
    """
    return digest_of(b"".join(digests)).hex()


@dataclass(frozen=True)
class Source:
    """A part of the file that need not be sent.

    Attributes
    ----------
    offset, size
        Which part it is.
    read
        Yields it; `OSError` where it can't be had, `TransferError` where it is another one.
    """

    offset: int
    size: int
    read: Callable[[], Iterator[bytes]]


class Parcel:
    """A file that comes in order, if possible in whole pieces, each with its digest.

    Parameters
    ----------
    root, size
        What it has to be: its `root_of`, and how many bytes.
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

    def __init__(self, root: str, size: int, place: Path | None) -> None:
        self.root = root
        self.size = size
        self.have = 0
        self.is_whole = False
        self._digests: list[bytes] = []
        self._last: tuple[int, Data] = (0, b"")  # what came last, and where it is
        self._place = place
        self._sources: list[Source] = []
        # A container that was started again in the same pod may have it already.
        self._file = -1 if place is None else self._reopen(place)
        if place is not None and self._file >= 0:
            self.path = str(place)
            return
        if place is None:
            _check_room(size, None)
            self._file = os.memfd_create("jaxtrain-bundle")
            self.path = f"/proc/self/fd/{self._file}"
        else:
            self.path = f"{place}.part"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)  # of the container before, and in the way
            _check_room(size, place.parent)
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
        awaited = environment.get(AWAITED_VARIABLE, "").removesuffix(WITHOUT_PACKAGES)
        root, _, size = awaited.partition(":")
        if not size.isdecimal():
            return None
        job, rank = environment.get("JAXTRAIN_JOB_UID", ""), environment.get("JAX_PROCESS_ID", "")
        place = None if folder is None else folder / f".jaxtrain-bundle-{job}-{rank}"
        return cls(root, int(size), place)

    def add(self, data: Data, digest: bytes) -> None:
        """Add what comes next, with its digest, and what can be had without the sender after that.

        Raises
        ------
        TransferError
            There is no more room, or the whole is not what was sent.
        """
        begin = self.have
        if len(data) > self.size - begin:
            raise TransferError(say.BUNDLE_DAMAGED())
        self._write(data, begin)
        self._last = begin, data
        if self._is_piece(begin, len(data)):
            self._digests.append(digest)
        self._advance(begin + len(data))
        self._fill()

    def fill(self, sources: Iterable[Source]) -> None:
        """Take what can be had without a sender, now and whenever it comes next.

        Raises
        ------
        TransferError
            As for `add`, or a source has something else than it should.
        """
        if not self.is_whole:
            self._sources = list(sources)
            self._fill()

    def _fill(self) -> None:
        while (source := self._next_source()) is not None:
            self._sources.remove(source)
            at = source.offset
            try:
                for piece in source.read():
                    here = max(0, self.have - at)  # as it was sent: what is here stays
                    self._write(piece[here:], at + here)
                    at += len(piece)
            except OSError:
                continue  # who sends it has it
            if at == source.offset + source.size:
                self._advance(at)

    def _next_source(self) -> Source | None:
        """Return the source that has what comes next."""
        for source in self._sources:
            if source.offset <= self.have < source.offset + source.size:
                return source
        return None

    def _write(self, data: Data, at: int) -> None:
        try:
            os.lseek(self._file, at, os.SEEK_SET)
            write_all(self._file, data)
        except OSError as error:
            what = _FULL.get(error.errno or 0, say.POD_CANNOT_WRITE)
            raise TransferError(
                what(size=megabytes(self.size), error=error.strerror or error)
            ) from None

    def _is_piece(self, at: int, length: int) -> bool:
        """Return whether this is a whole piece, which comes with its own digest."""
        return at % MAX_BODY == 0 and length == min(MAX_BODY, self.size - at)

    def _advance(self, have: int) -> None:
        """Note how much is here; the digest of pieces that came in parts is taken from the file."""
        self.have = have
        while (at := len(self._digests) * MAX_BODY) < self.size:
            if have < min(at + MAX_BODY, self.size):
                return
            self._digests.append(digest_of(os.pread(self._file, MAX_BODY, at)))
        if not self.is_whole:
            if root_of(self._digests) != self.root:
                raise TransferError(say.BUNDLE_DAMAGED())
            if self._place is not None:
                os.replace(self.path, self._place)
                self.path = str(self._place)
            self.is_whole = True

    def read(self, at: int) -> tuple[Data, bytes]:
        """Return what is here of a piece, and its digest; that is empty where it is not known."""
        last, data = self._last  # most others are sent what has just come
        if last != at or at + len(data) != min(at + MAX_BODY - at % MAX_BODY, self.have):
            data = os.pread(self._file, min(MAX_BODY - at % MAX_BODY, self.have - at), at)
        return data, self._digests[at // MAX_BODY] if self._is_piece(at, len(data)) else b""

    def close(self) -> None:
        """Give up the file: nobody needs more of it."""
        os.close(self._file)
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def _reopen(self, path: Path) -> int:
        """Open a file that is there, if it is the right one; return -1 otherwise."""
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return -1
        with open(file, "rb", closefd=False) as opened:
            self._digests = digests_of(opened)
        if root_of(self._digests) != self.root:
            self._digests = []
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
    if folder is None or is_in_memory(folder):
        left = memory_left()
        if size > left:
            raise TransferError(say.NO_ROOM_IN_MEMORY(size=megabytes(size), free=megabytes(left)))


def is_in_memory(folder: Path) -> bool:
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


def memory_left() -> int:
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
