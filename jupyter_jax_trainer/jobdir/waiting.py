"""A cell that waits for its job: others see that it does, and can let it go.

The cell holds a lock on a file of the job's directory, so a kernel that dies waits no more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import Any

from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.locks import try_lock

_MAX_NOTE = 1000  # bytes


class Waiting:
    """A cell's wait, from entering to leaving.

    Where the file can't be written the cell waits all the same; nobody sees it.
    """

    def __init__(self, directory: JobDir) -> None:
        self._directory = directory
        self._file: int | None = None
        self._note: str | None = ""  # unlike any: a cell that died may have left one
        self._began: int | None = None

    def __enter__(self) -> Waiting:
        self._began = self._asked()
        with contextlib.suppress(OSError):
            self._file = os.open(
                self._directory.waiting, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        self.say(None)
        return self

    def __exit__(self, *_: Any) -> None:
        self.say(None)
        if self._file is not None:
            os.close(self._file)

    def say(self, note: str | None) -> None:
        """Tell those who look what is to be said about the wait."""
        if self._file is None or note == self._note:
            return
        with contextlib.suppress(OSError):
            # Another cell may hold it: then the next call tries again.
            if try_lock(self._file):
                os.ftruncate(self._file, 0)
                os.pwrite(self._file, (note or "").encode()[:_MAX_NOTE], 0)
                self._note = note

    def over(self) -> bool:
        """Return whether somebody has asked since the beginning to let the job go."""
        return self._asked() != self._began

    def _asked(self) -> int | None:
        try:
            return os.stat(self._directory.detach).st_mtime_ns
        except OSError:
            return None


def is_waited_for(directory: JobDir) -> tuple[bool, str | None]:
    """Return whether a cell waits for a job, and what is to be said about that."""
    try:
        file = os.open(directory.waiting, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False, None
    try:
        if try_lock(file, fcntl.LOCK_SH):
            return False, None
        return True, os.pread(file, _MAX_NOTE, 0).decode(errors="replace") or None
    finally:
        os.close(file)


def let_go(directory: JobDir) -> None:
    """Ask the cells that wait for a job to let it go on without them."""
    directory.detach.touch(mode=0o600)
    os.utime(directory.detach, ns=(time.time_ns(), time.time_ns()))
