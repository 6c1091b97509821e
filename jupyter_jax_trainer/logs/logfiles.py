"""Look at logs that may be cut or deleted at any moment: what can't be read is not there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from jupyter_jax_trainer.jobdir.files import open_regular


def read(file: BinaryIO, count: int) -> bytes:
    """Read from a file; an error is its end."""
    try:
        return file.read(count)
    except OSError:
        return b""


def size(path: Path) -> int:
    """Return the length of a log, or of its index."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def length(path: Path) -> tuple[int, bool]:
    """Return the length of a log, and whether it ends with a line's end."""
    try:
        with open_regular(path) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            return end, file.read(1) in (b"", b"\n")
    except OSError:
        return 0, True
