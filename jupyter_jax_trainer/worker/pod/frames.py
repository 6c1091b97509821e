r"""Messages in a stream of text: how a worker in a pod speaks to whoever reads its log.

A message (a JSON object with ``kind``) becomes one or more frames, each of the form::

    \x1ejaxtrain1 INCARNATION NUMBER PART/PARTS PIECE MAC\n

INCARNATION is the worker's own (8 hex digits, another after each restart), NUMBER counts its
messages from 1, the PIECEs of a message together are base64 of zlib of its JSON, and MAC is from
a key that the job's Secret holds, so that nothing that a cell prints can pass for a frame. A frame
may begin in the middle of a line; taken out with its newline, it leaves the text as it was. It is
short enough that one write of it to a pipe is never split (PIPE_BUF is 4096 on Linux).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import zlib
from collections.abc import Mapping

from jupyter_jax_trainer.datatypes import JsonValue

KEY_VARIABLE = "JAXTRAIN_FRAME_KEY"
LAST_WORDS = ("finished", "error", "stopped")  # kinds of messages: how a worker has ended
MARK = b"\x1ejaxtrain1 "
MAX_FRAME = 4_000  # bytes, newline included
_PIECE = 3_840  # characters of base64; what is left is for the head and the mac
_MAC = 32  # hex digits
_MAX_MESSAGE = 64 << 20  # bytes that a reader holds for one message, whatever a stream says
_BODY = re.compile(
    rb"([0-9a-f]{8}) ([1-9][0-9]{0,14}) ([1-9][0-9]{0,5})/([1-9][0-9]{0,5})"
    rb" ([A-Za-z0-9+/=]{0,3840}) ([0-9a-f]{32})"
)


def key_from(text: str) -> bytes:
    """Return the key of the variable that holds it."""
    return text.strip().encode()


def dumps(message: Mapping[str, JsonValue]) -> bytes:
    """Return the JSON of a message."""
    return json.dumps(message, default=str, separators=(",", ":")).encode()


def encode(
    key: bytes, rank: int, incarnation: str, number: int, message: Mapping[str, JsonValue]
) -> list[bytes]:
    """Return the frames of a message, in order.

    Parameters
    ----------
    key
        The job's key.
    rank
        Whose message it is; a frame of one rank is none in the log of another.
    incarnation
        8 hex digits, the same for all messages of a process.
    number
        The message's number, from 1 on.
    message
        What can be JSON.
    """
    return encode_json(key, rank, incarnation, number, dumps(message))


def encode_json(key: bytes, rank: int, incarnation: str, number: int, text: bytes) -> list[bytes]:
    """Return the frames of a message that is JSON already."""
    packed = base64.b64encode(zlib.compress(text))
    pieces = [packed[at : at + _PIECE] for at in range(0, len(packed), _PIECE)]
    frames = []
    for part, piece in enumerate(pieces, 1):
        body = b"%s %d %d/%d %s" % (incarnation.encode(), number, part, len(pieces), piece)
        frames.append(b"%s%s %s\n" % (MARK, body, _mac(key, rank, body)))
    return frames


def _mac(key: bytes, rank: int, body: bytes) -> bytes:
    digest = hmac.digest(key, b"%d %s" % (rank, body), hashlib.sha256)
    return digest.hex()[:_MAC].encode()


class Decoder:
    """Takes the frames out of one stream: the log of one attempt of a container.

    Parameters
    ----------
    key
        The job's key; None leaves all frames out of the text, unread.
    rank
        Whose stream it is.

    Attributes
    ----------
    seen
        The number of the last message of each incarnation; a reader that begins in the middle of a
        stream can put there what it has applied before.
    """

    def __init__(self, key: bytes | None, rank: int) -> None:
        self._key = key
        self._rank = rank
        self.seen: dict[str, int] = {}
        self._open: tuple[str, int, int] | None = None  # incarnation, number, parts
        self._pieces: list[bytes] = []

    @property
    def pending(self) -> bool:
        """Whether a message has begun and its last part is still to come."""
        return self._open is not None

    def decode(self, line: bytes) -> tuple[bytes, bool, dict[str, JsonValue] | None]:
        """Take a line apart.

        Parameters
        ----------
        line
            Without its newline and without a timestamp.

        Returns
        -------
        bytes
            The text to keep.
        bool
            Whether a newline belongs after it.
        dict or None
            The message that this line completed, with ``frame``: [incarnation, number].
        """
        at = line.rfind(MARK)  # a frame ends its line, and holds no second mark
        if at < 0:
            return line, True, None
        found = _BODY.fullmatch(line, at + len(MARK))
        if found is None:
            return line, True, None
        if self._key is None:
            return line[:at], False, None
        body = line[at + len(MARK) : found.end(5)]
        if not hmac.compare_digest(_mac(self._key, self._rank, body), found[6]):
            return line, True, None
        message = self._take(
            found[1].decode(), int(found[2]), int(found[3]), int(found[4]), found[5]
        )
        return line[:at], False, message

    def _take(
        self, incarnation: str, number: int, part: int, parts: int, piece: bytes
    ) -> dict[str, JsonValue] | None:
        """Add a part; a message whose parts don't come in order is dropped as a whole."""
        if number <= self.seen.get(incarnation, 0):
            return None
        this = (incarnation, number, parts)
        if part == 1:
            self._open, self._pieces = this, []
        elif this == self._open and part <= len(self._pieces):
            return None  # repeated
        elif this != self._open or part != len(self._pieces) + 1:
            self._drop()
            return None
        self._pieces.append(piece)
        if part < parts:
            if parts * _PIECE > _MAX_MESSAGE:
                self._drop()
            return None
        packed = b"".join(self._pieces)
        self._drop()
        self.seen[incarnation] = number
        message = _read(packed)
        return None if message is None else {**message, "frame": [incarnation, number]}

    def _drop(self) -> None:
        self._open, self._pieces = None, []


def _read(packed: bytes) -> dict[str, JsonValue] | None:
    """Return the message; None for what no worker has written."""
    try:
        text = zlib.decompressobj().decompress(base64.b64decode(packed), _MAX_MESSAGE)
        message = json.loads(text)
    except (ValueError, zlib.error, RecursionError):
        return None
    return message if isinstance(message, dict) and "kind" in message else None
