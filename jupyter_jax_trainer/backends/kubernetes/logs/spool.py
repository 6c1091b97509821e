"""Writes the logs of containers into the job directory: nothing lost, nothing doubled.

What comes is written ahead (wal.py) before the log is appended. So after a ``kill -9`` at any
moment the log's own length tells what of the last piece is missing. After a reconnect the cluster
sends the last seconds again; what is known is recognised line by line, timestamp and text.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.api.counts import COUNTS
from jupyter_jax_trainer.backends.kubernetes.logs.dedup import Repeated
from jupyter_jax_trainer.backends.kubernetes.logs.linebuffer import LineBuffer
from jupyter_jax_trainer.backends.kubernetes.logs.messages import Gap, Message
from jupyter_jax_trainer.backends.kubernetes.logs.replay import Redone, effect, seconds, times_of
from jupyter_jax_trainer.backends.kubernetes.logs.textreader import Messages, TextReader
from jupyter_jax_trainer.backends.kubernetes.logs.timestamps import SECOND, since_time, stamp_of
from jupyter_jax_trainer.backends.kubernetes.logs.wal import (
    LINES,
    SEGMENT,
    TEXT,
    Record,
    Wal,
    streams_in,
    write_all,
)
from jupyter_jax_trainer.jobdir.files import LineReader, LineWriter
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.worker.pod.frames import LAST_WORDS

OnMessage = Callable[[Message, int], None]
# So many segments full of lines that have the same time, to the nanosecond, are parted in the end.
# Equal ones among them are then no longer told from each other when they come again.
PARTED = 4
_TAIL = 64 << 10  # bytes of the index that are looked at first


class ContainerLog:
    """One log, to which the streams of its attempts append one after another.

    Making it repairs what a killed follower left half done. Make one for each log, before any
    `Spool` of it.

    Parameters
    ----------
    directory
        The job.
    source
        Whose log: a rank, or the name of another container's.
    key
        What a rank's frames are signed with; None leaves them unread.
    on_text
        Called when there is more of it, with its length and the time.
    """

    def __init__(
        self,
        directory: JobDir,
        source: int | str,
        key: bytes | None,
        on_text: Callable[[int, float], None] = lambda *_: None,
    ) -> None:
        self._on_text = on_text
        self._file = -1
        self.lock = threading.RLock()
        self.source = source
        self.rank = source if isinstance(source, int) else -1
        self.key = key if isinstance(source, int) else None
        self.wal = wal_directory(directory) / directory.log(source).stem
        self.unfinished: Spool | None = None  # whose last piece may be half written
        self._index_path = directory.log_index
        self._index = LineWriter(directory.log_index)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(directory.log(source), flags, 0o600)
        self.length = os.fstat(self._file).st_size
        self.mid = self.length > 0 and os.pread(self._file, 1, self.length - 1) != b"\n"
        for stream in streams_in(self.wal):
            wal = Wal(self.wal, stream)
            last = Redone(wal, self.key, self.rank).last
            wal.close()
            if last is not None:
                self.complete(*last)

    def append(self, text: bytes) -> None:
        """Append text."""
        if text:
            write_all(self._file, text)
            self.length += len(text)
            self.mid = not text.endswith(b"\n")

    def index(self, seen: float) -> None:
        """Note that the log has come so far, and all messages up to there are known.

        A view that shows text and displays in their order relies on the latter.
        """
        self._index.write([self.source, self.length, seen])
        self._on_text(self.length, seen)

    def complete(self, before: int, text: bytes, seen: float) -> None:
        """Append what is missing of a text that began at `before`."""
        if not text:
            return
        self.length = os.fstat(self._file).st_size
        missing = before + len(text) - self.length
        if missing > 0:
            write_all(self._file, text[-missing:])
            self.length += min(missing, len(text))
        if missing >= 0:
            self.mid = not text.endswith(b"\n")
        if self._indexed() < before + len(text):
            self._index.write([self.source, before + len(text), seen])

    def close(self) -> None:
        """Close the file; who still writes gets an error, and never into another's file."""
        with self.lock:  # not within a write
            file, self._file = self._file, -1
            if file >= 0:
                os.close(file)

    def __del__(self) -> None:
        # Not left to the end of the process: a follower writes the logs of many jobs.
        self.close()

    def _indexed(self) -> int:
        """Return how much of the log is indexed; end a line of the index that was cut off."""
        try:
            with self._index_path.open("r+b") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _TAIL))
                tail = file.read()
        except FileNotFoundError:
            return 0
        if tail and not tail.endswith(b"\n"):
            with self._index_path.open("ab") as file:
                file.write(b"\n")
        for line in reversed(tail.split(b"\n")):
            if line.startswith(b"[%s, " % json.dumps(self.source).encode()) and line.endswith(b"]"):
                return int(json.loads(line)[1])
        found = [
            row[1]
            for row in LineReader[list[Any]](self._index_path).read()
            if row[0] == self.source
        ]
        return int(found[-1]) if found else 0


