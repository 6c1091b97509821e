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


def processes_of(home: Path) -> dict[int, str]:
    """Return the processes that were started with this JAXTRAIN_HOME: their ids and commands."""
    wanted = os.fsencode(f"JAXTRAIN_HOME={home}")
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if int(entry.name) == os.getpid() or wanted not in (
                entry.joinpath("environ").read_bytes().split(b"\0")
            ):
                continue
            command = entry.joinpath("cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:  # gone, or not ours
            continue
        found[int(entry.name)] = command.decode(errors="replace").strip()
    return found
