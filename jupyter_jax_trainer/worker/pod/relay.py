"""The channel's end in a pod: what the job's writer asks rank 0, process 1 there asks all others.

On the pod of rank 0 it listens on the loopback address, where port-forwards come out; on the others
on a port that is open to the pod network. Nothing here waits: it lives in the loop of process 1.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.worker import timeouts
from jupyter_jax_trainer.worker.pod.wire import Message, Owner, Wire, WireError
from jupyter_jax_trainer.worker.records import Position, Whereabouts
from jupyter_jax_trainer.worker.whereabouts import look_at

PORT_VARIABLE = "JAXTRAIN_CHANNEL_PORT"
PORT = 29_510  # of ranks other than 0, where nothing else is set
_MOST_PEERS, _MOST_UNPROVEN = 32, 16
_MOST_DIALLED = 256  # other pods that are asked at a time: files are limited, often to 1024
_PIECE = 1 << 16  # bytes
_UNPROVEN = 1 << 10  # bytes that are read at a time of a peer that has not proven itself
_UNREAD = 8 << 20  # bytes that a peer may leave unread
_RELAYS = Owner("00" * 16, 0)  # process 1 of rank 0, to the others
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
    """

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

    def send(self, head: dict[str, JsonValue]) -> None:
        """Send a message as soon as that is possible."""
        if self._open:
            with self._closing():
                self.wire.send(Message(head))
                self._flush()

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
        with self._closing():
            self._flush()
        if not self._open:
            return
        with self._closing():
            data = self._connection.recv(_PIECE if self.wire.is_proven else _UNPROVEN)
            if not data:
                raise WireError
            for message in self.wire.receive(data):
                self._on_message(self, message)
                if not self._open:
                    return
            if self._first is not None and self.wire.is_proven:
                self.wire.send(self._first)
                self._first = None
            self._flush()

    def _flush(self) -> None:
        unsent = self.wire.unsent
        try:
            while unsent:
                del unsent[: self._connection.send(unsent)]
        finally:
            if len(unsent) > _UNREAD:
                raise WireError
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if unsent else 0)
            self._selector.modify(self._connection, events, self._serve)


@dataclass
class _RollCall:
    """A question to all ranks that is open, and who waits for its answer."""

    until: float
    missing: set[int]
    waiting: list[tuple[Peer, int]]
    queue: deque[tuple[int, Address]]
    dialled: list[Peer] = field(default_factory=list)
    found: list[Whereabouts] = field(default_factory=list)


