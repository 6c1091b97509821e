"""Locks that end with the process that holds them: ``flock``, and a stand-in where it is missing.

Some network file systems have no locks. There a file on a disk of this machine is locked instead:
its holder is known to this machine alone, as jobs are that run here.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import time
from pathlib import Path

from jupyter_jax_trainer.errors import BackendError
from jupyter_jax_trainer.jobdir.store import home, owner_name
from jupyter_jax_trainer.log import log
from jupyter_jax_trainer.messages import jobs as say

_MISSING = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)
_PLACES = ("/var/tmp", "/tmp")  # of this machine, whatever TMPDIR is
_PRIVATE = 0o700
_TRIES, _PAUSE = 3, 0.1  # a lock service may be out for a moment
_CHECKS, _CHECK_PAUSE = 500, 0.002  # how often others' checks are waited out, and seconds each time
_told: set[Path] = set()


def try_lock(file: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Take a lock on an open file, an exclusive one by default, without waiting for its holder.

    A process that checks for a holder shares the lock for an instant; that is waited out.
    Where the file system has no locks, the descriptor refers to the file's stand-in afterwards.

    Raises
    ------
    BackendError
        There can be no lock.
    """
    for _ in range(_CHECKS):
        if _lock(file, kind | fcntl.LOCK_NB):
            return True
        if kind == fcntl.LOCK_SH or not _lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return False
        fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(_CHECK_PAUSE)
    return False


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock of a file; nobody does if there is no file.

    Raises
    ------
    BackendError
        There can be no lock.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two that check at once don't take each other for the holder.
        return not try_lock(file, fcntl.LOCK_SH)
    finally:
        os.close(file)


def lock(file: int) -> None:
    """Take an exclusive lock on an open file as soon as it is free.

    Raises
    ------
    BackendError
        There can be no lock.
    """
    _lock(file, fcntl.LOCK_EX)


def problem(file: int) -> str | None:
    """Return why an open file can't be locked itself; None where it can, or others lock it."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_UN)
    except BlockingIOError:
        return None
    except OSError as error:
        return error.strerror or str(error)
    return None


def folder() -> Path:
    """Return the directory of the stand-ins of this user."""
    place = next((one for one in _PLACES if os.access(one, os.W_OK)), _PLACES[-1])
    return Path(place, f"jaxtrain-locks-{os.geteuid()}")


def _lock(file: int, kind: int) -> bool:
    for left in reversed(range(1 if _told else _TRIES)):
        try:
            fcntl.flock(file, kind)
            return True
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _MISSING:
                raise _impossible(error) from None
            if left == 0:
                _stand_in(file, error)
        time.sleep(_PAUSE if left else 0)
    try:
        fcntl.flock(file, kind)
    except BlockingIOError:
        return False
    except OSError as error:
        raise _impossible(error) from None
    return True


def _impossible(error: OSError) -> BackendError:
    return BackendError(say.CANNOT_LOCK(path=home(), error=error.strerror or error))


def _stand_in(file: int, why: OSError) -> None:
    """Make a file descriptor refer to a stand-in on this machine that can be locked."""
    where = folder()
    if where not in _told:
        _told.add(where)
        log(
            "warning",
            f"flock unavailable in {home()}: {why.strerror}; using locks in {where} "
            "(this machine only)",
        )
    store = hashlib.sha256(os.fsencode(os.path.realpath(home()))).hexdigest()[:12]
    name = f"{store}-{os.fstat(file).st_ino}"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        place = _open_folder(where)
        try:
            other = os.open(name, flags, 0o600, dir_fd=place)
        finally:
            os.close(place)
    except OSError:
        raise _impossible(why) from None
    try:
        with contextlib.suppress(OSError):
            os.utime(other)  # so that cleaners of temporary files keep it
        os.dup2(other, file, os.get_inheritable(file))
    finally:
        os.close(other)


def _open_folder(where: Path) -> int:
    """Open the directory of the stand-ins, which is made if there is none.

    Others can write where it is, so what they left there under its name is refused.
    """
    with contextlib.suppress(FileExistsError):
        where.mkdir(_PRIVATE)
    found = where.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise BackendError(say.LOCKS_ARE_A_LINK(path=where))
    if not stat.S_ISDIR(found.st_mode):
        raise BackendError(say.LOCKS_ARE_NO_DIRECTORY(path=where))
    if found.st_uid != os.geteuid():
        raise BackendError(say.LOCKS_BELONG_TO(path=where, owner=owner_name(found.st_uid)))
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BackendError(say.LOCKS_WRITABLE(path=where))
    # Nobody else can put a link in its place now: what is one's own in /tmp others can't rename.
    folder = os.open(where, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    os.fchmod(folder, _PRIVATE)
    return folder
