"""Read parts of a job's ``logs/index.jsonl``, a hundred thousand lines and more at a time."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

_DIGITS = b"0123456789"
_NAMED = re.compile(rb'^\["[\w.-]+", \d+, \d+\.\d+\]\n', re.MULTILINE)


class Rows(NamedTuple):
    """Lines of the index that count, as columns.

    Attributes
    ----------
    slots
        Whose piece: its place among the sources of the reader.
    ends
        How far the log had grown.
    times
        When; if not asked for, perhaps the last one alone.
    """

    slots: Sequence[int]
    ends: Sequence[int]
    times: Sequence[float]


class IndexParser:
    """Reads lines of the index for some of a job's logs.

    Which lines count is what `logs.MergedReader` says; a damaged line does not.

    Parameters
    ----------
    sources
        The logs, each once.
    """

    def __init__(self, sources: Sequence[int | str]) -> None:
        self._slots: dict[Any, int] = {source: slot for slot, source in enumerate(sources)}
        self._by_text = {str(s): slot for s, slot in self._slots.items() if isinstance(s, int)}
        self._only_ranks = len(self._by_text) == len(self._slots)

    def rows(self, part: bytes, times: bool = True) -> Rows:
        """Read whole lines."""
        if self._only_ranks and b'["' in part:
            part = _NAMED.sub(b"", part)  # those of other containers are not asked for
        # Nearly all parts are of nothing but plain lines. Taking those apart by hand is twice as
        # fast as json, which counts at a million lines.
        if part.translate(None, _DIGITS) == b"[, , .]\n" * part.count(b"\n"):
            try:
                return self._plain(part, times)
            except ValueError:
                pass
        return self._any(part)

    def _plain(self, part: bytes, times: bool) -> Rows:
        text = part.translate(None, b"[]").decode("ascii")
        fields = text.replace("\n", ", ").split(", ")
        named = [*map(self._by_text.get, fields[:-1:3])]
        ends = [*map(int, fields[1::3])]
        seen = [*map(float, fields[2::3] if times else fields[-2:-1])]
        slots = [slot for slot in named if slot is not None]
        if len(slots) < len(named):
            known = [slot is not None for slot in named]
            ends = [*compress(ends, known)]
            seen = [*compress(seen, known)] if times else seen
        return Rows(slots, ends, seen)

    def _any(self, part: bytes) -> Rows:
        rows = Rows([], [], [])
        for line in part.splitlines():
            row = self._row(line)
            if row is not None:
                for column, value in zip(rows, row, strict=True):
                    column.append(value)  # type: ignore[attr-defined]
        return rows

    def _row(self, line: bytes) -> tuple[int, int, float] | None:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, list) or len(value) != 3:
            return None
        source, end, time = value
        if type(end) is not int or type(time) not in (int, float):
            return None
        slot = self._slots.get(source) if isinstance(source, int | str) else None
        if slot is None:
            return None
        with contextlib.suppress(OverflowError):
            return slot, end, float(time)
        return slot, end, math.inf
