"""What our own background processes log about themselves: follower.log and supervisor.log.

They log on their standard error, which is that file. The supervisor has only the standard library
and starts with each job, so this is a few lines and not ``logging``.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

LEVEL_VARIABLE = "JAXTRAIN_LOG_LEVEL"
LEVELS = ("debug", "info", "warning", "error")
MAX_LOG = 1 << 20  # bytes, after which a file is put aside
_DEFAULT = "warning"
# Whatever somebody's error carries: tokens by their form, and what stands after a telling word, as
# in a setting, a query, JSON or Python.
_SECRETS = re.compile(
    r"(eyJ)[\w-]{8,}\.[\w-]+\.[\w-]*"
    r"|(://)[^/\s]+(?=@)"
    r"|(?i:(\b(?:bearer|basic) |(?:token|password|passwd|secret|access_?key|api_?key|sig|signature)"
    r"[\"']?\s*[:=]\s*[\"']?)(?!(?:bearer|basic) ))[^\s'\",&]+"
)


def log(level: str, text: str) -> None:
    """Write a line, if the level is high enough; secrets are left out."""
    if LEVELS.index(level) < _least():
        return
    clock = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    print(f"{clock} {level.upper()} {without_secrets(text)}", file=sys.stderr, flush=True)


def _least() -> int:
    given = os.environ.get(LEVEL_VARIABLE, "").lower()
    return LEVELS.index(given if given in LEVELS else _DEFAULT)


def without_secrets(text: str) -> str:
    """Put dots where a text has what looks like a token or a password."""
    return _SECRETS.sub(lambda found: f"{found[2] or found[3] or ''}…", text)


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
