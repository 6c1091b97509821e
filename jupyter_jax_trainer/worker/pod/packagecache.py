"""Packages on a volume that pods share: what one job was sent is there for the jobs after it.

Each user has a folder, in which a file is named by its sha256. Whoever can write to the volume can
exchange it, so that it is copied into the pod and compared with what the bundle says, each time and
before anything else reads it. The bundle's own sha256 comes with the TrainJob.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import bounds, cachefolder
from jupyter_jax_trainer.worker.channel import Channel
from jupyter_jax_trainer.worker.pod.parcel import TransferError
from jupyter_jax_trainer.worker.serialization.archive import Archive, Package

FOLDER_VARIABLE = "JAXTRAIN_PACKAGE_CACHE"
BYTES_VARIABLE = "JAXTRAIN_PACKAGE_CACHE_BYTES"
_USUAL_BYTES = 2 << 30
_PIECE = 1 << 20
_CHANGED = ".changed"
_OURS = re.compile(r"[0-9a-f]{64}\.whl(\.changed|\.[0-9a-f]{16}\.part)?")  # others' are left alone


def bound(environment: Mapping[str, str]) -> int:
    """Return how many bytes an environment allows a cache of packages; 0 for none at all.

    Raises
    ------
    UsageError
        It is no number of bytes.
    """
    return bounds.bound(environment, BYTES_VARIABLE, _USUAL_BYTES)


class ChangedPackageError(TransferError):
    """A package in the cache is not what was put there."""


class PackageCache:
    """The packages of one user, bounded: those that were not used for the longest time go first.

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

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """Return the cache that a pod has; None where it has none.

        Raises
        ------
        UsageError
            Its bound is no number of bytes.
        """
        folder, most = environment.get(FOLDER_VARIABLE), bound(environment)
        return cls(Path(folder), most) if folder and most else None

    def read(self, package: Package) -> Iterator[bytes]:
        """Yield a package, piece by piece; it is the right one only if this comes to its end.

        Raises
        ------
        OSError
            It is not there, or can't be read.
        ChangedPackageError
            It is another one.
        """
        name, found, left = _name(package), hashlib.sha256(), package["size"]
        with self._folder() as folder:
            there = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(there.st_mode) and there.st_size == left:
                # What has taken its place meanwhile is not followed, nor waited for.
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                with open(os.open(name, flags, dir_fd=folder), "rb", buffering=0) as file:
                    while left and (piece := file.read(min(_PIECE, left))):
                        found.update(piece)
                        left -= len(piece)
                        yield piece
            if left or found.hexdigest() != package["sha256"]:
                aside = name + _CHANGED
                with contextlib.suppress(OSError):  # a volume that can only be read
                    os.replace(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
                path = self._path / name
                raise ChangedPackageError(say.PACKAGE_CHANGED(path=path, aside=aside))
            cachefolder.mark_as_used(folder, name)

    def add(self, package: Package, pieces: Iterable[bytes]) -> None:
        """Put a package there, if it is not there; it appears under its name when it is whole.

        Raises
        ------
        OSError
            It can't be put there.
        """
        name, size = _name(package), package["size"]
        if size > self._most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        with self._folder(make=True) as folder:
            with contextlib.suppress(FileNotFoundError):
                os.stat(name, dir_fd=folder, follow_symlinks=False)
                cachefolder.mark_as_used(folder, name)
                return
            self._make_room(folder, name, size)
            cachefolder.write_whole(folder, name, pieces, synced=True)

    @contextlib.contextmanager
    def _folder(self, *, make: bool = False) -> Iterator[int]:
        """Open the folder: a link in its place is not followed, and later ones do not matter."""
        if make:
            above = self._path.parent
            if not above.is_dir():
                above.mkdir(parents=True, exist_ok=True)
                with contextlib.suppress(OSError):  # not on all volumes
                    above.chmod(0o1777)  # as /tmp: the pods of others may run as other users
            self._path.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        opened = os.open(self._path, flags)
        try:
            yield opened
        finally:
            os.close(opened)

    def _make_room(self, folder: int, wanted: str, size: int) -> None:
        """Remove what was not used for the longest time; who reads it goes on with the open file.

        Where that is not so, as on NFS for other machines, who reads it gets it from the sender.
        What is wanted stays: somebody else has put it there meanwhile.
        """
        total = cachefolder.make_room(folder, _OURS, size, self._most, wanted=wanted)
        if total > self._most:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))


def keep(archive: Archive, channel: Channel) -> None:
    """Put the packages of a bundle into the cache, in a thread: no job waits for that.

    What becomes of it is said in a message ``cached``.

    Raises
    ------
    UsageError
        The cache's bound is no number of bytes.
    """
    cache = PackageCache.from_environment(os.environ)
    if cache is None or not archive.packages:
        return

    def work() -> None:
        problem = None
        try:
            for name, package in archive.packages.items():
                cache.add(package, archive.package_pieces(name))
        except OSError as error:
            problem = error.strerror or str(error)
        channel.send("cached", problem=problem)

    threading.Thread(target=work, name="jaxtrain-cache", daemon=True).start()


def _name(package: Package) -> str:
    return f"{package['sha256']}.whl"
