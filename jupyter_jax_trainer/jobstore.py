"""The root of all jobs, and who may write there.

The store is code: what stands in it says which program signs in to a cluster, and its results are
unpickled. So each level is made for this user alone, and one that others could have written to is
refused, as ssh refuses such files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
from pathlib import Path

from jupyter_jax_trainer.errors import BackendError

_PRIVATE = 0o700
_OF_OTHERS = 0o077


def home() -> Path:
    """Give the root of all jobs: ``$JAXTRAIN_HOME``, else the user's data directory."""
    given = os.environ.get("JAXTRAIN_HOME")
    if given:
        return Path(given).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("jaxtrain", appauthor=False)


def private_directory(path: Path) -> Path:
    """Make a directory of the store, and what is missing above it, for this user alone.

    Levels of the store that are there already are checked, and closed to readers. Those above the
    store are left as they are.

    Raises
    ------
    BackendError
        Others can write to a level of the store, or it belongs to somebody else.
    OSError
        It can't be made.
    """
    ours = _levels(path)
    for level in (*reversed(path.parents), path):
        if level in ours or not level.exists():
            with contextlib.suppress(FileExistsError):
                level.mkdir(_PRIVATE)
        if level in ours:
            _secure(level)
    return path


def check(path: Path) -> Path:
    """Look at the levels of the store above a directory, and at itself, before it is read.

    Raises
    ------
    BackendError
        As for `private_directory`. What is not there, or can't be looked at, is nothing to refuse.
    """
    for level in _levels(path):
        with contextlib.suppress(OSError):
            _secure(level)
    return path


def _levels(path: Path) -> list[Path]:
    """Give the directories of the store down to one; for one elsewhere itself."""
    root = home()
    return [one for one in (*reversed(path.parents), path) if one.is_relative_to(root)] or [path]


def _secure(level: Path) -> None:
    found = level.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(level))
    if found.st_uid not in (os.geteuid(), 0):
        raise BackendError(
            f"The job store can't be trusted: {level} belongs to {_user(found.st_uid)}.",
            "Its owner could run code as you. Set JAXTRAIN_HOME to a directory of your own, or, "
            f"if all in it is yours: sudo chown -R {_user(os.geteuid())} {shlex.quote(str(level))}",
        )
    if _others_can_write(found):
        mode = f"mode {stat.S_IMODE(found.st_mode):04o}"
        mend = (
            "Whoever can write there can run code as you. See that nothing in it is strange, then: "
            f"chmod go-w {shlex.quote(str(level))}"
            if found.st_uid == os.geteuid()
            else "Set JAXTRAIN_HOME to a directory of your own, below it if you like."
        )
        raise BackendError(
            f"The job store can't be trusted: others can write to {level} ({mode}).", mend
        )
    # A directory that JAXTRAIN_HOME names may hold other things, which others may read.
    named = level == home() and "JAXTRAIN_HOME" in os.environ
    if found.st_mode & _OF_OTHERS and not named:
        with contextlib.suppress(OSError):  # a disk that can only be read, say
            level.chmod(stat.S_IMODE(found.st_mode) & ~_OF_OTHERS)


def _others_can_write(found: os.stat_result) -> bool:
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not (
        _is_alone_in(found.st_gid) or _is_by_fs_group(found.st_mode)
    )


def _is_alone_in(group: int) -> bool:
    """Tell whether a group is this user's own, as many systems give one to each user."""
    import grp
    import pwd

    try:
        user, known = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    alone = set(known.gr_mem) <= {user.pw_name}
    return group == user.pw_gid and known.gr_name == user.pw_name and alone


def _is_by_fs_group(mode: int) -> bool:
    """Tell whether it was the kubelet: at each mount it opens a pod's volumes to its fsGroup."""
    return bool(mode & stat.S_ISGID) and "KUBERNETES_SERVICE_HOST" in os.environ


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
