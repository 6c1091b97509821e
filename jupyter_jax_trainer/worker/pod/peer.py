"""A connection in the loop of process 1: a socket that never blocks, and what goes through it."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Mapping

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.worker.pod.wire import Data, Message, Wire, WireError

_PIECE = 1 << 14  # bytes that are read at a time, but for those of a body that is still to come
_UNPROVEN = 1 << 10  # bytes that are read at a time of a peer that has not proven itself
_UNREAD = 8 << 20  # bytes that a peer may leave unread
_MOST_RANKS = 1 << 16

Address = tuple[str, int]


class Peer:
    """A connection in the loop of process 1.

    Parameters
    ----------
    connection
        The socket, which may still be connecting.
    wire
        What goes through it.
    selector
        The loop's.
    on_message
        Called with each message.
    on_end
        Called once, when it is closed.
    first
        Sent as soon as the other end has proven itself.

    Attributes
    ----------
    host
        Where it comes from; empty where this end has dialled.
    """

    host = ""

    def __init__(
        self,
        connection: socket.socket,
        wire: Wire,
        selector: selectors.BaseSelector,
        on_message: Callable[[Peer, Message], None],
        on_end: Callable[[Peer], None],
        first: Message | None = None,
    ) -> None:
        self.wire = wire
        self.since = time.monotonic()
        self._connection = connection
        self._selector = selector
        self._on_message = on_message
        self._on_end = on_end
        self._first = first
        self._open = True
        connection.setblocking(False)
        both = selectors.EVENT_READ | selectors.EVENT_WRITE
        selector.register(connection, both, self._serve)

    def send(self, head: dict[str, JsonValue], body: Data = b"", digest: bytes = b"") -> None:
        """Send a message as soon as that is possible."""
        if self._open:
            with self._closing():
                self.wire.send(Message(head, body, digest))
                self._flush()

    @property
    def is_open(self) -> bool:
        """Whether something can still be sent."""
        return self._open

    def abandon(self) -> None:
        """Close the file in a forked process, which shares the loop's registrations."""
        self._open = False
        self._connection.close()

    def close(self) -> None:
        """Close the connection."""
        if self._open:
            self._open = False
            self._selector.unregister(self._connection)
            self._connection.close()
            self._on_end(self)

    @contextlib.contextmanager
    def _closing(self) -> Iterator[None]:
        """Close the connection where something is wrong with it."""
        try:
            yield
        except BlockingIOError:
            pass
        except (OSError, WireError):
            self.close()

    def _serve(self) -> None:
        if self._open:  # another one may have closed it since the loop looked
            with self._closing():
                self._flush()
        if not self._open:
            return
        with self._closing():
            for message in self._receive():
                self._on_message(self, message)
                if not self._open:
                    return
            if self._first is not None and self.wire.is_proven:
                self.wire.send(self._first)
                self._first = None
            self._flush()

    def _receive(self) -> Iterator[Message]:
        """Read some bytes, those of a body where they belong, and return what they complete."""
        if len(self.wire.awaited) >= _PIECE and self.wire.is_proven:
            count = self._connection.recv_into(self.wire.awaited)
            found = self.wire.fill(count)
        else:
            data = self._connection.recv(_PIECE if self.wire.is_proven else _UNPROVEN)
            count, found = len(data), self.wire.receive(data)
        if not count:
            raise WireError
        return found

    def _flush(self) -> None:
        unsent = self.wire.unsent
        try:
            while unsent:
                unsent.drop(self._connection.sendmsg(unsent.first()))
        finally:
            if len(unsent) > _UNREAD:
                raise WireError
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if unsent else 0)
            self._selector.modify(self._connection, events, self._serve)


def dial(
    address: Address,
    wire: Wire,
    selector: selectors.BaseSelector,
    on_message: Callable[[Peer, Message], None],
    on_end: Callable[[Peer], None],
    first: Message,
) -> Peer | None:
    """Connect to process 1 of another pod; return None where that can't be begun.

    Parameters
    ----------
    address
        Its host and port.
    wire, selector, on_message, on_end, first
        As of `Peer`.
    """
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as opened:
        try:
            socket.inet_pton(family, host.partition("%")[0])  # a name would be looked up
            connection = opened.enter_context(socket.socket(family))
            connection.setblocking(False)
            connection.connect_ex((host, port))
        except (OSError, ValueError):  # no address at all, or no more files
            return None
        opened.pop_all()
    return Peer(connection, wire, selector, on_message, on_end, first)


def write_addresses(addresses: Mapping[int, Address]) -> dict[str, JsonValue]:
    """Write the addresses of ranks as `read_addresses` reads them."""
    return {str(rank): [*address] for rank, address in addresses.items()}


def read_addresses(given: JsonValue) -> dict[int, Address]:
    """Read the addresses of ranks: ``{"1": ["10.0.0.7", 29510]}``; what is none is left out."""
    found: dict[int, Address] = {}
    if isinstance(given, dict) and len(given) < _MOST_RANKS:
        for rank, address in given.items():
            match address:
                case [str(host), int(port)] if rank.isdecimal() and 0 < port < 1 << 16:
                    found[int(rank)] = host, port
    return found
