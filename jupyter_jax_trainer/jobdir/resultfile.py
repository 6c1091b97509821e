"""Open the archive of a job's results, which may be damaged, or come from somebody else."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from jupyter_jax_trainer.errors import ResultError
from jupyter_jax_trainer.messages import results as say
from jupyter_jax_trainer.trust.unpacking import read_member
from jupyter_jax_trainer.worker.serialization.archive import FORMAT, pieces
from jupyter_jax_trainer.worker.serialization.plain import MAX_TEXT

_HASHERS = 4
_SMALL = 1 << 20  # bytes that are hashed before another thread has begun


class ResultFile:
    """An archive of results.

    Members and buffers are checked against the manifest before they are given, each buffer once.
    Buffers are mapped, private and writable.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ResultError
        It is missing, damaged, or of a later format.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.manifest = json.loads(read_member(path, "manifest.json", MAX_TEXT))
            self._members, self._table = _tables(self.manifest, path.stat().st_size)
        except FileNotFoundError:
            raise ResultError(say.FILE_GONE(path=path)) from None
        except Exception as error:  # of whatever was made of it
            raise ResultError(say.FILE_DAMAGED(path=path, error=error)) from None
        if self.manifest["format"] != FORMAT:
            found = self.manifest["format"]
            raise ResultError(say.OTHER_FORMAT(path=path, found=found, known=FORMAT))
        self._mapped: memoryview | None = None
        self._intact: dict[int, bool] = {}

    def read(self, name: str, most: int | None = None) -> bytes:
        """Return a member, of at most so many bytes.

        Raises
        ------
        ResultError
            It is not what was written, or larger.
        """
        try:
            data = read_member(self.path, name, most)
        except Exception as error:
            raise ResultError(say.PART_UNREADABLE(part=name, path=self.path, error=error)) from None
        if hashlib.sha256(data).hexdigest() != self._members.get(name):
            raise self._changed(name)
        return data

    def buffer(self, number: int) -> memoryview:
        """Return a buffer.

        Raises
        ------
        ResultError
            It is not what was written.
        """
        self.check([number])
        if not self._intact[number]:
            raise self._changed(say.BUFFER(number=number))
        return self._view(number)

    def check(self, numbers: Iterable[int]) -> None:
        """Compare buffers with their sha256, those that were not compared before."""
        new = [n for n in dict.fromkeys(numbers) if n not in self._intact]
        if not all(0 <= number < len(self._table) for number in new):
            raise ResultError(say.FILE_DAMAGED(path=self.path, error=say.BUFFER_MISSING()))
        cut = [(number, piece) for number in new for piece in pieces(self._view(number))]
        if sum(piece.nbytes for _, piece in cut) < _SMALL:
            digests = [_sha256(piece) for _, piece in cut]
        else:
            with ThreadPoolExecutor(_HASHERS, "hash-results") as hashers:
                digests = list(hashers.map(_sha256, (piece for _, piece in cut)))
        found: dict[int, list[str]] = {number: [] for number in new}
        for (number, _), digest in zip(cut, digests, strict=True):
            found[number].append(digest)
        self._intact.update((n, found[n] == self._table[n]["sha256"]) for n in new)

    def _view(self, number: int) -> memoryview:
        if self._mapped is None:
            with self.path.open("rb") as file:
                self._mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        entry = self._table[number]
        return self._mapped[entry["offset"] : entry["offset"] + entry["size"]]

    def _changed(self, part: str) -> ResultError:
        return ResultError(say.PART_CHANGED(part=part, path=self.path))


def _tables(manifest: Any, size: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the tables of members and buffers, if they are what they should be."""
    members, buffers = manifest["members"], manifest["buffers"]
    free = 0
    for entry in buffers:
        start, length = entry["offset"], entry["size"]
        if type(start) is not int or type(length) is not int or start < 0 or length < 0:
            raise ValueError(say.BUFFER_MISPLACED())
        if start + length > size or type(entry["sha256"]) is not list:
            raise ValueError(say.BUFFER_OUTSIDE())
        if start < free:  # so all buffers together are no larger than the file
            raise ValueError(say.BUFFERS_OVERLAP())
        free = start + length
    if not isinstance(members, dict) or not isinstance(buffers, list):
        raise ValueError(say.NO_TABLES())
    return members, buffers


def _sha256(data: memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
