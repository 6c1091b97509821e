"""What our own background processes log about themselves: follower.log and supervisor.log.

They log on their standard error, which is that file. The supervisor has only the standard library
and starts with each job, so this is a few lines and not ``logging``.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path

LEVEL_VARIABLE = "JAXTRAIN_LOG_LEVEL"
LEVELS = ("debug", "info", "warning", "error")
MAX_LOG = 1 << 20  # bytes, after which a file is put aside
_DEFAULT = "warning"


def log(level: str, text: str) -> None:
    """Write a line, if the level is high enough; secrets are left out."""
    if LEVELS.index(level) < _least():
        return
    from jupyter_jax_trainer import masking  # processes that log nothing start without it

    clock = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    print(f"{clock} {level.upper()} {masking.text(text)}", file=sys.stderr, flush=True)


def log_exception() -> None:
    """Write the traceback of the exception that is being handled; secrets are left out."""
    log("error", traceback.format_exc())


def _least() -> int:
    given = os.environ.get(LEVEL_VARIABLE, "").lower()
    return LEVELS.index(given if given in LEVELS else _DEFAULT)


def bound(path: Path) -> None:
    """Put a log aside that has grown too long; one older file is kept.

    Parameters
    ----------
    path
        The file to which this process's standard output and standard error go.
    """
    if os.fstat(2).st_size <= MAX_LOG:
        return
    sys.stderr.flush()
    os.replace(path, path.with_name(f"{path.name}.1"))
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