class Spool:
    """One stream: the log of one attempt of a container. For one thread.

    Parameters
    ----------
    log
        The log that it is a part of.
    stream
        The stream's name: pod uid, container and restart count.
    on_message
        Called with each message and its place in the log, in order, when the text before
        it is written. Besides the worker's messages: `Gap`, `FramesLost` and `NodeSays`.
    applied
        The highest number of each incarnation's messages that have been applied: those of the
        last piece that are not among them are given once more after a kill.

    Attributes
    ----------
    last
        The time of the last line, in nanoseconds; None before the first.
    had_last_word
        Whether the worker has said how it ended: it prints nothing after that.
    """

    def __init__(
        self,
        log: ContainerLog,
        stream: str,
        on_message: OnMessage,
        applied: Mapping[str, int] | None = None,
    ) -> None:
        if "/" in stream:
            raise ValueError(f"{stream!r} is no name of a stream")
        self.last: int | None = None
        self.had_last_word = False
        self._newest = -1
        self._log = log
        self._stream = stream
        self._on_message = on_message
        self._applied = dict(applied or {})
        self._wal = Wal(log.wal, stream)
        self._lines = LineBuffer()
        self._repeated: Repeated | None = None
        self._reader: TextReader | None = None

    @property
    def done(self) -> bool:
        """Whether the stream was closed: all of it is written."""
        return self._done_path.exists()

    @property
    def is_new(self) -> bool:
        """Whether nothing of the stream has been written yet."""
        return not self.done and next(self._wal.window(), None) is None

    @property
    def _done_path(self) -> Path:
        return self._log.wal / f"{self._stream}.done"

    def begin(self, last: bool = False) -> str | None:
        """Begin to read a connection; after a kill or a failed write, mend first.

        Parameters
        ----------
        last
            The container has ended, and this is the last look. A short log is then asked for as a
            whole: nodes leave out lines that are older than the time asked for, and a clock may
            have been set back.

        Returns
        -------
        str or None
            The ``sinceTime`` to ask for; None for all.
        """
        with self._log.lock:
            if self._reader is None or self._log.unfinished is self:
                self.recover()
        self._lines = LineBuffer()
        self._repeated = None
        if self.last is None:
            return None
        since = self.last // SECOND - 1
        if last and self._wal.is_whole():
            self._repeated = Repeated(self._wal, 0)
            return None
        self._repeated = Repeated(self._wal, since)
        return since_time(since)

    def knows(self, data: bytes) -> bool:
        """Return whether the first bytes of a connection hold a line that was seen before."""
        return self._repeated is not None and self._repeated.knows(data)

    def feed(self, data: bytes) -> bool:
        """Take bytes of the log; say whether there was anything new in them."""
        return self._take(self._lines.add(data))

    def take_unfinished(self) -> bytes:
        """Return the last line if it has no newline so far, and forget it."""
        return self._lines.rest()

    def finish(self) -> None:
        """Take a last line without a newline, too; only when the container has ended."""
        self._take(self._lines.rest())

    def gap(self, text: str) -> None:
        """Put a line of ours into the log."""
        with self._log.lock:
            start = b"\n" if self._log.mid else b""
            self._write(TEXT, start + f"[jaxtrain: {text}]\n".encode())

    def close(self) -> None:
        """Forget how to go on: the stream is over, and all of it is written."""
        for directory in (self._log.wal.parent, self._log.wal):
            directory.mkdir(mode=0o700, exist_ok=True)
        self._done_path.touch(mode=0o600)
        self._wal.remove()

    def recover(self) -> None:
        """Redo what may be missing of the last piece, and give its messages that are missing."""
        found = Redone(self._wal, self._log.key, self._log.rank)
        self._reader = found.reader
        self.last, self._newest = found.times
        if found.last is not None:
            self._log.complete(*found.last)
            self._give(found.messages, found.last[0])
        if self._log.unfinished is self:
            self._log.unfinished = None

    def _take(self, lines: bytes) -> bool:
        if self._repeated is not None and lines:
            lines = self._repeated.without(lines)
            if self._repeated.over:
                self._repeated = None
        if lines:
            self._write(LINES, lines)
        return bool(lines)

    def _write(self, kind: int, data: bytes) -> None:
        with self._log.lock:
            if self._log.unfinished not in (None, self):
                self._log.unfinished.recover()
            if self._reader is None:
                self.recover()
            assert self._reader is not None
            self._log.unfinished = self
            self._make_room(data)
            if kind == LINES:
                self.last, self._newest = times_of(data, self.last, self._newest)
            record = Record(kind, self._log.mid, self._log.length, data)
            self._wal.append(record)
            text, messages = effect(self._reader, record)
            self._log.append(text)
            self._give(messages, record.before)
            if text:
                self._log.index(seconds(self.last))
                COUNTS.add("log_bytes_total", len(text))
            if kind == LINES:
                COUNTS.stretch("log_lag_seconds", time.time() - seconds(self.last))
            self._log.unfinished = None

    def _make_room(self, data: bytes) -> None:
        """Begin a segment when it is time, where lines of the same time are not parted."""
        assert self._reader is not None
        size = self._wal.size
        if size == 0:
            self._rotate()
            if self._log.mid:  # an earlier attempt has ended within a line
                self._write(TEXT, b"\n")
                self._log.unfinished = self
        elif size >= SEGMENT + self._reader.open_size:
            first = stamp_of(data[:40])
            if size >= PARTED * SEGMENT or (first is not None and first > (self.last or 0)):
                self._rotate()

    def _rotate(self) -> None:
        assert self._reader is not None
        times = json.dumps([self.last, self._newest])
        self._wal.rotate(times.encode() + b"\0" + self._reader.state())

    def _give(self, messages: Messages, before: int) -> None:
        for message, place in messages:
            self.had_last_word |= message.kind in LAST_WORDS
            incarnation, number = message.incarnation, message.number
            if number == 0 or number > self._applied.get(incarnation, 0):
                self._on_message(message, before + place)
                if number and not isinstance(message, Gap):  # it has the number of the next one
                    self._applied[incarnation] = number


def wal_directory(directory: JobDir) -> Path:
    """Return where the follower keeps what it needs to go on."""
    return directory.logs / ".wal"


def remove_wal(directory: JobDir) -> None:
    """Delete that, once the job has ended and all its streams are done."""
    shutil.rmtree(wal_directory(directory), ignore_errors=True)
