"""The files of a job directory, read and written so that a crash or a hand can't mislead a reader.

The shapes say what readers rely on (docs/job-directory.md has all of it).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from jupyter_jax_trainer.errors import JobDirError

FORMAT = 1


def private_directory(path: Path) -> Path:
    """Make a directory (and its parents) that only this user can read."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def try_lock(file: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Take a lock on an open file, an exclusive one by default, without waiting."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def disk_use(path: Path) -> int:
    """Count the bytes that the files of a directory take; those that vanish meanwhile are none."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


_TEXT = (str, NoneType)
_NUMBER = (int, float)
MANIFEST = {
    "name": str, "uid": str, "host": str, "created": _NUMBER, "spec": {"nodes": int},
    "plan": dict, "sent": [{"name": str}], "returns": bool,
}  # fmt: skip
STATE = {
    "state": str, "reason": _TEXT, "hint": _TEXT,
    "history": [{"state": str, "time": _NUMBER}],
    "ranks": [{"rank": int, "state": str, "exit": (int, NoneType)}],
    "progress": (NoneType, {"step": int, "metrics": dict, "time": _NUMBER}),
    "failure": (NoneType, {"kind": str, "message": str}),
    "results": (NoneType, [{"name": str}]),
}  # fmt: skip
_LINES: dict[str, Any] = {
    "events.jsonl": {"time": _NUMBER, "kind": str, "message": str},
    "metrics.jsonl": {"time": _NUMBER, "rank": int, "step": int, "values": dict},
    "displays.jsonl": {"log_offset": int, "data": dict, "metadata": dict},
    "index.jsonl": [(str, _NUMBER)],
}


def _misfit(value: Any, shape: Any, where: str = "") -> str | None:
    """Find where a value differs from what others rely on: types, keys of objects, items."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return where
        inner = [_misfit(value.get(key), item, f"{where}.{key}") for key, item in shape.items()]
    elif isinstance(shape, list):
        if not isinstance(value, list):
            return where
        inner = [_misfit(item, shape[0], f"{where}[{n}]") for n, item in enumerate(value)]
    elif isinstance(shape, tuple):
        found = [_misfit(value, item, where) for item in shape]
        return None if None in found else found[-1]
    else:
        return None if isinstance(value, shape) else where
    return next((fault for fault in inner if fault), None)


def read_json(path: Path, shape: dict[str, Any]) -> dict[str, Any]:
    """Read a JSON object and check its format and its shape.

    Raises
    ------
    JobDirError
        It is missing, damaged, or of another format.
    """
    try:
        value = json.loads(path.read_bytes())
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
    except FileNotFoundError:
        raise JobDirError(f"{path} is missing.", _DAMAGED.format(path.parent)) from None
    except (OSError, ValueError) as error:
        raise JobDirError(f"{path} is damaged: {error}.", _DAMAGED.format(path.parent)) from None
    if value.get("format") != FORMAT:
        raise JobDirError(
            f"{path} has format {value.get('format')!r}; this version reads format {FORMAT}.",
            "Use the version of jupyter_jax_trainer that wrote it, or delete the directory.",
        )
    if fault := _misfit(value, shape):
        raise JobDirError(
            f"{path} is damaged: {fault.lstrip('.')} is missing or has the wrong type.",
            _DAMAGED.format(path.parent),
        )
    return value


_DAMAGED = "Its other files can still be read by hand; to be rid of it delete {}."


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a JSON file atomically: readers see the old one or the new one."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(file, "w") as stream:
            json.dump(value, stream)
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


class LineReader:
    """Reads the JSON lines of a file that grows, each once.

    Parameters
    ----------
    path
        The file; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._shape = _LINES.get(path.name, dict)
        self._offset = 0

    def read(self) -> Iterator[Any]:
        """Give the lines that have come since the last call; a damaged line is left out."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        end = data.rfind(b"\n") + 1
        self._offset += end
        for line in data[:end].splitlines():
            with contextlib.suppress(ValueError):
                value = json.loads(line)
                if _misfit(value, self._shape, "the line") is None:
                    yield value
