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
import time
from pathlib import Path

from jupyter_jax_trainer.errors import BackendError
from jupyter_jax_trainer.jobstore import home, private_directory
from jupyter_jax_trainer.ownlog import log

_MISSING = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)
_PLACES = ("/var/tmp", "/tmp")  # of this machine, whatever TMPDIR is
_TRIES, _PAUSE = 3, 0.1  # a lock service may be out for a moment
_told: set[Path] = set()


def try_lock(file: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Take a lock on an open file, an exclusive one by default, without waiting.

    Where the file system has no locks, the number stands for the file's stand-in afterwards.

    Raises
    ------
    BackendError
        There can be no lock.
    """
    return _lock(file, kind | fcntl.LOCK_NB)


def lock(file: int) -> None:
    """Take an exclusive lock on an open file as soon as it is free.

    Raises
    ------
    BackendError
        There can be no lock.
    """
    _lock(file, fcntl.LOCK_EX)


def problem(file: int) -> str | None:
    """Say why an open file can't be locked itself; None where it can, or where others lock it."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_UN)
    except BlockingIOError:
        return None
    except OSError as error:
        return error.strerror or str(error)
    return None


def folder() -> Path:
    """Give the directory of the stand-ins of this user."""
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
    return BackendError(
        f"Files of the job store {home()} can't be locked: {error.strerror or error}.",
        "Set JAXTRAIN_HOME to a directory on a local disk; `jaxtrain doctor` tries the locks.",
    )


def _stand_in(file: int, why: OSError) -> None:
    """Let the number of an open file stand for a file of this machine that can be locked."""
    where = folder()
    if where not in _told:
        _told.add(where)
        log("warning", f"flock in {home()}: {why.strerror}; locks are in {where}, "
            "for this machine alone")  # fmt: skip
    store = hashlib.sha256(os.fsencode(os.path.realpath(home()))).hexdigest()[:12]
    name = where / f"{store}-{os.fstat(file).st_ino}"
    try:
        private_directory(where)
        other = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        raise _impossible(why) from None
    try:
        with contextlib.suppress(OSError):
            os.utime(other)  # what is used is no rubbish for those who tidy up
        os.dup2(other, file, os.get_inheritable(file))
    finally:
        os.close(other)
