"""Whole lines out of bytes that come in any pieces, in bounded memory."""

from __future__ import annotations

import re

from jupyter_jax_trainer.worker.pod.frames import MARK, MAX_FRAME

MAX_LINE = 1 << 20  # bytes; of longer lines the rest is left out
_NOTE = re.compile(rb"\xe2\x80\xa6 \((\d+) bytes more, cut\)$")
_STAMP = 64  # bytes that a timestamp has at most, which is in a line here and later is not


class LineBuffer:
    """Gives whole lines; what they are does not depend on how the bytes were cut.

    A line longer than `MAX_LINE` is cut, and says so; a frame at its end is kept.
    """

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()  # the last bytes of what is beyond MAX_LINE
        self._beyond = 0

    def add(self, data: bytes) -> bytes:
        """Take bytes, give the lines that they have completed."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._hold(data)
            return b""
        lines = data if end == len(data) else data[:end]
        line = b""
        if self._head:
            first = lines.find(b"\n")
            self._hold(lines[:first])
            line, lines = self.rest(), lines[first:]
        if len(lines) > MAX_LINE:
            lines = b"\n".join([_cut(line) for line in lines.split(b"\n")])
        if end < len(data):
            self._hold(data[end:])
        return line + lines if line else lines

    def rest(self) -> bytes:
        """Return the last line, which has no newline, and forget it."""
        line = bytes(self._head)
        if self._beyond:
            line = _join(line, bytes(self._tail), self._beyond)
        self._head.clear()
        self._tail.clear()
        self._beyond = 0
        return line

    def _hold(self, data: bytes) -> None:
        room = MAX_LINE - len(self._head)
        self._head += data[:room]
        if len(data) > room:
            self._beyond += len(data) - room
            self._tail += data[room:]
            del self._tail[:-MAX_FRAME]


def left_out(text: bytes) -> int:
    """Return how many more bytes some text had before its lines were cut."""
    if len(text) <= MAX_LINE - _STAMP:
        return 0
    long = (line for line in text.split(b"\n") if len(line) > MAX_LINE - _STAMP)
    return sum(int(note[1]) - len(note[0]) for line in long if (note := _NOTE.search(line)))


def _cut(line: bytes) -> bytes:
    if len(line) <= MAX_LINE:
        return line
    return _join(line[:MAX_LINE], line[MAX_LINE:][-MAX_FRAME:], len(line) - MAX_LINE)


def _join(head: bytes, tail: bytes, beyond: int) -> bytes:
    at = tail.rfind(MARK)
    frame = tail[at:] if at >= 0 else b""
    left_out = beyond - len(frame)
    return head + (f"… ({left_out} bytes more, cut)".encode() if left_out else b"") + frame
