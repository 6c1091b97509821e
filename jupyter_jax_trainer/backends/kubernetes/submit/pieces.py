"""The sha256 of each piece of a bundle: found at submission, and noted for whoever sends it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from jupyter_jax_trainer.jobdir.files import open_regular, write_private
from jupyter_jax_trainer.worker.pod.parcel import digests_of, hash_of

_SIZE = 32  # bytes of a sha256


def note(bundle: Path) -> str:
    """Hash a bundle piece by piece, note that beside it, and return the hash of all."""
    with bundle.open("rb") as file:
        digests = digests_of(file)
    with contextlib.suppress(OSError):  # a full disk: they are found again
        write_private(_beside(bundle), b"".join(digests))
    return hash_of(digests)


def noted(bundle: Path) -> list[bytes]:
    """Return what was noted of a bundle; nothing where it was not, or has changed since."""
    try:
        with open_regular(_beside(bundle)) as file:
            if os.fstat(file.fileno()).st_mtime_ns < bundle.stat().st_mtime_ns:
                return []
            data = file.read()
    except OSError:
        return []
    return [data[at : at + _SIZE] for at in range(0, len(data), _SIZE)]


def _beside(bundle: Path) -> Path:
    return bundle.with_suffix(".sha256")
