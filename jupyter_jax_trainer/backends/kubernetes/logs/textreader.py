"""Turn lines that the cluster sends into text and messages, deterministically."""

from __future__ import annotations

import json
import re

from jupyter_jax_trainer.backends.kubernetes.logs import messages as said
from jupyter_jax_trainer.backends.kubernetes.logs.linebuffer import left_out
from jupyter_jax_trainer.backends.kubernetes.logs.messages import Message
from jupyter_jax_trainer.backends.kubernetes.logs.timestamps import without_stamps
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.text import counted
from jupyter_jax_trainer.worker.pod.frames import LAST_WORDS, MARK, Decoder

Messages = list[tuple[Message, int]]  # each with its place in the text
_FIRST_PART = re.compile(re.escape(MARK) + rb"\S+ \d+ 1/")


def lost(lines: int, size: int) -> str:
    """Return what is missing: a number of lines, or a part of one."""
    if not lines:
        return say.PART_OF_LINE(size=counted(size, "byte"))
    return counted(lines, "line")


def lost_marker(lines: int, size: int) -> bytes:
    """Return the line that stands where something is missing."""
    return f"[jaxtrain: {say.LINES_LOST_HERE(lines=lost(lines, size))}]\n".encode()


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
        # Lines and bytes printed, by its last report; our counts then; our counts at the last
        # message; and in the text so far. -1 bytes means that it has not said.
        self._count, self._size = 0, -1
        self._counted_at, self._sized_at = 0, 0
        self._framed_at, self._framed_size = 0, 0
        self._newlines, self._bytes = 0, 0
        # Lines and bytes to be marked as missing when the line that is being printed ends.
        self._lost, self._lost_bytes = 0, 0
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
        """Return all that is needed to go on later."""
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
        if at < 0 and not self._lost_bytes:
            return self._plain(lines, 0, messages), messages
        texts: list[bytes] = []
        size = done = 0

        def keep(text: bytes) -> None:
            nonlocal size, mid
            if self._lost_bytes and (end := text.find(b"\n") + 1):
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
                    self._check(message, size, messages)
                    if self._lost_bytes and not mid:
                        keep(self._marker())
                    elif self._lost_bytes and message.kind in LAST_WORDS:
                        keep(b"\n" + self._marker())
                    messages.append((message, size))
            done = end + 1
            at = lines.find(MARK, done)
        if done < len(lines):
            keep(self._plain(lines[done:], size, messages))
        return b"".join(texts), messages

    def _marker(self) -> bytes:
        marker = lost_marker(self._lost, self._lost_bytes)
        self._lost = self._lost_bytes = 0
        return marker

    def _plain(self, lines: bytes, at: int, messages: Messages) -> bytes:
        text, strays = without_stamps(lines)
        for line in strays:
            messages.append((said.NodeSays(text=line.decode(errors="replace")), at))
        return self._counted(text)

    def _counted(self, text: bytes) -> bytes:
        self._newlines += text.count(b"\n")
        self._bytes += len(text) + left_out(text)
        return text

    def _decode(self, line: bytes) -> tuple[bytes, bool, Message | None]:
        text, newline, found = self._decoder.decode(line)
        if not self._decoder.pending:
            self._open = []
        elif not newline:
            if _FIRST_PART.search(line):
                self._open = []
            self._open.append(line[len(text) :])
        return text, newline, None if found is None else said.read(found)

    def _check(self, message: Message, at: int, messages: Messages) -> None:
        """Look for what is missing before a message."""
        incarnation, number = message.incarnation, message.number
        if incarnation != self._incarnation:
            self._incarnation, self._number, self._count, self._size = incarnation, 0, 0, 0
            self._counted_at, self._sized_at = self._framed_at, self._framed_size
        if number > self._number + 1:
            # Its own number is the last of the lost ones: who has written it down up to there
            # still needs the message itself.
            first, last = self._number + 1, number - 1
            lost = said.FramesLost(incarnation=incarnation, number=last, first=first, last=last)
            messages.append((lost, at))
        self._number = number
        self._framed_at, self._framed_size = self._newlines, self._bytes
        if number == 1:
            self._counted_at, self._sized_at = self._newlines, self._bytes
        if isinstance(message, said.Printed):
            self._compare(message, at, messages)

    def _compare(self, message: said.Printed, at: int, messages: Messages) -> None:
        """Compare what was printed with what has come."""
        count, size = message.count, message.size
        if count is None:
            return
        lines = max(0, count - self._count - (self._newlines - self._counted_at))
        self._count, self._counted_at = count, self._newlines
        missing = lines  # a line is one byte at least
        if size is not None:
            if self._size >= 0:
                missing = max(missing, size - self._size - (self._bytes - self._sized_at))
            self._size, self._sized_at = size, self._bytes
        if missing > 0:
            self._lost += lines
            self._lost_bytes += missing
            who, number = message.incarnation, message.number
            gap = said.Gap(incarnation=who, number=number, lines=lines, size=missing)
            messages.append((gap, at))
