"""Read the logs of a job: one rank's, or all merged in the order in which they were written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jupyter_jax_trainer.jobdir.files import LineReader, open_regular
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.text import collapse_carriage_returns, plain

MAX_LINE = 64 << 10  # bytes of one line that are shown; the file has it in full
_CHUNK = 1 << 20

# What the libraries below jax say to themselves. It stays in the stored log.
_NOISE = re.compile(
    # Threads may write such lines into one another: the second goes on with the first one's rank.
    rb"^\[Gloo\] Rank |^\d* is connected to \d+ peer ranks\. Expected "
    rb"|^[IW]\d{4} [\d:.]+ +\d+ \S+\.(cc|h):\d+\]"  # errors (E, F) may explain a crash
    rb"|^WARNING: All log messages before absl::InitializeLog"
    # Where a warning goes on in lines of its own: at the end of a rank, since jax 0.11, and about
    # memory of a GPU that ran out, which the exception says as well.
    rb"|^Additional GRPC error information .*/WatchTasks:"
    rb"|^:(CANCELLED:CANCELLED|UNAVAILABLE:failed to connect to all addresses)"
    rb"|^=== Source Location Trace: ===|^external/xla\S*:\d+$|^Current allocation summary follows\."
)
_FIRST = b"[IW 0123456789A:=eC"  # how such lines begin

_MARK = b"[jaxtrain: "  # begins what the writer of a log has to say in it
# In the dump of a crash, what is below the cell, and the list of modules.
_OURS = re.compile(
    rb'^  File ".*(jupyter_jax_trainer/(worker|backends)/|<frozen |<string>)|^Extension modules: '
)


class LogLine(NamedTuple):
    """One line of a log, without its newline.

    Attributes
    ----------
    rank
        The rank that printed it; None for another container.
    time
        When it was read, in seconds since the epoch, at most 50 ms late; None if not yet known.
    text
        The text, with bytes that are not UTF-8 replaced.
    """

    rank: int | None
    time: float | None
    text: str


def is_noise(line: bytes) -> bool:
    """Return whether a line is a library's own chatter, which views leave out."""
    return _NOISE.match(line) is not None


def readable(line: bytes) -> str:
    """Return a line as a terminal would show it in the end, without what could do harm."""
    text = line.decode(errors="replace")
    return plain(collapse_carriage_returns(text.removesuffix("\r")))


def cut(line: bytes) -> bytes:
    """Cut a line to what is shown, and say so."""
    if len(line) <= MAX_LINE:
        return line
    return line[:MAX_LINE] + b" ... (line of %d bytes, cut)" % len(line)


class LogReader:
    """Reads a rank's log as it grows, each line once.

    A line that is longer than `MAX_LINE` is given once, cut; the rest of it is passed over without
    being held in memory.

    Parameters
    ----------
    path
        The file; it may not exist yet.
    raw
        Give the chatter of libraries, too.
    """

    def __init__(self, path: Path, raw: bool = False) -> None:
        self._path = path
        self._raw = raw
        self._unfinished = b""
        self._dropped = 0
        self.offset = 0

    @property
    def unfinished(self) -> bytes:
        """The last line, so far without an end (a progress bar, say)."""
        return self._unfinished

    def read(self, end: int | None = None) -> Iterator[list[bytes]]:
        """Yield the lines that have come since the last call, in lists.

        Parameters
        ----------
        end
            Where to stop in the file; None for all there is.
        """
        try:
            file = open_regular(self._path)
        except FileNotFoundError:
            return
        with file:
            file.seek(self.offset)
            while end is None or self.offset < end:
                want = _CHUNK if end is None else min(_CHUNK, end - self.offset)
                data = file.read(want)
                if not data:
                    return
                self.offset += len(data)
                lines = self._split(data)
                if lines:
                    yield lines

    def finish(self) -> list[bytes]:
        """Return the last line when no more will come, though it has no end."""
        rest = self._complete(self._unfinished)
        self._unfinished = b""
        return [rest] if rest else []

    def _split(self, data: bytes) -> list[bytes]:
        *lines, rest = data.split(b"\n")
        if not lines:
            self._keep(rest)
            return []
        self._keep(lines[0])
        lines[0] = self._complete(self._unfinished)
        self._unfinished = b""
        self._keep(rest)
        if any(map(MAX_LINE.__lt__, map(len, lines))):
            lines[1:] = [cut(line) for line in lines[1:]]  # the first one is cut already
        if self._raw:
            return lines
        # The first character decides most lines without a search.
        return [line for line in lines if line[:1] not in _FIRST or not is_noise(line)]

    def _keep(self, piece: bytes) -> None:
        if len(self._unfinished) + len(piece) > MAX_LINE and b"\r" in piece:
            # A progress bar that draws itself over and over: what counts is its last state.
            self._unfinished, self._dropped = b"", 0
            piece = piece[piece.rfind(b"\r", 0, -1) + 1 :]
        room = MAX_LINE - len(self._unfinished)
        self._unfinished += piece[:room]
        self._dropped += max(0, len(piece) - room)

    def _complete(self, line: bytes) -> bytes:
        dropped, self._dropped = self._dropped, 0
        return line + b" ... (%d bytes more, cut)" % dropped if dropped else line


def _decode(source: int | str, time: float | None, lines: list[bytes]) -> Iterator[LogLine]:
    rank = source if isinstance(source, int) else None
    for line in lines:
        yield LogLine(rank, time, line.decode(errors="replace").removesuffix("\r"))


class MergedReader:
    """Reads some of a job's logs in their merged order, each line once.

    Parameters
    ----------
    directory
        The job.
    sources
        Whose: ranks, or names of other containers' logs.
    raw
        Give the chatter of libraries, too.
    """

    def __init__(self, directory: JobDir, sources: Sequence[int | str], raw: bool = False) -> None:
        self._index = LineReader[list[Any]](directory.log_index)
        self._readers = {source: LogReader(directory.log(source), raw) for source in sources}

    def read(self) -> Iterator[LogLine]:
        """Yield the lines that the index has come to hold since the last call."""
        for entry in self._index.read():
            if [*map(type, entry)][1:] not in ([int, float], [int, int]):
                continue  # damaged
            source, end, time = entry
            if isinstance(source, int | str) and source in self._readers:
                for lines in self._readers[source].read(end):
                    yield from _decode(source, time, lines)

    def finish(self) -> Iterator[LogLine]:
        """Yield what is left when no more will come: lines without an end, or without an index."""
        yield from self.read()
        for source, reader in self._readers.items():
            for lines in reader.read():
                yield from _decode(source, None, lines)
            yield from _decode(source, None, reader.finish())


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log, each cut to what a person reads.

    The chatter of libraries is among them, since it may explain a crash.
    """
    try:
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_LINE))
            data = file.read()
    except OSError:
        return []
    lines = [line for line in data.splitlines() if line.strip() and not _OURS.search(line)]
    while lines and lines[-1].startswith(_MARK):
        lines.pop()  # what it is about did not come
    return [readable(line[:500]) for line in lines[-count:]]
