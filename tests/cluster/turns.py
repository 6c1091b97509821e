"""Who may use the cluster when several test processes do: many at a time, or one alone.

Tests marked `cluster` share it. Those also marked `disruptive` stop or change a part that the others need, so they wait
until nobody else is there, and nobody else begins meanwhile. Processes find each other by file locks, which
the kernel takes back from a process that dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


class Turn:
    """This process's turn.

    Parameters
    ----------
    folder
        Holds the locks: that of the cluster, and a gate through which all pass, one by one. Who waits
        to be alone holds the gate meanwhile: without it, others would always be there.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._gate = os.open(folder / "gate", os.O_CREAT | os.O_RDWR, 0o600)
        self._cluster = os.open(folder / "cluster", os.O_CREAT | os.O_RDWR, 0o600)

    def _take(self, how: int) -> None:
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._cluster, how)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def held(self, *, alone: bool) -> Iterator[None]:
        """Hold a turn, alone or beside others."""
        self._take(fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(self._cluster, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Be alone for a part of a turn that is held beside others."""
        fcntl.flock(
            self._cluster, fcntl.LOCK_UN
        )  # else two who want this would wait for each other
        self._take(fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._cluster, fcntl.LOCK_SH)  # at once: it is ours, and becomes shared


@functools.cache
def mine() -> Turn:
    """Return the turn of this process at the cluster of this machine's user."""
    return Turn(Path(tempfile.gettempdir()) / f"jupyter-jax-trainer-turns-{os.getuid()}")
