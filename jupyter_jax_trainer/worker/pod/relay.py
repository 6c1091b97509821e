"""The channel's end in a pod: what the job's writer asks rank 0, process 1 there asks all others.

On the pod of rank 0 it listens on the loopback address, where port-forwards come out; on the others
on a port that is open to the pod network. Nothing here waits: it lives in the loop of process 1.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.worker import timeouts
from jupyter_jax_trainer.worker.pod.parcel import TransferError
from jupyter_jax_trainer.worker.pod.peer import Address, Peer, dial, read_addresses
from jupyter_jax_trainer.worker.pod.restart import Restart
from jupyter_jax_trainer.worker.pod.transfer import Transfer
from jupyter_jax_trainer.worker.pod.wire import Message, Owner, Wire
from jupyter_jax_trainer.worker.records import Position, Whereabouts
from jupyter_jax_trainer.worker.whereabouts import look_at

if TYPE_CHECKING:
    from jupyter_jax_trainer.worker.pod.cells import Cells

PORT_VARIABLE = "JAXTRAIN_CHANNEL_PORT"
PORT = 29_510  # of ranks other than 0, where nothing else is set
_WHERE: dict[str, JsonValue] = {"ask": "where"}
_MOST_PEERS, _MOST_UNPROVEN = 32, 16
_OF_RESTARTS = ("restart", "stop", "start")
_OF_SESSIONS = ("tell", "rests")
_TICK = 0.1  # seconds
_MOST_DIALLED = 256  # other pods that are asked at a time: files are limited, often to 1024
_TURN = 1.5  # seconds for a pod to answer the call while others wait for their turn


@dataclass
class _RollCall:
    """An open question to all ranks, and the requests that wait for its answer."""

    asked: dict[str, JsonValue]
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

    Attributes
    ----------
    pid
        Of the rank; 0 before it is started.
    transfer
        What takes the bundle, where that comes through the channel.
    restart
        What restarts all ranks.
    tell
        Tells the rank of this pod something.
    cells
        What passes on cells, in a session.
    """

    def __init__(
        self,
        key: bytes,
        rank: int,
        selector: selectors.BaseSelector,
        ask_rank: Callable[[], None],
    ) -> None:
        self.pid = 0
        self.transfer: Transfer | None = None
        self.restart: Restart | None = None
        self.cells: Cells | None = None
        self.tell: Callable[[bytes], None] | None = None
        self._key = key
        self._rank = rank
        self._selector = selector
        self._ask_rank = ask_rank
        self._peers: list[Peer] = []
        self._owner: Owner | None = None
        self._roll_call: _RollCall | None = None
        self._socket: socket.socket | None = None

    @property
    def _parts(self) -> list[Transfer | Restart | Cells]:
        """What takes part in the loop beside the relay itself."""
        parts = (self.transfer, self.restart, self.cells)
        return [part for part in parts if part is not None]

    def listen(self) -> int | None:
        """Listen, and return the port; None where none can be had.

        Where another process has the usual one, any other may do: the follower knows it, and at
        least it can go there itself.
        """
        wanted = os.environ.get(PORT_VARIABLE, "")
        port = int(wanted) if wanted.isdigit() else PORT
        listening = None
        for number in (0,) if self._rank == 0 else (port, 0):
            with contextlib.suppress(OSError, OverflowError):
                listening = _listening(number, everywhere=self._rank != 0)
                break
        if listening is None:
            return None
        listening.setblocking(False)
        self._socket = listening
        self._selector.register(listening, selectors.EVENT_READ, self._accept)
        return int(listening.getsockname()[1])

    def abandon(self) -> None:
        """Close all files, in a process that is forked."""
        for peer in (*self._peers, *(self._roll_call.dialled if self._roll_call else ())):
            peer.abandon()
        for part in self._parts:
            part.abandon()
        if self._socket is not None:
            self._socket.close()

    def tick(self) -> None:
        """Drop peers that don't prove themselves, and answer for ranks that are silent."""
        now = time.monotonic()
        for peer in self._peers[:]:
            if not peer.wire.is_proven and now - peer.since > timeouts.PROOF.seconds:
                peer.close()
        if self._roll_call is not None:
            self._hurry(self._roll_call, now)
        for part in self._parts:
            part.tick()

    @property
    def patience(self) -> float | None:
        """In how many seconds `tick` has to be called; None where time does not matter."""
        if (
            self._roll_call is not None
            or any(not peer.wire.is_proven for peer in self._peers)
            or any(part is not None and part.is_busy for part in (self.transfer, self.restart))
        ):
            return _TICK
        return None if self.cells is None else self.cells.patience

    def take_place(self, where: Position) -> None:
        """Take what the rank of this pod has answered."""
        self._note(self._own(where))

    def forget_cell(self) -> None:
        """Let go of the bundle of a cell that has ended."""
        if self.transfer is not None and self.transfer.name is not None:
            self.transfer.close()
            self.transfer = None

    def _own(self, where: Position | None) -> Whereabouts:
        """Return where the rank of this pod is; its process can be looked at in any case."""
        process, memory = look_at(self.pid)
        return {"rank": self._rank, "where": where, "process": process, "memory": memory}

    # -- those who ask -------------------------------------------------------------------------

    def _accept(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(OSError):
            connection, (host, *_) = self._socket.accept()
            peer = Peer(
                connection,
                Wire(self._key, self._rank),
                self._selector,
                self._serve,
                self._peers.remove,
            )
            peer.host = host
            self._peers.append(peer)
            self._make_way()

    def _make_way(self) -> None:
        """Close a connection that is not proven, where there are too many.

        It is the oldest of the host that has most of them: the owner needs only a moment.
        """
        unproven = [peer for peer in self._peers if not peer.wire.is_proven]
        if len(unproven) > _MOST_UNPROVEN or len(self._peers) > _MOST_PEERS:
            hosts = Counter(peer.host for peer in unproven)
            max(unproven, key=lambda peer: hosts[peer.host]).close()

    def _serve(self, peer: Peer, message: Message) -> None:
        number, ask = message.head.get("number"), message.head.get("ask")
        if not self._may_ask(peer.wire.owner):
            in_force = None if self._owner is None else self._owner.epoch
            peer.send({"number": number, "error": "owner", "epoch": in_force})
            return
        if self.cells is not None and ask in ("receive", "part"):
            self.cells.note_arrival()
        if ask == "where" and type(number) is int:
            self._call_roll(peer, number, read_addresses(message.head.get("addresses")))
        elif ask == "profile" and type(number) is int:
            self._profile(peer, number, message.head)
        elif ask == "ping":
            peer.send({"number": number})
        elif self.restart is not None and ask in _OF_RESTARTS and type(number) is int:
            self.restart.serve(peer, number, message.head)
        elif self.cells is not None and ask in _OF_SESSIONS and type(number) is int:
            self.cells.serve(peer, number, message)
        elif self.cells is not None and ask == "receive" and "parcel" in message.head:
            try:
                self.transfer = self.cells.expect(self.transfer, str(message.head["parcel"]))
            except (TransferError, ValueError, OSError):
                peer.send({"number": number, "error": "refused"})
            else:
                self.transfer.begin(peer, 1, message.head)
        elif self.transfer is not None and ask == "receive" and type(number) is int:
            self.transfer.begin(peer, number, message.head)
        elif self.transfer is not None and ask == "part" and type(number) is int:
            self.transfer.take(peer, number, message)
        else:
            peer.send({"number": number, "error": "unknown"})

    def _may_ask(self, owner: Owner | None) -> bool:
        """Return whether somebody is the owner, or takes over."""
        if owner is None:
            return False
        if self._owner is None or owner.epoch > self._owner.epoch:
            self._owner = owner
            if self.cells is not None:
                self.cells.owner = owner
        return owner == self._owner

    # -- where ranks are -----------------------------------------------------------------------

    def _call_roll(self, peer: Peer, number: int, addresses: Mapping[int, Address]) -> None:
        """Ask all ranks where they are, unless they are being asked."""
        if self._roll_call is not None and self._roll_call.asked == _WHERE:
            self._roll_call.waiting.append((peer, number))
        elif self._begin_roll_call(peer, number, addresses, _WHERE):
            self._ask_rank()

    def _profile(self, peer: Peer, number: int, head: Mapping[str, JsonValue]) -> None:
        """Have all ranks profiled; the answer says which could be reached."""
        name, seconds = head.get("name"), head.get("seconds")
        if not isinstance(name, str) or not isinstance(seconds, int | float):
            peer.send({"number": number, "error": "unknown"})
            return
        asked: dict[str, JsonValue] = {"ask": "profile", "name": name, "seconds": seconds}
        if self._begin_roll_call(peer, number, read_addresses(head.get("addresses")), asked):
            told = {"kind": "profile", "name": name, "seconds": seconds}
            if self.tell is not None:
                with contextlib.suppress(OSError):  # then no profile comes of it
                    self.tell(json.dumps(told).encode() + b"\n")
            self._note(self._own(None))

    def _begin_roll_call(
        self,
        peer: Peer,
        number: int,
        addresses: Mapping[int, Address],
        asked: dict[str, JsonValue],
    ) -> bool:
        """Begin to ask the other ranks; say whether nothing else is being asked."""
        if self._roll_call is not None:
            peer.send({"number": number, "error": "busy"})
            return False
        others = {rank: at for rank, at in addresses.items() if rank != self._rank}
        # Other pods answer for a silent rank when its time is over: that has to arrive, too.
        patience = timeouts.LAST_WORDS.seconds * (2 if others else 1)
        until = time.monotonic() + patience
        queue = deque(others.items())
        missing = {self._rank, *others}
        self._roll_call = _RollCall(asked, until, missing, [(peer, number)], queue)
        self._dial_next()
        return self._roll_call is not None

    def _dial_next(self) -> None:
        """Dial those whose turn it is."""
        while (call := self._roll_call) and call.queue and len(call.dialled) < _MOST_DIALLED:
            self._dial(call, *call.queue.popleft())

    def _dial(self, call: _RollCall, rank: int, address: Address) -> None:
        assert self._owner is not None

        def on_end(peer: Peer) -> None:
            call.dialled.remove(peer)
            self._note(_unknown(rank))
            self._dial_next()

        peer = dial(
            address,
            Wire(self._key, rank, self._owner),
            self._selector,
            partial(self._hear, rank),
            on_end,
            Message({"number": 1, **call.asked}),
        )
        if peer is None:
            self._note(_unknown(rank))
        else:
            call.dialled.append(peer)

    def _hurry(self, call: _RollCall, now: float) -> None:
        """End a call whose time is over; don't let pods that can't be reached hold up others."""
        if now > call.until:
            self._end_roll_call(call)
        elif call.queue:
            for peer in call.dialled[:]:
                if not peer.wire.is_proven and now - peer.since > _TURN:
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


def _listening(port: int, *, everywhere: bool) -> socket.socket:
    """Listen on the loopback address, or on all there are."""
    if not everywhere:
        return socket.create_server(("127.0.0.1", port))
    if not socket.has_dualstack_ipv6():
        return socket.create_server(("", port))
    return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)


def _unknown(rank: int) -> Whereabouts:
    """Return what is known of a rank that can't be asked."""
    return {"rank": rank, "where": None, "process": None, "memory": None}
