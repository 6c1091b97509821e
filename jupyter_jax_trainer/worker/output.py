"""Standard output and error of a worker: one file, in order, fast, and soon on disk."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import sys
import threading
import time
from typing import Any, NoReturn

_FLUSH_INTERVAL = 0.02  # seconds; what a killed rank can lose of its last lines


class _OrderedStderr(io.TextIOWrapper):
    """Standard error that first writes out what standard output holds, so that lines keep order."""

    def write(self, text: str) -> int:
        sys.stdout.flush()
        return super().write(text)


def set_up() -> None:
    """Replace ``sys.stdout`` and ``sys.stderr``.

    A line-buffered stdout would cost a system call per line. A block-buffered one, written out by a
    thread many times a second, prints as fast as the same program into a file and is as live.
    """
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(1, "w", closefd=False), 1 << 16),
        encoding="utf-8",
        errors="backslashreplace",
    )
    sys.stderr = _OrderedStderr(
        io.BufferedWriter(io.FileIO(2, "w", closefd=False)),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
    # A crash in native code then leaves the line of the cell in the log.
    faulthandler.enable(file=2, all_threads=False)
    threading.Thread(target=_flush_often, name="jaxtrain-flush", daemon=True).start()
    _flush_before_leaving()


def flush() -> None:
    """Write out what is printed so far; a full disk is not an error here, it was one for print."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the cell may have put anything in its place
            stream.flush()


def _flush_often() -> None:
    while True:
        time.sleep(_FLUSH_INTERVAL)
        flush()


def _flush_before_leaving() -> None:
    """Write out before the ways of leaving that skip the interpreter's own flush, and before forks.

    A forked child would otherwise print its copy of the buffer a second time.
    """
    leave, abort = os._exit, os.abort

    def flushing_exit(*args: Any, **kwargs: Any) -> NoReturn:
        flush()
        leave(*args, **kwargs)

    def flushing_abort() -> NoReturn:
        flush()
        abort()

    os._exit = flushing_exit
    os.abort = flushing_abort
    os.register_at_fork(before=flush)
