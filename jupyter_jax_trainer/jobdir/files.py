"""The files of a job directory, safe to read after a crash or a manual edit.

`formats` describes their contents.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, TypedDict, TypeVar, cast

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.errors import JobDirError
from jupyter_jax_trainer.jobdir import formats
from jupyter_jax_trainer.jobdir.formats import LINES, Shape, misfit
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.worker.durable import put_in_place

T = TypeVar("T")
_BLOCK = 1 << 18  # bytes that are read at a time


def open_regular(path: Path, buffering: int = -1) -> BinaryIO:
    """Open a regular file for reading: no pipe, and no link, which could lead out of the store.

    Raises
    ------
    OSError
        It can't be opened; `FileNotFoundError` if it is not a regular file.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(path, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise _no_file(path) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _no_file(path)
    return open(file, "rb", buffering=buffering)


def _no_file(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, say.NOT_A_REGULAR_FILE(), str(path))


def is_regular(path: Path) -> bool:
    """Return whether there is a file, and no link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


class Stamp(NamedTuple):
    """What changes when somebody writes to a file, or exchanges it."""

    inode: int
    size: int
    written: int  # in nanoseconds since the epoch


Stamps = tuple[Stamp | None, ...]


def stamp_of(path: Path | str) -> Stamp | None:
    """Return the stamp of a file; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Stamp(found.st_ino, found.st_size, found.st_mtime_ns)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only this user can read."""
    with open_private(path) as file:
        file.write(data)


def open_private(path: Path) -> BinaryIO:
    """Open a file to be written that only this user can read."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return open(os.open(path, flags, 0o600), "wb")


def disk_use(path: Path) -> int:
    """Count the bytes that the files of a directory take; those that vanish meanwhile are none."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


class _Document(TypedDict):
    """Any `TypedDict`: each file that is one JSON object has one of its own."""


def read_json(path: Path, shape: Shape) -> dict[str, JsonValue]:
    """Read a JSON object, of this format or an older one, and check its shape.

    Raises
    ------
    JobDirError
        It is missing, damaged, or of another format.
    """
    try:
        with open_regular(path) as file:
            value = json.loads(file.read())
        if not isinstance(value, dict):
            raise ValueError(say.NOT_A_JSON_OBJECT())
    except FileNotFoundError:
        raise JobDirError(say.FILE_MISSING(path=path, directory=path.parent)) from None
    except (OSError, ValueError) as error:
        raise damaged(path, error) from None
    if value.get("format") not in formats.READABLE:
        raise JobDirError(
            say.OTHER_FORMAT(path=path, found=value.get("format"), known=formats.FORMAT)
        )
    value = formats.from_disk(path.name, value)
    if fault := misfit(value, shape):
        field = fault.lstrip(".")
        raise JobDirError(say.FIELD_DAMAGED(path=path, field=field, directory=path.parent))
    return value


def damaged(path: Path, error: Exception) -> JobDirError:
    """Make the error for a file of a job that can't be read."""
    return JobDirError(say.FILE_DAMAGED(path=path, error=error, directory=path.parent))


def write_json(
    path: Path, value: _Document | Mapping[str, JsonValue], *, durable: bool = False
) -> None:
    """Replace a JSON file atomically: readers see the old one or the new one.

    A durable one is on the disk when this returns, which takes milliseconds: for what is written
    once and can't be had again.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    document = cast(Mapping[str, JsonValue], value)
    try:
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(file, "w") as stream:
            stream.write(json.dumps(formats.to_disk(path.name, document)))
        if durable:
            put_in_place(part, path)
        else:
            part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


class LineWriter:
    """Appends JSON lines to a file.

    Parameters
    ----------
    path
        The file; made when the first line is written.
    """

    def __init__(self, path: Path) -> None:
        self._file: int | None = None
        self._path = path

    def write(self, *values: Any) -> None:
        """Append lines with one system call, so that a reader sees whole lines or none."""
        if self._file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
        os.write(self._file, b"".join(json.dumps(value).encode() + b"\n" for value in values))

    def __del__(self) -> None:
        # Not left to the end of the process: a follower writes the files of many jobs.
        if self._file is not None:
            os.close(self._file)


def _whole_lines(file: BinaryIO, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines of a file from an offset on, some at a time, and where they begin.

    What is added meanwhile comes the next time.
    """
    file.seek(start)
    left, rest = os.fstat(file.fileno()).st_size - start, b""
    while left > 0 and (block := file.read(min(_BLOCK, left))):
        left -= len(block)
        rest += block
        if end := rest.rfind(b"\n") + 1:
            yield start, rest[:end]
            start, rest = start + end, rest[end:]


def _value(line: bytes, shape: Shape) -> Any:
    """Read a line; give None for one that is damaged."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if misfit(value, shape, "the line") is None else None


class LinePages:
    """Reads the JSON lines of a file that grows, a page at a time.

    The lines before a page are counted, not parsed, and it remembers where some of them begin: so
    a page costs its own length, and only the first look at what lies before it costs that much
    reading. It may be used by several threads.

    Parameters
    ----------
    path
        The file; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._shape = LINES.get(path.name, dict)
        self._lock = threading.Lock()
        self._file = 0  # its inode
        self._marks = [(0, 0)]  # of some lines the number and the offset, rising

    def page(self, start: int, most: int) -> tuple[list[Any], bool]:
        """Return at most so many lines from one on, and whether there are more.

        Damaged lines count, and are left out.
        """
        with self._lock:
            try:
                with open_regular(self._path, buffering=0) as file:
                    return self._page(file, start, most)
            except FileNotFoundError:
                return [], False

    def _page(self, file: BinaryIO, start: int, most: int) -> tuple[list[Any], bool]:
        status = os.fstat(file.fileno())
        if status.st_ino != self._file or status.st_size < self._marks[-1][1]:
            self._file, self._marks = status.st_ino, [(0, 0)]
        number, offset = self._marks[bisect_right(self._marks, start, key=itemgetter(0)) - 1]
        found: list[Any] = []
        for begin, lines in _whole_lines(file, offset):
            if begin > self._marks[-1][1]:
                self._marks.append((number, begin))
            if number >= start + most:
                return found, True
            after = number + lines.count(b"\n")
            if after > start:
                first = max(0, start - number)
                wanted = lines.split(b"\n")[first : min(after, start + most) - number]
                values = (_value(line, self._shape) for line in wanted)
                found += [value for value in values if value is not None]
            if after > start + most:
                return found, True
            number = after
        return found, False


class LineReader(Generic[T]):
    """Reads the JSON lines of a file that grows, each once.

    Parameters
    ----------
    path
        The file; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._shape = LINES.get(path.name, dict)
        self._offset = 0

    def read(self) -> Iterator[T]:
        """Yield the lines that have come since the last call; a damaged line is left out."""
        try:
            file = open_regular(self._path, buffering=0)
        except FileNotFoundError:
            return
        with file:
            for _, lines in _whole_lines(file, self._offset):
                self._offset += len(lines)
                for line in lines.splitlines():
                    value = _value(line, self._shape)
                    if value is not None:
                        yield value
