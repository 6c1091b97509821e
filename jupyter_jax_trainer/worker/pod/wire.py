"""The channel's connections, without sockets: both ends prove that they know the job's key.

Until then a peer is sent a nonce alone, and a greeting of fixed size is read from it::

    server  MAGIC  nonce
    client  MAGIC  nonce  owner  epoch  mac of ("client", rank, both nonces, owner, epoch)
    server  mac of ("server", rank, both nonces, owner, epoch)

Then messages go both ways, each with a mac from a key of the connection and the direction, over its
number, its lengths, its head and the digest of its body: what is repeated, left out, moved or from
another connection does not fit::

    length  head length  head (JSON)  body  mac

A body is hashed once, with BLAKE2b: whoever hands it on, or checks more than that, uses the same
digest. In a pod that is most of the work, and where the processor has no instructions for SHA-256,
it takes half as long. The network between pods is not encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import struct
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import islice

from jupyter_jax_trainer.datatypes import JsonValue

_FAMILY = b"jaxtrain-chan-"
MAGIC = _FAMILY + b"3\n"
MAX_BODY = 1 << 20  # bytes of a message's body
_MAX_HEAD = 1 << 20
DIGEST = 32  # bytes
_NONCE, _MAC = 32, 32
_OWNER = 16  # bytes
_GREETING = len(MAGIC) + _NONCE
_CLAIM = struct.Struct(f">{_OWNER}sQ")
_INTRODUCTION = _GREETING + _CLAIM.size + _MAC
_LENGTHS = struct.Struct(">II")
_NUMBER = struct.Struct(">Q")

_MOST_PIECES = 64  # a system takes 1024 at a time
_NOWHERE = memoryview(b"")

Data = bytes | bytearray


def digest_of(data: Data | memoryview) -> bytes:
    """Return the digest of a message's body, or of other data: 32 bytes."""
    return hashlib.blake2b(data, digest_size=DIGEST).digest()


class WireError(Exception):
    """The other end does not know the key, or breaks the rules; the connection is of no use."""


class VersionError(WireError):
    """The other end speaks another version of this protocol."""


@dataclass(frozen=True)
class Owner:
    """Who asks: of two owners the one of the later epoch counts.

    Parameters
    ----------
    id
        16 bytes in hex, of the job store.
    epoch
        Counts up with each take-over.
    """

    id: str
    epoch: int


@dataclass(frozen=True)
class Message:
    """What is sent: JSON, and bytes where there are many.

    Attributes
    ----------
    digest
        The digest of the body: of each message that was received, and of one that is sent where it
        is known.
    """

    head: dict[str, JsonValue]
    body: Data = b""
    digest: bytes = field(default=b"", compare=False)


class Unsent:
    """Bytes to be sent, in order: large ones are not copied."""

    def __init__(self) -> None:
        self._pieces: deque[memoryview] = deque()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, *pieces: Data) -> None:
        """Add what comes last; nobody changes it from now on."""
        self._pieces.extend(memoryview(piece) for piece in pieces if piece)
        self._size += sum(map(len, pieces))

    def first(self) -> list[memoryview]:
        """Return what comes first, as much as one call can send."""
        return [*islice(self._pieces, _MOST_PIECES)]

    def drop(self, count: int) -> None:
        """Forget so many bytes, which are sent."""
        self._size -= count
        while count:
            piece = self._pieces.popleft()
            if len(piece) > count:
                self._pieces.appendleft(piece[count:])
            count -= min(count, len(piece))

    def take(self) -> bytes:
        """Return all, and forget it."""
        pieces, self._pieces, self._size = self._pieces, deque(), 0
        return b"".join(pieces)


