"""Standard output and error of a worker: one file, in order, fast, and soon on disk."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

_FLUSH_INTERVAL = 0.02  # seconds; what a killed rank can lose of its last lines
_MOMENT = 1.0  # seconds for which a fork waits for threads that flush
_CHILDREN = frozenset(
    {
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.fork",
        "os.forkpty",
    }
)

# Held for each write that is counted, and for each frame of a message (see podchannel.py), so that
# a count belongs to a place in the stream. A signal's handler may print within a write: hence an
# RLock.
pipe = threading.RLock()
# Held by threads that flush beside the main one, and by one that forks: whoever waits for a stream
# gets its lock at any moment, even just before a fork, and the child's copy would stay locked.
_beside = threading.RLock()
_counted: list[_CountedFile] = []


class _CountedFile(io.FileIO):
    """The raw end of a stream that counts what goes through it into the log.

    Attributes
    ----------
    lines, size
        How many lines, and how many bytes.
    log
        Which file the log is.
    """

    lines = 0
    size = 0

    def __init__(self, number: int, log: tuple[int, int] | None = None) -> None:
        super().__init__(number, "w", closefd=False)
        self.log = log or self._place()

    # Every print asks whether all layers are open; of a subclass it asks slowly, unless this is so.
    closed = False

    def close(self) -> None:
        super().close()
        self.closed = True

    def write(self, data: Any) -> int:
        with pipe:
            in_log = self._place() == self.log
            written = super().write(data)
            if written and in_log and self._place() == self.log:
                self.lines += bytes(memoryview(data)[:written]).count(b"\n")
                self.size += written
        return written

    def _place(self) -> tuple[int, int]:
        """Tell which file it is; a cell may lead its output elsewhere for a while."""
        found = os.fstat(self.fileno())
        return found.st_dev, found.st_ino


class _CountedBuffer(io.BufferedWriter):
    """The layer above it, as quick as the plain one."""

    closed = False

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.closed = True


def written() -> tuple[int, int]:
    """Count the lines and bytes that were written so far, without what Python still holds."""
    return sum(file.lines for file in _counted), sum(file.size for file in _counted)


def _before_fork() -> None:
    """Keep other threads of ours from the streams until the child is there, and write them out."""
    # Not for ever: a signal's handler may fork within a write for which such a thread waits.
    _beside.acquire(timeout=_MOMENT)
    _flush()


def _after_fork() -> None:
    with contextlib.suppress(RuntimeError):  # it was not to be had
        _beside.release()


def _renew_locks() -> None:
    """Give a forked child locks of its own: a thread that it doesn't have may hold these."""
    global pipe, _beside
    pipe, _beside = threading.RLock(), threading.RLock()


class _OrderedStderr(io.TextIOWrapper):
    """Standard error that first writes out what standard output holds, so that lines keep order."""

    def write(self, text: str) -> int:
        with contextlib.suppress(AttributeError, ValueError):  # the cell closed or replaced it
            sys.stdout.flush()
        return super().write(text)


def set_up(*, counted: bool = False) -> None:
    """Replace ``sys.stdout`` and ``sys.stderr``.

    A line-buffered stdout would cost a system call per line. A block-buffered one, written out by a
    thread many times a second, prints as fast as the same program into a file and is as live.

    Parameters
    ----------
    counted
        Count what is written, for :func:`written`.
    """
    _open_streams(counted=counted)
    # A crash in native code then leaves the line of the cell in the log.
    faulthandler.enable(file=2, all_threads=False)
    threading.Thread(target=_flush_often, name="jaxtrain-flush", daemon=True).start()
    sys.addaudithook(_flush_before_children)
    _flush_before_leaving()


def _open_streams(*, counted: bool) -> None:
    raw: Sequence[io.FileIO]
    if counted:  # each anew: a stream that is replaced closes what is below it
        logs: Sequence[tuple[int, int] | None] = [file.log for file in _counted[:2]] or [None] * 2
        raw = files = [_CountedFile(number, logs[number - 1]) for number in (1, 2)]
        _counted.extend(files)
    else:
        raw = [io.FileIO(number, "w", closefd=False) for number in (1, 2)]
    buffered = _CountedBuffer if counted else io.BufferedWriter
    sys.stdout = io.TextIOWrapper(
        buffered(raw[0], 1 << 16),
        encoding="utf-8",
        errors="backslashreplace",
    )
    sys.stderr = _OrderedStderr(
        buffered(raw[1]),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )


def open_again() -> None:
    """Open ``sys.stdout`` and ``sys.stderr`` again, if a cell has closed one."""
    if any(getattr(stream, "closed", True) for stream in (sys.stdout, sys.stderr)):
        _open_streams(counted=bool(_counted))


@contextlib.contextmanager
def led_into(path: str) -> Iterator[None]:
    """Lead all that is printed into a file for a while, by whatever prints."""
    flush()
    kept = [os.dup(number) for number in (1, 2)]
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    for number in (1, 2):
        os.dup2(file, number)
    os.close(file)
    try:
        yield
    finally:
        flush()
        for number, file in zip((1, 2), kept, strict=True):
            os.dup2(file, number)
            os.close(file)


def flush() -> None:
    """Write out what is printed so far; a full disk is not an error here, it was one for print."""
    if threading.current_thread() is threading.main_thread():
        _flush()
    else:  # only here, since a signal's handler in the main thread may come within a write
        with _beside:
            _flush()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the cell may have put anything in its place
            stream.flush()


def _flush_before_children(event: str, _args: object) -> None:
    """Write out what is printed so far, so that what a child process prints comes after it.

    And a forked child does not inherit lines, which it would print again.
    """
    if event in _CHILDREN:
        flush()


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
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_renew_locks
    )
