"""The root of all jobs, and who may write there.

The store is code: what stands in it says which program signs in to a cluster, and its results are
unpickled. So each level is made for this user alone, and one that others could have written to is
refused, as ssh refuses such files. So is a store that others could exchange: by a directory above
it, or by a link on the way to it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shlex
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from jupyter_jax_trainer.errors import BackendError
from jupyter_jax_trainer.messages import jobs as say

_PRIVATE = 0o700
_OF_OTHERS = 0o077
_ID = re.compile(r"[0-9a-f]{32}")
_MAX_LINKS = 40  # on the way to a file, as for Linux
_home: Path | None = None  # in a process that can't import platformdirs
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")


def home() -> Path:
    """Return the root of all jobs: ``$JAXTRAIN_HOME``, else the user's data directory."""
    given = os.environ.get("JAXTRAIN_HOME")
    if given:
        return Path(given).expanduser().absolute()
    if _home is not None:
        return _home
    from platformdirs import user_data_path

    return user_data_path("jaxtrain", appauthor=False)


def settle(path: Path) -> None:
    """Say where the root of all jobs is, in a process that runs without site-packages."""
    global _home
    _home = path


def private_directory(path: Path) -> Path:
    """Make a directory of the store, and what is missing above it, for this user alone.

    Levels of the store that are there already are checked, and closed to readers. Those above the
    store are checked, and left as they are.

    Raises
    ------
    BackendError
        Others can write to a level of the store or exchange it, or it belongs to somebody else.
    OSError
        It can't be made.
    """
    ours = _levels(path)
    for level in (*reversed(path.parents), path):
        missing = not level.exists()
        if level == ours[0] or (missing and level not in ours):
            _check_way(level)
        if level in ours or missing:
            with contextlib.suppress(FileExistsError):
                level.mkdir(_PRIVATE)
        if level in ours:
            _secure(level)
    return path


def check(path: Path) -> Path:
    """Check a directory before it is read, and all levels above it.

    Raises
    ------
    BackendError
        As for `private_directory`. What is not there, or can't be looked at, is nothing to refuse.
    """
    levels = _levels(path)
    with contextlib.suppress(OSError):
        _check_way(levels[0])
    for level in levels:
        with contextlib.suppress(OSError):
            _secure(level)
    return path


def own_id() -> str:
    """Return the id of this store, the same wherever it is mounted: 32 hex digits.

    Raises
    ------
    BackendError, OSError
        As for `private_directory`.
    """
    path = private_directory(home()) / "id"
    for _ in range(2):
        with contextlib.suppress(OSError):
            text = path.read_text()
            if _ID.fullmatch(text):
                return text
        part = path.with_name(f"id.{os.getpid()}.part")
        part.write_text(secrets.token_hex(16))
        try:
            with contextlib.suppress(FileExistsError):  # another process was first
                os.link(part, path)
        finally:
            part.unlink()
    raise BackendError(say.STORE_ID_DAMAGED(path=path))


def _levels(path: Path) -> list[Path]:
    """Return the directories of the store down to one; for one elsewhere itself."""
    root = home()
    return [one for one in (*reversed(path.parents), path) if one.is_relative_to(root)] or [path]


def _check_way(path: Path) -> None:
    """Check each directory and each link through which the kernel finds a path."""
    at, left, links = Path("/"), list(reversed(path.parts[1:])), 0
    while left:
        _check_above(at)
        step = left.pop()
        at = at.parent if step == ".." else at / step
        if not at.is_symlink():
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        _check_above(at)
        target = at.readlink()
        at = Path("/") if target.is_absolute() else at.parent
        left += reversed(target.relative_to(target.anchor).parts)


def _check_above(level: Path) -> None:
    """Refuse a directory above the store, or a link, with which others could exchange it."""
    found = level.lstat()
    if not (_is_trusted_owner(found.st_uid) or _is_in_container()):
        raise BackendError(say.STORE_PATH_BELONGS_TO(path=level, owner=owner_name(found.st_uid)))
    # In a sticky directory, as /tmp is, only its owner can rename a file.
    if stat.S_ISLNK(found.st_mode) or found.st_mode & stat.S_ISVTX:
        return
    everybody = bool(found.st_mode & stat.S_IWOTH)
    if everybody or (not _is_in_container() and _others_can_write(level, found)):
        mend = (
            say.CLOSE_STORE_PATH(quoted=shlex.quote(str(level)))
            if found.st_uid == os.geteuid()
            else say.LEAVE_STORE_PATH()
        )
        raise BackendError(
            say.STORE_PATH_WRITABLE(path=level, mode=stat.S_IMODE(found.st_mode)), mend
        )


