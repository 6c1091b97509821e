"""From the lines that the cluster sends to text and messages, the same each time it is done."""

from __future__ import annotations

import json
import re
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.stamps import without_stamps
from jupyter_jax_trainer.worker.frames import LAST_WORDS, MARK, Decoder

Messages = list[tuple[dict[str, Any], int]]  # each with its place in the text
_FIRST_PART = re.compile(re.escape(MARK) + rb"\S+ \d+ 1/")


def lost_marker(lines: int) -> bytes:
    """Give the line that stands where lines are missing."""
    words = f"{lines} line" if lines == 1 else f"{lines} lines"
    return f"[jaxtrain: the cluster has lost {words} here (log rotation)]\n".encode()


class TextReader:
    """Takes timestamps and frames out of one stream, and sees what is missing in it.

    Parameters
    ----------
    key
        The job's key; None leaves the frames unread.
    rank
        Whose stream it is.
    state
        What `state` gave for the stream so far.
    """

    def __init__(self, key: bytes | None, rank: int, state: bytes = b"") -> None:
        self._decoder = Decoder(key, rank)
        self._open: list[bytes] = []  # lines of the message that is not complete
        self._incarnation = ""
        self._number = 0  # of its last message
        self._count = 0  # lines that it had printed, by its last word
        self._counted_at = 0  # ours then
        self._framed_at = 0  # ours at the last message
        self._newlines = 0  # in the text so far
        self._lost = 0  # lines to be marked as missing when the line that is being printed ends
        if state:
            head, _, lines = state.partition(b"\0")
            given = json.loads(head)
            self._decoder.seen.update(given.pop("seen"))
            vars(self).update(given)
            for line in lines.split(b"\n")[:-1]:
                self._decode(line)

    @property
    def open_size(self) -> int:
        """Bytes of the message that is not complete."""
        return sum(map(len, self._open))

    def state(self) -> bytes:
        """Give all that is needed to go on later."""
        numbers = {name: value for name, value in vars(self).items() if type(value) in (int, str)}
        head = json.dumps({"seen": self._decoder.seen, **numbers}).encode()
        return head + b"\0" + b"".join(line + b"\n" for line in self._open)

    def read(self, lines: bytes, mid: bool) -> tuple[bytes, Messages]:
        """Take lines apart.

        Parameters
        ----------
        lines
            Whole lines with timestamps; only the last of a stream may lack its newline.
        mid
            Whether the text before them ended within a line.

        Returns
        -------
        bytes
            The text, with a line where lines are missing.
        list
            The messages, each with its place in the text.
        """
        messages: Messages = []
        at = lines.find(MARK)
        if at < 0 and not self._lost:
            return self._plain(lines, 0, messages), messages
        texts: list[bytes] = []
        size = done = 0

        def keep(text: bytes) -> None:
            nonlocal size, mid
            if self._lost and (end := text.find(b"\n") + 1):
                text = text[:end] + self._marker() + text[end:]
            if text:
                texts.append(text)
                size += len(text)
                mid = not text.endswith(b"\n")

        while at >= 0:
            start = lines.rfind(b"\n", 0, at) + 1
            end = lines.find(b"\n", at)
            end = len(lines) if end < 0 else end
            if start > done:
                keep(self._plain(lines[done:start], size, messages))
            stamped, strays = without_stamps(lines[start:end])
            if not strays:
                text, newline, message = self._decode(stamped)
                keep(self._counted(text + lines[end : end + 1] if newline else text))
                if message is not None:
                    self._lost += max(0, self._check(message, size, messages))
                    if self._lost and not mid:
                        keep(self._marker())
                    elif self._lost and message["kind"] in LAST_WORDS:
                        keep(b"\n" + self._marker())
                    messages.append((message, size))
            done = end + 1
            at = lines.find(MARK, done)
        if done < len(lines):
            keep(self._plain(lines[done:], size, messages))
        return b"".join(texts), messages

    def _marker(self) -> bytes:
        lost, self._lost = self._lost, 0
        return lost_marker(lost)

    def _plain(self, lines: bytes, at: int, messages: Messages) -> bytes:
        text, strays = without_stamps(lines)
        for line in strays:
            said = line.decode(errors="replace")
            messages.append(({"kind": "node_says", "text": said}, at))
        return self._counted(text)

    def _counted(self, text: bytes) -> bytes:
        self._newlines += text.count(b"\n")
        return text

    def _decode(self, line: bytes) -> tuple[bytes, bool, dict[str, Any] | None]:
        text, newline, message = self._decoder.decode(line)
        if not self._decoder.pending:
            self._open = []
        elif not newline:
            if _FIRST_PART.search(line):
                self._open = []
            self._open.append(line[len(text) :])
        return text, newline, message

    def _check(self, message: dict[str, Any], at: int, messages: Messages) -> int:
        """Look for what is missing before a message; give the number of lines."""
        incarnation, number = message["frame"]
        if incarnation != self._incarnation:
            self._incarnation, self._number, self._count = incarnation, 0, 0
            self._counted_at = self._framed_at
        if number > self._number + 1:
            # Its own number is the last of the lost ones: who has written it down up to there
            # still needs the message itself.
            frame = [incarnation, number - 1]
            lost = {"kind": "frames_lost", "from": self._number + 1, "to": number - 1}
            messages.append(({**lost, "frame": frame}, at))
        self._number = number
        self._framed_at = self._newlines
        if number == 1:
            self._counted_at = self._newlines
        count = message.get("count")
        if message["kind"] != "lines" or type(count) is not int:
            return 0
        missing = count - self._count - (self._newlines - self._counted_at)
        self._count, self._counted_at = count, self._newlines
        if missing > 0:
            messages.append(({"kind": "gap", "lines": missing, "frame": message["frame"]}, at))
        return missing
