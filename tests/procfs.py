"""What /proc says of a process."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def open_files(pid: int) -> set[str]:
    """Return what a process has open, as /proc names it; raise `OSError` where it has gone.

    A busy process closes files while they are read: those are left out.
    """
    found = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(file))
    return found
