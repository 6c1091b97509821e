"""What a follower has read and may not have written yet: on disk before anything else is.

A stream has numbered segments of records. The first record of a segment holds the state in which
the ones before ended; so the last segment is enough to go on, and the others can be deleted.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

STATE, LINES, TEXT = 1, 2, 3
SEGMENT = 512 << 10  # bytes after which another one is begun; two are kept
_HEADER = struct.Struct("<4sBBQI")  # magic, kind, mid, before, length
_MAGIC = b"jxw1"


@dataclass(frozen=True, slots=True)
class Record:
    """One piece of a stream.

    Attributes
    ----------
    kind
        `STATE`; `LINES`, as the cluster sent them; or `TEXT`, written by us.
    mid
        Whether the rank's log ended within a line before it.
    before
        How long the rank's log was before it.
    data
        The bytes.
    """

    kind: int
    mid: bool
    before: int
    data: bytes


def write_all(file: int, data: bytes) -> None:
    """Write bytes with one system call, where the system takes them at once."""
    written = os.write(file, data)
    while written < len(data):
        written += os.write(file, data[written:])


class Wal:
    """The segments of one stream.

    Parameters
    ----------
    directory
        Where they are; made when the first is.
    stream
        The stream's name.

    Attributes
    ----------
    size
        Bytes in the segment that is written to; 0 before there is one.
    """

    def __init__(self, directory: Path, stream: str) -> None:
        self._directory = directory
        self._stream = stream
        self._file: int | None = None
        self.size = 0

    def load(self) -> list[Record]:
        """Return the last segment's records, the state first; none for a new stream.

        What was being written when the writer died is cut off.
        """
        self.close()
        paths = self._paths()
        while paths:
            path = paths.pop()
            data = path.read_bytes()
            records = list(_records(data))
            if records:
                self.size = sum(_HEADER.size + len(record.data) for record in records)
                self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
                if self.size < len(data):
                    os.ftruncate(self._file, self.size)
                return records
            path.unlink()
        self.size = 0
        return []

    def append(self, record: Record) -> None:
        """Add a record; when this has returned, it will be recovered."""
        assert self._file is not None, "a segment has been begun"
        data = record.data
        head = _HEADER.pack(_MAGIC, record.kind, record.mid, record.before, len(data))
        write_all(self._file, head + data)
        self.size += len(head) + len(data)

    def rotate(self, state: bytes) -> None:
        """Begin a segment with a state, and keep only the one before."""
        paths = self._paths()
        number = int(paths[-1].name.rpartition(".")[2]) + 1 if paths else 1
        # Not their parents: a job that was deleted must not come back.
        for directory in (self._directory.parent, self._directory):
            directory.mkdir(mode=0o700, exist_ok=True)
        self.close()
        path = self._directory / f"{self._stream}.{number:08d}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self.size = 0
        self.append(Record(STATE, False, 0, state))
        for path in paths[:-1]:
            path.unlink()

    def is_whole(self) -> bool:
        """Return whether all of the stream is kept."""
        return any(path.name.endswith(f".{1:08d}") for path in self._paths())

    def window(self) -> Iterator[Record]:
        """Yield the records of all segments that are kept, in order."""
        for path in self._paths():
            yield from _records(path.read_bytes())

    def remove(self) -> None:
        """Delete all segments, the oldest first."""
        self.close()
        for path in self._paths():
            path.unlink(missing_ok=True)
        self.size = 0

    def _paths(self) -> list[Path]:
        return sorted(self._directory.glob(f"{self._stream}.[0-9]*"))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        # A stream that goes on after its job has ended is left, and never comes to its end.
        self.close()


def streams_in(directory: Path) -> list[str]:
    """Return the names of the streams that have segments in a directory."""
    return sorted({path.name.rpartition(".")[0] for path in directory.glob("*.[0-9]*")})


def _records(data: bytes) -> Iterator[Record]:
    """Yield the whole records of a segment."""
    at = 0
    while at + _HEADER.size <= len(data):
        magic, kind, mid, before, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        if magic != _MAGIC or at + length > len(data):
            return
        yield Record(kind, bool(mid), before, data[at : at + length])
        at += length