class Relay:
    """What process 1 answers, by itself or with the other pods.

    Parameters
    ----------
    key, rank
        The job's key, and the rank of this pod.
    selector
        The loop's: what is registered in it has a function as its data.
    ask_rank
        Asks the rank of this pod where it is; it answers to `take_place`.
    """

    def __init__(
        self,
        key: bytes,
        rank: int,
        selector: selectors.BaseSelector,
        ask_rank: Callable[[], None],
    ) -> None:
        self.pid = 0  # of the rank
        self._key = key
        self._rank = rank
        self._selector = selector
        self._ask_rank = ask_rank
        self._peers: list[Peer] = []
        self._owner: Owner | None = None
        self._roll_call: _RollCall | None = None
        self._socket: socket.socket | None = None

    def listen(self) -> int | None:
        """Listen, and return the port; None where that is another's."""
        try:
            if self._rank == 0:
                listening = socket.create_server(("127.0.0.1", 0))
            else:
                wanted = os.environ.get(PORT_VARIABLE, "")
                port = int(wanted) if wanted.isdigit() else PORT
                if socket.has_dualstack_ipv6():
                    family = socket.AF_INET6
                    listening = socket.create_server(
                        ("::", port), family=family, dualstack_ipv6=True
                    )
                else:
                    listening = socket.create_server(("", port))
        except (OSError, OverflowError):
            return None
        listening.setblocking(False)
        self._socket = listening
        self._selector.register(listening, selectors.EVENT_READ, self._accept)
        return int(listening.getsockname()[1])

    def close(self) -> None:
        """Close all files, in a process that is forked."""
        for peer in self._peers[:]:
            peer.close()
        if self._socket is not None:
            self._socket.close()

    def tick(self) -> None:
        """Drop peers that don't prove themselves, and answer for ranks that don't."""
        now = time.monotonic()
        for peer in self._peers[:]:
            if not peer.wire.is_proven and now - peer.since > timeouts.PROOF.seconds:
                peer.close()
        if self._roll_call is not None:
            self._hurry(self._roll_call, now)

    @property
    def is_busy(self) -> bool:
        """Whether time matters: `tick` has to be called soon."""
        return self._roll_call is not None or any(not peer.wire.is_proven for peer in self._peers)

    def take_place(self, where: Position) -> None:
        """Take what the rank of this pod has answered."""
        self._note(self._own(where))

    def _own(self, where: Position | None) -> Whereabouts:
        """Return where the rank of this pod is; its process can be looked at in any case."""
        process, memory = look_at(self.pid)
        return {"rank": self._rank, "where": where, "process": process, "memory": memory}

    # -- those who ask -------------------------------------------------------------------------

    def _accept(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(OSError):
            connection, _ = self._socket.accept()
            unproven = sum(not peer.wire.is_proven for peer in self._peers)
            if len(self._peers) >= _MOST_PEERS or unproven >= _MOST_UNPROVEN:
                connection.close()
                return
            wire = Wire(self._key, self._rank)
            self._peers.append(
                Peer(connection, wire, self._selector, self._serve, self._peers.remove)
            )

    def _serve(self, peer: Peer, message: Message) -> None:
        number, ask = message.head.get("number"), message.head.get("ask")
        if not self._may_ask(peer.wire.owner):
            in_force = None if self._owner is None else self._owner.epoch
            peer.send({"number": number, "error": "owner", "epoch": in_force})
        elif ask == "where" and type(number) is int:
            self._call_roll(peer, number, _addresses(message.head.get("addresses")))
        elif ask == "ping":
            peer.send({"number": number})
        else:
            peer.send({"number": number, "error": "unknown"})

    def _may_ask(self, owner: Owner | None) -> bool:
        """Return whether somebody is the owner, or takes over."""
        if owner is None:
            return False
        if self._owner is None or owner.epoch > self._owner.epoch:
            self._owner = owner
        return owner == self._owner

    # -- where ranks are -----------------------------------------------------------------------

    def _call_roll(self, peer: Peer, number: int, addresses: Mapping[int, Address]) -> None:
        """Ask all ranks, unless they are being asked."""
        if self._roll_call is not None:
            self._roll_call.waiting.append((peer, number))
            return
        others = {rank: at for rank, at in addresses.items() if rank != self._rank}
        # Other pods answer for a silent rank when its time is over: that has to arrive, too.
        patience = timeouts.LAST_WORDS.seconds * (2 if others else 1)
        until = time.monotonic() + patience
        queue = deque(others.items())
        self._roll_call = _RollCall(until, {self._rank, *others}, [(peer, number)], queue)
        self._ask_rank()
        self._dial_next()

    def _dial_next(self) -> None:
        """Dial those whose turn it is."""
        while (call := self._roll_call) and call.queue and len(call.dialled) < _MOST_DIALLED:
            self._dial(call, *call.queue.popleft())

    def _dial(self, call: _RollCall, rank: int, address: Address) -> None:
        host, port = address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with contextlib.ExitStack() as opened:
            try:
                socket.inet_pton(family, host.partition("%")[0])  # a name would be looked up
                connection = opened.enter_context(socket.socket(family))
                connection.setblocking(False)
                connection.connect_ex((host, port))
            except (OSError, ValueError):  # no address at all, or no more files
                self._note(_unknown(rank))
                return
            opened.pop_all()

        def on_end(peer: Peer) -> None:
            call.dialled.remove(peer)
            self._note(_unknown(rank))
            self._dial_next()

        call.dialled.append(
            Peer(
                connection,
                Wire(self._key, rank, _RELAYS),
                self._selector,
                partial(self._hear, rank),
                on_end,
                Message({"number": 1, "ask": "where"}),
            )
        )

    def _hurry(self, call: _RollCall, now: float) -> None:
        """End a call whose time is over; don't let pods that can't be reached hold up others."""
        if now > call.until:
            self._end_roll_call(call)
        elif call.queue:
            for peer in call.dialled[:]:
                if not peer.wire.is_proven and now - peer.since > timeouts.REACH.seconds:
                    peer.close()

    def _hear(self, rank: int, peer: Peer, message: Message) -> None:
        """Take the answer of another pod."""
        answers = message.head.get("ranks")
        one = answers[0] if isinstance(answers, list) and len(answers) == 1 else None
        found = cast(Whereabouts, {**one, "rank": rank}) if isinstance(one, dict) else None
        self._note(found or _unknown(rank))
        peer.close()

    def _note(self, found: Whereabouts) -> None:
        """Note where a rank is, unless that is known."""
        call = self._roll_call
        if call is None or found["rank"] not in call.missing:
            return
        call.missing.remove(found["rank"])
        call.found.append(found)
        if not call.missing:
            self._end_roll_call(call)

    def _end_roll_call(self, call: _RollCall) -> None:
        self._roll_call = None
        for rank in sorted(call.missing):
            call.found.append(self._own(None) if rank == self._rank else _unknown(rank))
        for peer in call.dialled[:]:
            peer.close()
        for peer, number in call.waiting:
            peer.send({"number": number, "ranks": cast(list[JsonValue], call.found)})


def _unknown(rank: int) -> Whereabouts:
    """Return what is known of a rank that can't be asked."""
    return {"rank": rank, "where": None, "process": None, "memory": None}


def _addresses(given: JsonValue) -> dict[int, Address]:
    """Read the addresses of ranks: ``{"1": ["10.0.0.7", 29510]}``; what is none is left out."""
    found: dict[int, Address] = {}
    if isinstance(given, dict) and len(given) < _MOST_RANKS:
        for rank, address in given.items():
            match address:
                case [str(host), int(port)] if rank.isdecimal() and 0 < port < 1 << 16:
                    found[int(rank)] = host, port
    return found
