"""Whole lines out of bytes that come in any pieces, in bounded memory."""

from __future__ import annotations

from jupyter_jax_trainer.worker.frames import MARK, MAX_FRAME

MAX_LINE = 1 << 20  # bytes; of longer lines the rest is left out


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
        """Give the last line, which has no newline, and forget it."""
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


def _cut(line: bytes) -> bytes:
    if len(line) <= MAX_LINE:
        return line
    return _join(line[:MAX_LINE], line[MAX_LINE:][-MAX_FRAME:], len(line) - MAX_LINE)


def _join(head: bytes, tail: bytes, beyond: int) -> bytes:
    at = tail.rfind(MARK)
    frame = tail[at:] if at >= 0 else b""
    left_out = beyond - len(frame)
    return head + (f"… ({left_out} bytes more, cut)".encode() if left_out else b"") + frame
