"""Lines of a merged log between two of its marks, read from the files of the ranks.

A mark says for each log how far it was read, and where the line began that was not finished there.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from pathlib import Path

from jupyter_jax_trainer.jobdir.files import open_regular
from jupyter_jax_trainer.logs.index import IndexParser, Rows
from jupyter_jax_trainer.messages import queries as say

HEAD = 64 << 10  # bytes of a line that began before the first mark
# In the place of a line that was counted and can't be read any more.
GONE = f"[jaxtrain: {say.LINE_GONE()}]".encode()


class _ChangedError(Exception):
    """A file is not what it was."""


@dataclass(slots=True)
class _Text:
    """What one log has between the marks, from the begin of its first line.

    Attributes
    ----------
    data
        The bytes.
    base
        Where they begin in the file.
    begin
        Where the first line begins; before `base` when the line was too long to be read whole.
    """

    data: bytes
    base: int
    begin: int


@dataclass(slots=True)
class Merged:
    """Lines in merged order.

    Attributes
    ----------
    pieces
        The lines, with their newlines; a piece may be empty.
    slots, times
        Of each piece: whose it is, and when it was seen (None: not known, or not asked for).
    long
        Pieces whose first line is not here in full: where it begins in its file, and how many of
        its bytes are missing.
    """

    pieces: list[bytes]
    slots: Sequence[int | None]
    times: Sequence[float | None]
    long: dict[int, tuple[int, int]] = field(default_factory=dict)
    _text: bytes | None = None
    _ends: list[int] | None = None

    @property
    def text(self) -> bytes:
        """All lines."""
        if self._text is None:
            self._text = b"".join(self.pieces)
        return self._text

    @property
    def ends(self) -> list[int]:
        """How many lines there are up to the end of each piece."""
        if self._ends is None:
            self._ends = [*accumulate(piece.count(b"\n") for piece in self.pieces)]
        return self._ends

    def piece_of(self, line: int) -> int:
        """Return the piece that a line is in."""
        return bisect_right(self.ends, line)

    def lines(self, begin: int, end: int) -> list[tuple[int, int, bytes]]:
        """Return lines: the piece, the line's number in the piece, and the line without its end."""
        found: list[tuple[int, int, bytes]] = []
        number = self.piece_of(begin)
        while number < len(self.pieces) and begin < end:
            before = self.ends[number - 1] if number else 0
            lines = self.pieces[number].split(b"\n")[begin - before : -1][: end - begin]
            found += [(number, begin - before + n, text) for n, text in enumerate(lines)]
            begin += len(lines)
            number += 1
        return found


@dataclass(frozen=True, slots=True)
class Span:
    """Lines between two marks, not read yet.

    Attributes
    ----------
    paths
        The logs.
    index, parser
        The index, and who reads it.
    low, high
        How far each log was read at the first mark and at the last one.
    begins
        Where the line begins that was not finished at the first mark, for each log.
    index_begin, index_end
        The lines of the index between the marks; None for what no index covers: then the order is
        that of the logs.
    closed
        The length of logs without a newline at their end, which counts as if it were there.
    first, count
        The position of the first line, and how many there are.
    """

    paths: Sequence[Path]
    index: Path
    parser: IndexParser
    low: Sequence[int]
    high: Sequence[int]
    begins: Sequence[int]
    index_begin: int
    index_end: int | None
    closed: dict[int, int]
    first: int
    count: int

    @property
    def end(self) -> int:
        """The position after the last line."""
        return self.first + self.count

    def unordered(self) -> bytes:
        """Return all lines log by log, which is much less work than in their order."""
        try:
            texts = [text.data for text in self._read() if text is not None]
        except _ChangedError:
            texts = []
        found = b"".join(text[: text.rfind(b"\n") + 1] for text in texts)
        return found if found.count(b"\n") == self.count else b"%s\n" % GONE * self.count

    def merged(self, times: bool = True) -> Merged:
        """Return all lines in their order; without times it takes less time."""
        try:
            found = self._merge(self._read(), times)
        except _ChangedError:
            found = Merged([], [], [])
        # A file that has changed must not put lines in the place of others.
        if found.text.count(b"\n") != self.count:
            return Merged([b"%s\n" % GONE * self.count], [None], [None])
        return found

    def _read(self) -> list[_Text | None]:
        low, high = self.low, self.high
        return [
            self._read_log(slot, path) if high[slot] > low[slot] else None
            for slot, path in enumerate(self.paths)
        ]

    def _read_log(self, slot: int, path: Path) -> _Text:
        low, high, begin = self.low[slot], self.high[slot], self.begins[slot]
        closed = self.closed.get(slot) == high - 1
        if closed:
            high -= 1
        base = max(begin, low - HEAD)
        try:
            file = open_regular(path, 0)
        except OSError:
            raise _ChangedError from None
        try:
            with file:
                data = os.pread(file.fileno(), high - base, base)
                if base > begin:  # of a line that is too long, the begin is what says most
                    data = os.pread(file.fileno(), HEAD, begin) + data[low - base :]
        except OSError:
            raise _ChangedError from None
        if len(data) != high - base:
            raise _ChangedError
        return _Text(data + b"\n" if closed else data, base, begin)

    def _rows(self, times: bool) -> Rows:
        if self.index_end is None:
            return Rows(range(len(self.high)), self.high, [])
        try:
            with open_regular(self.index) as file:
                file.seek(self.index_begin)
                part = file.read(self.index_end - self.index_begin)
        except OSError:
            raise _ChangedError from None
        return self.parser.rows(part, times)

    def _merge(self, texts: list[_Text | None], times: bool) -> Merged:
        rows = self._rows(times)
        pieces: list[bytes] = []
        at = [0] * len(texts)
        data = [b"" if text is None else text.data for text in texts]
        base = [0 if text is None else text.base for text in texts]
        for slot, end in zip(rows.slots, rows.ends, strict=True):
            start, stop = at[slot], end - base[slot]
            cut = data[slot].rfind(b"\n", start, stop) + 1 if stop > start else 0
            pieces.append(data[slot][start:cut])
            if cut:
                at[slot] = cut
        known = times and len(rows.times) == len(pieces)
        found = Merged(pieces, rows.slots, rows.times if known else [None] * len(pieces))
        for slot, text in enumerate(texts):
            if text is not None and text.base > text.begin:
                having = (n for n, whose in enumerate(rows.slots) if whose == slot and pieces[n])
                for first in islice(having, 1):
                    found.long[first] = text.begin, text.base - text.begin
        return found
