"""All ranks of a job restart in their pods: first all are stopped, then all are started.

Rank 0 has the others do both, once it has reached all of them, so that no rank ever computes with
one of the attempt before. Each step may be asked for again: what was done for an id is not done
twice::

    ask     {"ask": "restart", "number", "id", "addresses": {"1": ["10.0.0.7", 29510], …}}
    answer  {"number", "restarted": true}, or {"number", "error": "unreachable", "ranks": [1]}

    to the other pods {"ask": "ping", "number"}, {"ask": "stop", "number", "id"}, and then
    {"ask": "start", "number", "id"}
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import partial

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.worker import timeouts
from jupyter_jax_trainer.worker.pod.peer import Address, Peer, dial, read_addresses
from jupyter_jax_trainer.worker.pod.wire import Message, Wire


class _Step(IntEnum):
    """A step, and the number of its messages."""

    PING = 1
    STOP = 2
    START = 3


class Restart:
    """What process 1 does for it.

    Parameters
    ----------
    key, rank
        The job's key, and the rank of this pod.
    selector
        The loop's.
    stop, start
        Stop the rank of this pod, and start it as soon as the loop comes to it.
    """

    def __init__(
        self,
        key: bytes,
        rank: int,
        selector: selectors.BaseSelector,
        stop: Callable[[], None],
        start: Callable[[], None],
    ) -> None:
        self._key = key
        self._rank = rank
        self._selector = selector
        self._stop_rank = stop
        self._start_rank = start
        self._stopped = self._started = ""  # the ids for which that was done last
        self._round: _Round | None = None

    @property
    def is_busy(self) -> bool:
        """Whether `tick` has to be called soon."""
        return self._round is not None

    def tick(self) -> None:
        """Give up pods that don't answer."""
        if self._round is not None and time.monotonic() > self._round.until:
            self._fail(self._round)

    def abandon(self) -> None:
        """Close all files, in a process that is forked."""
        if self._round is not None:
            for peer in self._round.peers.values():
                peer.abandon()

    def serve(self, peer: Peer, number: int, head: Mapping[str, JsonValue]) -> None:
        """Take a request: a restart, or a step of one."""
        known = str(head.get("id"))
        match head.get("ask"):
            case "stop":
                self._stop(known)
                peer.send({"number": number, "stopped": True})
            case "start":
                self._start(known)
                peer.send({"number": number, "started": True})
            case _ if known == self._started:
                peer.send({"number": number, "restarted": True})
            case _ if self._round is not None:
                peer.send({"number": number, "error": "busy"})
            case _:
                self._begin(peer, number, known, read_addresses(head.get("addresses")))

    def _stop(self, known: str) -> None:
        if known not in (self._stopped, self._started):
            self._stop_rank()
            self._stopped = known

    def _start(self, known: str) -> None:
        if known != self._started:
            self._started = known
            self._start_rank()

    # -- rank 0 --------------------------------------------------------------------------------

    def _begin(
        self, asker: Peer, number: int, known: str, addresses: Mapping[int, Address]
    ) -> None:
        others = {rank: at for rank, at in addresses.items() if rank != self._rank}
        current = self._round = _Round(asker, number, known, set(others))
        for rank, address in others.items():
            peer = dial(
                address,
                Wire(self._key, rank, asker.wire.owner),
                self._selector,
                partial(self._hear, current, rank),
                lambda _: self._fail(current),
                Message({"number": _Step.PING, "ask": "ping"}),
            )
            if peer is None:
                self._fail(current)
                return
            current.peers[rank] = peer
        self._go_on(current)

    def _hear(self, current: _Round, rank: int, _: Peer, message: Message) -> None:
        if "error" in message.head:
            self._fail(current)
        elif message.head.get("number") == current.step:
            current.missing.discard(rank)
            self._go_on(current)

    def _go_on(self, current: _Round) -> None:
        """Take the next step, once all have taken the one before."""
        while not current.missing and current.step < _Step.START:
            current.step = _Step(current.step + 1)
            current.missing = set(current.peers)
            ask = "stop" if current.step == _Step.STOP else "start"
            for peer in current.peers.values():
                peer.send({"number": current.step, "ask": ask, "id": current.id})
            if current.step == _Step.STOP:
                self._stop(current.id)
        if not current.missing:
            self._end(current, {"number": current.number, "restarted": True})
            self._start(current.id)

    def _fail(self, current: _Round) -> None:
        """Say who is missing: ranks that have stopped by then wait for the next try."""
        ranks: list[JsonValue] = [*sorted(current.missing)]
        self._end(current, {"number": current.number, "error": "unreachable", "ranks": ranks})

    def _end(self, current: _Round, answer: dict[str, JsonValue]) -> None:
        if self._round is not current:
            return  # its connections are being closed
        self._round = None
        for peer in current.peers.values():
            peer.close()
        current.asker.send(answer)


class _Round:
    """A restart that is under way.

    Parameters
    ----------
    asker, number
        Whom to answer.
    known
        Its id.
    missing
        The ranks that have not taken the present step.
    """

    def __init__(self, asker: Peer, number: int, known: str, missing: set[int]) -> None:
        self.asker = asker
        self.number = number
        self.id = known
        self.missing = missing
        self.step = _Step.PING
        self.peers: dict[int, Peer] = {}
        self.until = time.monotonic() + timeouts.KILL.seconds
