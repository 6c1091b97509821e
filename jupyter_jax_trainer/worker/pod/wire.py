"""The channel's connections, without sockets: both ends prove that they know the job's key.

Until then a peer is sent a nonce alone, and a greeting of fixed size is read from it::

    server  MAGIC  nonce
    client  MAGIC  nonce  owner  epoch  mac of ("client", rank, both nonces, owner, epoch)
    server  mac of ("server", rank, both nonces, owner, epoch)

Then messages go both ways, each with a mac from a key of the connection and the direction, over its
number and length: what is repeated, left out, moved or from another connection does not fit::

    length  head length  head (JSON)  body  mac

The network between pods is not encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from jupyter_jax_trainer.datatypes import JsonValue

_FAMILY = b"jaxtrain-chan-"
MAGIC = _FAMILY + b"1\n"
MAX_BODY = 1 << 20  # bytes of a message's body
_MAX_HEAD = 1 << 20
_NONCE, _MAC = 32, 32
_OWNER = 16  # bytes
_GREETING = len(MAGIC) + _NONCE
_CLAIM = struct.Struct(f">{_OWNER}sQ")
_INTRODUCTION = _GREETING + _CLAIM.size + _MAC
_LENGTHS = struct.Struct(">II")
_NUMBER = struct.Struct(">Q")


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
    """What is sent: JSON, and bytes where there are many."""

    head: dict[str, JsonValue]
    body: bytes = b""


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
    """

    def __init__(self, key: bytes, rank: int, owner: Owner | None = None) -> None:
        self.owner: Owner | None = None
        self.unsent = bytearray()
        self._key = key
        self._rank = rank
        self._claim = owner  # ours
        self._nonce = secrets.token_bytes(_NONCE)
        self._unread = bytearray()
        self._seal, self._open = _Direction(b""), _Direction(b"")
        self._reading = self._messages()
        if owner is None:
            self.unsent += MAGIC + self._nonce

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
        self.unsent += lengths
        self.unsent += head
        self.unsent += message.body
        self.unsent += self._seal.mac(lengths, head, message.body)

    def receive(self, data: bytes) -> Iterator[Message]:
        """Take bytes, and yield the messages that they complete.

        Raises
        ------
        WireError
            Close the connection.
        """
        self._unread += data
        if self._claim is None and not self.is_proven and len(self._unread) > _INTRODUCTION:
            raise WireError  # a client has nothing to say before it knows whom it speaks to
        while (message := next(self._reading)) is not None:
            yield message

    def _messages(self) -> Iterator[Message | None]:
        """Yield messages as they are complete, and None where more bytes are needed."""
        yield from self._prove()
        while True:
            yield from self._wait_for(_LENGTHS.size)
            length, of_head = _LENGTHS.unpack_from(self._unread)
            if of_head > min(length, _MAX_HEAD) or length - of_head > MAX_BODY:
                raise WireError
            yield from self._wait_for(_LENGTHS.size + length + _MAC)
            lengths, text = self._take(_LENGTHS.size), self._take(of_head)
            body, mac = self._take(length - of_head), self._take(_MAC)
            if not hmac.compare_digest(mac, self._open.mac(lengths, text, body)):
                raise WireError
            try:
                head = json.loads(text)
            except (ValueError, RecursionError):
                raise WireError from None
            if not isinstance(head, dict):
                raise WireError
            yield Message(head, body)

    def _prove(self) -> Iterator[None]:
        """Prove that both ends know the key."""
        if self._claim is None:
            yield from self._wait_for(_INTRODUCTION)
            other = self._greeting()
            claim, mac = self._take(_CLAIM.size), self._take(_MAC)
            both = self._nonce + other + claim
            if not hmac.compare_digest(mac, self._mac_of(b"client", both)):
                raise WireError
            self.unsent += self._mac_of(b"server", both)
            owner, epoch = _CLAIM.unpack(claim)
            self._begin(both, Owner(owner.hex(), epoch), b"to client", b"to server")
        else:
            yield from self._wait_for(_GREETING)
            other = self._greeting()
            claim = _CLAIM.pack(bytes.fromhex(self._claim.id), self._claim.epoch)
            both = other + self._nonce + claim
            self.unsent += MAGIC + self._nonce + claim + self._mac_of(b"client", both)
            yield from self._wait_for(_MAC)
            if not hmac.compare_digest(self._take(_MAC), self._mac_of(b"server", both)):
                raise WireError
            self._begin(both, self._claim, b"to server", b"to client")

    def _begin(self, both: bytes, owner: Owner, ours: bytes, theirs: bytes) -> None:
        self._seal = _Direction(self._mac_of(ours, both))
        self._open = _Direction(self._mac_of(theirs, both))
        self.owner = owner

    def _mac_of(self, what: bytes, both: bytes) -> bytes:
        said = b"channel %s %d " % (what, self._rank) + both
        return hmac.digest(self._key, said, hashlib.sha256)

    def _greeting(self) -> bytes:
        """Return the other end's nonce."""
        magic = self._take(len(MAGIC))
        if magic != MAGIC:
            raise VersionError if magic.startswith(_FAMILY) else WireError
        return self._take(_NONCE)

    def _wait_for(self, size: int) -> Iterator[None]:
        while len(self._unread) < size:
            yield None

    def _take(self, size: int) -> bytes:
        taken = bytes(self._unread[:size])
        del self._unread[:size]
        return taken


class _Direction:
    """Makes the macs of one direction, in order."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def mac(self, *parts: bytes) -> bytes:
        made = hmac.new(self._key, _NUMBER.pack(self._number), hashlib.sha256)
        self._number += 1
        for part in parts:
            made.update(part)
        return made.digest()
