"""A file system without locks: what some network file systems answer."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

from jupyter_jax_trainer.jobdir import locks


def without_flock(monkeypatch: Any, home: Path, elsewhere: Path) -> None:
    """Refuse locks of files below `home`; let the stand-ins be in `elsewhere`."""
    real = fcntl.flock

    def flock(file: int, kind: int) -> None:
        if os.readlink(f"/proc/self/fd/{file}").startswith(f"{home}/"):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        real(file, kind)

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(locks, "_PLACES", (str(elsewhere),))
    monkeypatch.setattr(locks, "_PAUSE", 0.001)
    monkeypatch.setattr(locks, "_told", set())
