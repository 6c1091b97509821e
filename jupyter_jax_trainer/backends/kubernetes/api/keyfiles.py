"""Where the official client writes a kubeconfig's certificates and keys, which it needs as files.

They are in the job store, where nobody tidies up, and are deleted when their process ends; the
next process removes what a killed one left.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from jupyter_jax_trainer import machine
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.jobdir import locks, store

_LOCK = "lock"
_FRESH = 60.0  # seconds in which a new folder may not be locked yet
_FOREIGN = 86400.0  # seconds after which those of another boot or machine are taken for left over
_own: tuple[int, Path] | None = None  # the process, and its folder
_writing = threading.Lock()


def folder() -> Path | None:
    """Return a folder for the keys of this process; None where the job store can't be used."""
    global _own
    if _own is not None and _own[0] == os.getpid() and _own[1].is_dir():
        return _own[1]
    try:
        root = store.private_directory(store.home() / "run" / "keys")
        prefix = f"{machine.this().boot[:8]}-"
        _sweep(root, prefix)
        made = Path(tempfile.mkdtemp(prefix=prefix, dir=root))
        # Held, and never closed: it says that this process lives.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        locks.try_lock(os.open(made / _LOCK, flags, 0o600))
    except (OSError, JaxTrainError):
        return None
    if _own is None:
        atexit.register(clean_up)
    _own = os.getpid(), made
    return made


def forget_lost() -> None:
    """Make the official client, which caches its files, rewrite those that somebody removed."""
    module = sys.modules.get("kubernetes.config.kube_config")
    known: dict[str, str] = getattr(module, "_temp_files", {})
    for content, name in list(known.items()):
        if not os.path.isfile(name):
            known.pop(content, None)


def write_one_at_a_time() -> None:
    """Have the official client finish a file before it gives the name to another thread."""
    module: Any = sys.modules.get("kubernetes.config.kube_config")
    write = getattr(module, "_create_temp_file_with_content", None)
    if write is None or hasattr(write, "__wrapped__"):
        return

    @functools.wraps(write)
    def alone(*args: Any, **named: Any) -> Any:
        with _writing:
            return write(*args, **named)

    module._create_temp_file_with_content = alone


def clean_up() -> None:
    """Delete this process's files of certificates and keys."""
    module = sys.modules.get("kubernetes.config.kube_config")
    if module is not None:
        module._cleanup_temp_files()
    if _own is not None and _own[0] == os.getpid():
        shutil.rmtree(_own[1], ignore_errors=True)


def _sweep(root: Path, prefix: str) -> None:
    """Delete what processes have left that were killed."""
    for path in root.iterdir():
        with contextlib.suppress(OSError):
            age = time.time() - path.stat().st_mtime
            # If another machine's process is alive after all, it writes its files again.
            if age > _FOREIGN if not path.name.startswith(prefix) else _is_left(path, age):
                shutil.rmtree(path, ignore_errors=True)


def _is_left(path: Path, age: float) -> bool:
    try:
        file = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return age > _FRESH
    try:
        return locks.try_lock(file)
    finally:
        os.close(file)
