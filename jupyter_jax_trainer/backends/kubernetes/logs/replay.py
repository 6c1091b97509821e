"""Replay what was read from the segments on disk, with the same result."""

from __future__ import annotations

import json
import time

from jupyter_jax_trainer.backends.kubernetes.logs.textreader import Messages, TextReader
from jupyter_jax_trainer.backends.kubernetes.logs.timestamps import SECOND, last_stamp, stamp_of
from jupyter_jax_trainer.backends.kubernetes.logs.wal import LINES, STATE, Record, Wal

_NOTHING = Record(STATE, False, 0, b"[null, -1]\0")


class Redone:
    """The state of a stream, replayed from its segments.

    Parameters
    ----------
    wal
        The segments.
    key, rank
        As for `TextReader`.

    Attributes
    ----------
    reader
        Ready for what comes next.
    times
        The time of the last line, and the newest of all.
    last
        What the last record adds to the log: where, the text, and its time; None for a new stream.
    messages
        The messages in it.
    """

    def __init__(self, wal: Wal, key: bytes | None, rank: int) -> None:
        state, *records = wal.load() or [_NOTHING]
        times, _, reading = state.data.partition(b"\0")
        stamp, newest = json.loads(times)
        self.reader = TextReader(key, rank, reading)
        self.messages: Messages = []
        self.last: tuple[int, bytes, float] | None = None
        for record in records:
            if record.kind == LINES:
                stamp, newest = times_of(record.data, stamp, newest)
            text, self.messages = effect(self.reader, record)
            self.last = (record.before, text, seconds(stamp))
        self.times: tuple[int | None, int] = (stamp, newest)


def effect(reader: TextReader, record: Record) -> tuple[bytes, Messages]:
    """Return what a record adds to the log, and the messages in it."""
    if record.kind == LINES:
        return reader.read(record.data, record.mid)
    return record.data, []


def times_of(lines: bytes, last: int | None, newest: int) -> tuple[int | None, int]:
    """Return the time of the last line, and the newest of all."""
    stamp = last_stamp(lines)
    if stamp is None:
        return last, newest
    first = stamp_of(lines[:40]) or 0
    if stamp < max(first, newest):  # a clock was set back: somewhere among these, perhaps
        newest = max(newest, *(stamp_of(line[:40]) or 0 for line in lines.split(b"\n")))
    return stamp, max(stamp, newest)


def seconds(stamp: int | None) -> float:
    """Return a time in seconds; the present one where there is none."""
    return time.time() if stamp is None else stamp / SECOND
