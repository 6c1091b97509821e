"""The digest of each piece of a bundle: found once, and noted beside it for whoever sends it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from jupyter_jax_trainer.jobdir.files import open_regular, write_private
from jupyter_jax_trainer.worker.pod.parcel import digests_of, root_of
from jupyter_jax_trainer.worker.pod.wire import DIGEST, MAX_BODY, digest_of

if TYPE_CHECKING:
    from concurrent.futures import Future

_HASHERS = 4
_TURN = 16  # pieces that a thread hashes at a time


class Hashing:
    """Hashes the large buffers of a bundle in other threads while the bundle is written."""

    def __init__(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._pool = ThreadPoolExecutor(_HASHERS, "hash-pieces")
        self._found: dict[int, Future[list[bytes]]] = {}  # by the number of the first piece

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def take(self, offset: int, buffer: memoryview) -> None:
        """Begin to hash the pieces that lie in a buffer, which nobody changes before `note`.

        Parameters
        ----------
        offset
            Where the buffer is in the bundle.
        buffer
            Its bytes.
        """
        first, end = -(-offset // MAX_BODY), (offset + buffer.nbytes) // MAX_BODY
        for number in range(first, end, _TURN):
            begin, past = number * MAX_BODY, min(number + _TURN, end) * MAX_BODY
            part = buffer[begin - offset : past - offset]
            self._found[number] = self._pool.submit(_digests, part)

    def note(self, bundle: Path) -> None:
        """Note the digests of a bundle that is written, unless it had no large buffers."""
        if not self._found:
            return
        known = {
            first + at: digest
            for first, found in self._found.items()
            for at, digest in enumerate(found.result())
        }
        with bundle.open("rb", buffering=0) as file:
            digests = [
                known.get(number) or _read_digest(file.fileno(), number)
                for number in range(-(-os.fstat(file.fileno()).st_size // MAX_BODY))
            ]
        _write(bundle, digests)


def note(bundle: Path) -> str:
    """Note the digests of a bundle's pieces, unless they are, and return their root."""
    digests = noted(bundle)
    if not digests:
        with bundle.open("rb") as file:
            digests = digests_of(file)
        _write(bundle, digests)
    return root_of(digests)


def noted(bundle: Path) -> list[bytes]:
    """Return what was noted of a bundle; nothing where it was not, or has changed since."""
    try:
        found = bundle.stat()
        with open_regular(_beside(bundle)) as file:
            if os.fstat(file.fileno()).st_mtime_ns < found.st_mtime_ns:
                return []
            data = file.read()
    except OSError:
        return []
    if len(data) != DIGEST * -(-found.st_size // MAX_BODY):
        return []
    return [data[at : at + DIGEST] for at in range(0, len(data), DIGEST)]


def forget(bundle: Path) -> None:
    """Delete what was noted of a bundle."""
    _beside(bundle).unlink(missing_ok=True)


def _digests(part: memoryview) -> list[bytes]:
    starts = range(0, part.nbytes, MAX_BODY)
    return [digest_of(part[start : start + MAX_BODY]) for start in starts]


def _read_digest(file: int, number: int) -> bytes:
    return digest_of(os.pread(file, MAX_BODY, number * MAX_BODY))


def _write(bundle: Path, digests: list[bytes]) -> None:
    with contextlib.suppress(OSError):  # a full disk: they are found again
        write_private(_beside(bundle), b"".join(digests))


def _beside(bundle: Path) -> Path:
    return bundle.with_suffix(".pieces")