def _is_trusted_owner(user: int) -> bool:
    # In a user namespace without root, what is root's belongs to another number, as / does.
    return user in (os.geteuid(), 0, os.lstat("/").st_uid)


def _is_in_container() -> bool:
    """Return whether only the processes of a container can reach its directories.

    Nobody else signs in there. Images are made by other users than the one that runs them, and
    home directories are often writable to a group, for one with any number.
    """
    return "KUBERNETES_SERVICE_HOST" in os.environ or any(map(os.path.exists, _CONTAINER_FILES))


def _secure(level: Path) -> None:
    found = level.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(level))
    if found.st_uid not in (os.geteuid(), 0):
        me, owner = owner_name(os.geteuid()), owner_name(found.st_uid)
        quoted = shlex.quote(str(level))
        raise BackendError(say.STORE_BELONGS_TO(path=level, owner=owner, me=me, quoted=quoted))
    if _others_can_write(level, found):
        if found.st_uid == os.geteuid():
            mend = say.CHECK_AND_CLOSE_STORE(quoted=shlex.quote(str(level)))
        else:
            mend = say.MOVE_STORE_BELOW() if found.st_mode & stat.S_ISVTX else say.MOVE_STORE()
        raise BackendError(say.STORE_WRITABLE(path=level, mode=stat.S_IMODE(found.st_mode)), mend)
    # A directory that JAXTRAIN_HOME names may hold other things, which others may read.
    named = level == home() and "JAXTRAIN_HOME" in os.environ
    if found.st_mode & _OF_OTHERS and not named:
        with contextlib.suppress(OSError):  # a disk that can only be read, say
            level.chmod(stat.S_IMODE(found.st_mode) & ~_OF_OTHERS)


def _others_can_write(level: Path, found: os.stat_result) -> bool:
    if found.st_mode & stat.S_IWOTH:
        return True
    if not found.st_mode & stat.S_IWGRP:
        return False
    own = _is_own_group(found.st_gid) or _is_by_fs_group(found.st_mode)
    return not own or _has_access_list(level)


def _has_access_list(level: Path) -> bool:
    """Return whether a directory has an ACL: the group's bits are the most that it gives to anyone.

    So they may be somebody else's that it names.
    """
    if sys.platform != "linux":
        return False
    try:
        return "system.posix_acl_access" in os.listxattr(level)
    except OSError:  # a file system without ACLs
        return False


def _is_own_group(group: int) -> bool:
    """Return whether a group is this user's or root's own: many systems give each user one."""
    return any(_is_alone_in(group, user) for user in (os.geteuid(), 0))


def _is_alone_in(group: int, user_id: int) -> bool:
    import grp
    import pwd

    try:
        user, known = pwd.getpwuid(user_id), grp.getgrgid(group)
    except KeyError:
        return False
    alone = set(known.gr_mem) <= {user.pw_name}
    return group == user.pw_gid and known.gr_name == user.pw_name and alone


def _is_by_fs_group(mode: int) -> bool:
    """Return whether the kubelet made it group-writable, as it does at each mount (fsGroup)."""
    return bool(mode & stat.S_ISGID) and "KUBERNETES_SERVICE_HOST" in os.environ


def owner_name(number: int) -> str:
    """Return the name of a user, or the number where it has none."""
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


@contextlib.contextmanager
def about_the_store() -> Iterator[None]:
    """Turn an `OSError` about the directory of all jobs into a one-sentence error.

    Raises
    ------
    BackendError
        In place of an `OSError` of a file there, or above it. Others stay as they are.
    """
    try:
        yield
    except OSError as error:
        place, name = home(), error.filename
        path = Path(name) if isinstance(name, str) else None
        if path is None or not (path.is_relative_to(place) or place.is_relative_to(path)):
            raise
        why = error.strerror or error
        raise BackendError(say.STORE_UNUSABLE(path=place, error=why)) from None