class Wire:
    """One end of a connection: takes what has come, and gives what is to be sent.

    Parameters
    ----------
    key
        The job's key.
    rank
        The rank at the server's end: a client that means another one fails.
    owner
        Who the client is; None at the server's end, which learns it.

    Attributes
    ----------
    owner
        Who the client is, once that is proven.
    unsent
        Bytes to be sent.
    awaited
        Where the next bytes of a body belong: who has written some there calls `fill`.
    """

    def __init__(self, key: bytes, rank: int, owner: Owner | None = None) -> None:
        self.owner: Owner | None = None
        self.unsent = Unsent()
        self.awaited = _NOWHERE
        self._key = key
        self._rank = rank
        self._claim = owner  # ours
        self._nonce = secrets.token_bytes(_NONCE)
        self._came = _NOWHERE  # and is not read yet
        self._filled = 0
        self._seal, self._open = _Direction(b""), _Direction(b"")
        self._reading = self._messages()
        if owner is None:
            self.unsent.add(MAGIC + self._nonce)

    @property
    def is_proven(self) -> bool:
        """Whether the other end knows the key."""
        return self.owner is not None

    def send(self, message: Message) -> None:
        """Put a message among the unsent bytes.

        Raises
        ------
        WireError
            It is too large, or the other end has not proven that it knows the key.
        """
        head = json.dumps(message.head, separators=(",", ":")).encode()
        if not self.is_proven or len(head) > _MAX_HEAD or len(message.body) > MAX_BODY:
            raise WireError
        lengths = _LENGTHS.pack(len(head) + len(message.body), len(head))
        mac = self._seal.mac(lengths, head, message.digest or digest_of(message.body))
        self.unsent.add(lengths + head, message.body, mac)

    def receive(self, data: bytes | memoryview) -> Iterator[Message]:
        """Take bytes, and yield the messages that they complete.

        Raises
        ------
        WireError
            Close the connection.
        """
        self._came = memoryview(data)
        while (message := next(self._reading)) is not None:
            yield message

    def fill(self, count: int) -> Iterator[Message]:
        """Take so many bytes that were written where they are awaited; as `receive` otherwise."""
        self._filled = count
        return self.receive(b"")

    def _messages(self) -> Iterator[Message | None]:
        """Yield messages as they are complete, and None where more bytes are needed."""
        yield from self._prove()
        while True:
            lengths = yield from self._take(_LENGTHS.size)
            length, of_head = _LENGTHS.unpack(lengths)
            if of_head > min(length, _MAX_HEAD) or length - of_head > MAX_BODY:
                raise WireError
            text = yield from self._take(of_head)
            body = yield from self._take(length - of_head)
            mac = yield from self._take(_MAC)
            digest = digest_of(body)
            if not hmac.compare_digest(mac, self._open.mac(lengths, text, digest)):
                raise WireError
            try:
                head = json.loads(text)
            except (ValueError, RecursionError):
                raise WireError from None
            if not isinstance(head, dict):
                raise WireError
            yield Message(head, body, digest)

    def _prove(self) -> Generator[None, None, None]:
        """Prove that both ends know the key."""
        if self._claim is None:
            other = yield from self._greeting()
            claim = yield from self._take(_CLAIM.size)
            mac = yield from self._take(_MAC)
            both = self._nonce + other + claim
            if not hmac.compare_digest(mac, self._mac_of(b"client", both)):
                raise WireError
            if self._came:  # a client has nothing to say before it knows whom it speaks to
                raise WireError
            self.unsent.add(self._mac_of(b"server", both))
            owner, epoch = _CLAIM.unpack(claim)
            self._begin(both, Owner(owner.hex(), epoch), b"to client", b"to server")
        else:
            other = yield from self._greeting()
            claim = _CLAIM.pack(bytes.fromhex(self._claim.id), self._claim.epoch)
            both = other + self._nonce + claim
            self.unsent.add(MAGIC + self._nonce + claim + self._mac_of(b"client", both))
            mac = yield from self._take(_MAC)
            if not hmac.compare_digest(mac, self._mac_of(b"server", both)):
                raise WireError
            self._begin(both, self._claim, b"to server", b"to client")

    def _begin(self, both: bytes, owner: Owner, ours: bytes, theirs: bytes) -> None:
        self._seal = _Direction(self._mac_of(ours, both))
        self._open = _Direction(self._mac_of(theirs, both))
        self.owner = owner

    def _mac_of(self, what: bytes, both: bytes) -> bytes:
        said = b"channel %s %d " % (what, self._rank) + both
        return hmac.digest(self._key, said, hashlib.sha256)

    def _greeting(self) -> Generator[None, None, bytes]:
        """Return the other end's nonce."""
        magic = yield from self._take(len(MAGIC))
        if magic != MAGIC:
            raise VersionError if magic.startswith(_FAMILY) else WireError
        return bytes((yield from self._take(_NONCE)))

    def _take(self, size: int) -> Generator[None, None, Data]:
        """Return the next bytes, as soon as they are here."""
        taken, have = bytearray(size), 0
        while True:
            piece = self._came[: size - have]
            taken[have : have + len(piece)] = piece
            self._came = self._came[len(piece) :]
            have += len(piece)
            if have == size:
                return taken
            self.awaited = memoryview(taken)[have:]
            yield None
            have += self._filled
            self._filled, self.awaited = 0, _NOWHERE


class _Direction:
    """Makes the macs of one direction, in order."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def mac(self, *parts: Data) -> bytes:
        said = b"".join((_NUMBER.pack(self._number), *parts))
        self._number += 1
        return hmac.digest(self._key, said, hashlib.sha256)
