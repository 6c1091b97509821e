"""A session in its pods: process 1 passes on what the ranks are told, and ends them when idle.

Rank 0 passes it on to the others, in pods of their own; what is large comes as a bundle before
(`transfer.py`). Each rank itself leaves out what it has been told before::

    ask     {"ask": "tell", "number", "told": {"kind": "cell", "order": 56, …},
             "to": {"0": "9f03a1c7", …}, "addresses": {"1": ["10.0.0.7", 29510], …}} and a body
    answer  {"number", "told": true}, or {"number", "error": "unreachable", "ranks": [1]}, or
            {"number", "error": "over"} once the session ends

    to the other pods the same without addresses, and {"ask": "rests", "number"}, whose answer has
    "rested": for how many seconds no cell has run there, 0 while one does

Rank 0 alone decides when the session has been idle for long: a rank that a cell leaves out, or that
has ended it early, knows nothing of the others. Other pods end by themselves only when rank 0 has
not asked for long.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.worker import timeouts
from jupyter_jax_trainer.worker.pod.parcel import Parcel
from jupyter_jax_trainer.worker.pod.peer import Address, Peer, dial, read_addresses
from jupyter_jax_trainer.worker.pod.transfer import Transfer
from jupyter_jax_trainer.worker.pod.wire import Message, Owner, Wire

IDLE_VARIABLE = "JAXTRAIN_IDLE"  # seconds; 0 for ever: there for sessions alone
ASKS = ("tell", "rests")
_TICK, _LEAST = 0.1, 0.001  # seconds
_AGAIN = 1.0  # seconds between two times that the others are asked


@dataclass(eq=False)
class _Round:
    """Something that all other pods are told or asked, and who waits for what comes of it.

    Attributes
    ----------
    problem
        The error that a pod has answered with.
    rested
        For how many seconds none of the ranks that have answered has run a cell.
    """

    done: Callable[[_Round], None]
    missing: set[int]
    until: float
    peers: list[Peer]
    problem: str = "unreachable"
    rested: float = math.inf


class Cells:
    """What process 1 does for a session.

    Parameters
    ----------
    key, rank
        The job's key, and the rank of this pod.
    limit
        After how many seconds without a cell the session ends; 0 for never.
    selector
        The loop's.
    tell_rank
        Writes a line to the rank of this pod; `OSError` where it takes none.
    on_idle
        Called with the limit before the ranks are told to end.
    bundle
        Gives the file of the bundle that came last, where it has this hash.

    Attributes
    ----------
    owner
        Whose the session is.
    """

    def __init__(
        self,
        key: bytes,
        rank: int,
        limit: float,
        selector: selectors.BaseSelector,
        tell_rank: Callable[[bytes], None],
        on_idle: Callable[[float], None],
        bundle: Callable[[str], str | None],
    ) -> None:
        self._lives = False  # the rank has come to wait for cells
        self.owner: Owner | None = None
        self._key, self._rank = key, rank
        self._usual = self._limit = limit
        self._selector = selector
        self._tell_rank, self._on_idle, self._bundle = tell_rank, on_idle, bundle
        self._since: float | None = None  # when the rank began to rest
        self._asked = time.monotonic()  # when rank 0 last asked the others; here, for them
        self._over = False
        self._addresses: dict[int, Address] = {}
        self._rounds: list[_Round] = []
        self._kept = -1  # a bundle in memory

    @property
    def can_start_anew(self) -> bool:
        """Whether the rank has come to wait for cells, and was not told to end."""
        return self._lives and not self._over

    @property
    def is_over(self) -> bool:
        """Whether the session has ended."""
        return self._over

    @property
    def is_done(self) -> bool:
        """Whether the session has ended, and nobody has to be told any more."""
        return self._over and not self._rounds

    @property
    def patience(self) -> float | None:
        """In how many seconds `tick` has to be called; None where nothing has to be done."""
        if self._rounds:
            return _TICK
        due = self._due
        return None if due == math.inf else max(_LEAST, due - time.monotonic())

    def tick(self) -> None:
        """End a session that has been idle for long, and give up pods that don't answer."""
        now = time.monotonic()
        for one in self._rounds[:]:
            if now > one.until:
                self._finish(one)
        if self._rounds or now < self._due:
            return
        if self._rank:
            self._end()
        else:
            self._asked = now
            self._ask_all({"ask": "rests"}, self._on_rests)

    @property
    def _due(self) -> float:
        """When rank 0 asks whether all rest, and another pod ends by itself."""
        if self._over:
            return math.inf
        if self._rank:
            if self._since is None or not self._usual:
                return math.inf
            return max(self._since, self._asked) + self._usual + timeouts.UNREACHED.seconds
        # It asks in a cell, too: pods that hear nothing for long end by themselves.
        due = self._asked + self._usual / 2 if self._usual and self._addresses else math.inf
        if self._since is not None and self._limit:
            due = min(due, max(self._since + self._limit, self._asked + _AGAIN))
        return due

    def abandon(self) -> None:
        """Close all files, in a process that is forked."""
        for one in self._rounds:
            for peer in one.peers:
                peer.abandon()

    # -- the rank of this pod ------------------------------------------------------------------

    def note(self, kind: str) -> None:
        """Take what the rank says: it works, or it rests."""
        self._since = None if kind == "works" else time.monotonic()
        self._limit = self._usual
        self._lives = True

    def note_gone(self) -> None:
        """Note that the rank has ended, and waits to be restarted."""
        self._lives, self._since = False, time.monotonic()

    def note_arrival(self) -> None:
        """Note that a part of a cell's bundle has come: the session is not idle."""
        if self._since is not None:
            self._since = time.monotonic()

    def _pass_on(self, told: Mapping[str, JsonValue], to: JsonValue, body: bytes) -> str | None:
        """Give an instruction to the rank; return what keeps from it."""
        if told.get("kind") == "prolong":
            self._prolong(told.get("seconds"))
            return None
        mine = to.get(str(self._rank)) if isinstance(to, dict) else None
        line: dict[str, JsonValue] = {**told, "to": mine}
        if told.get("kind") == "cell":
            try:
                place = self._keep(body) if body else self._bundle(str(told.get("parcel")))
            except OSError:
                return "room"
            if place is None:
                return "unreachable"
            line["bundle"] = place
        self.note_arrival()
        try:
            self._tell_rank(json.dumps(line).encode() + b"\n")
        except OSError:
            return "unreachable"
        return None

    def _prolong(self, seconds: JsonValue) -> None:
        """Let the session be idle from now for so long; 0 for ever."""
        if self._since is not None and isinstance(seconds, int | float):
            spent = time.monotonic() - self._since
            self._limit = seconds and spent + seconds

    def _keep(self, body: bytes) -> str:
        """Put a bundle where the rank finds it."""
        scratch = os.environ.get("JAXTRAIN_SCRATCH")
        if scratch:
            # A rank that has heard of it before does not look at it.
            path = Path(scratch, f"cell-{os.getpid()}.pyz")
            part = path.with_suffix(".part")
            part.write_bytes(body)
            part.replace(path)
            return str(path)
        if self._kept >= 0:
            os.close(self._kept)  # the cell before has ended
        self._kept = os.memfd_create("jaxtrain-cell")
        os.write(self._kept, body)
        return f"/proc/{os.getpid()}/fd/{self._kept}"

    def expect(self, current: Transfer | None, name: str) -> Transfer:
        """Return the transfer that receives a bundle: the current one, or a new one in its place.

        Raises
        ------
        TransferError
            There is no room for it.
        """
        if current is not None and current.name == name:
            return current
        if current is not None and current.name is not None:
            current.close()
        root, _, size = name.partition(":")
        scratch = os.environ.get("JAXTRAIN_SCRATCH")
        place = Path(scratch, f"cell-{os.getpid()}-{root[:16]}.pyz") if scratch else None
        parcel = Parcel(root, int(size), place)
        return Transfer(self._key, self._rank, self._selector, parcel, name)

    # -- those who ask -------------------------------------------------------------------------

    def serve(self, peer: Peer, number: int, message: Message) -> None:
        """Take a question."""
        head = message.head
        told, to = head.get("told"), head.get("to")
        if self._rank:
            self._asked = time.monotonic()
        if head.get("ask") == "rests":
            rested = 0.0 if self._since is None else time.monotonic() - self._since
            peer.send({"number": number, "rested": rested})
        elif self._over or not isinstance(told, dict):
            peer.send({"number": number, "error": "over"})
        elif (problem := self._pass_on(told, to, bytes(message.body))) is not None:
            peer.send({"number": number, "error": problem, "ranks": [self._rank]})
        elif self._rank:
            self._over = told.get("kind") == "end"
            peer.send({"number": number, "told": True})
        else:
            self._addresses |= read_addresses(head.get("addresses"))
            passed: dict[str, JsonValue] = {"ask": "tell", "told": told, "to": to}
            done = partial(_answer, peer, number)
            self._ask_all(passed, done, bytes(message.body), message.digest)

    def _ask_all(
        self,
        head: dict[str, JsonValue],
        done: Callable[[_Round], None],
        body: bytes = b"",
        digest: bytes = b"",
    ) -> None:
        """Ask all other pods, as far as they are known."""
        others = {rank: at for rank, at in self._addresses.items() if rank != self._rank}
        current = _Round(done, set(others), time.monotonic() + timeouts.PROOF.seconds, [])
        self._rounds.append(current)
        if self.owner is not None:
            for rank, address in others.items():
                peer = dial(
                    address,
                    Wire(self._key, rank, self.owner),
                    self._selector,
                    partial(self._hear, current, rank),
                    lambda _: None,
                    Message({**head, "number": 1}, body, digest),
                )
                if peer is not None:
                    current.peers.append(peer)
        if not current.missing:
            self._finish(current)

    def _hear(self, current: _Round, rank: int, peer: Peer, message: Message) -> None:
        peer.close()
        if "error" in message.head:
            current.problem = str(message.head["error"])
            self._finish(current)
            return
        rested = message.head.get("rested")
        if isinstance(rested, int | float):
            current.rested = min(current.rested, rested)
        current.missing.discard(rank)
        if not current.missing:
            self._finish(current)

    def _finish(self, current: _Round) -> None:
        if current in self._rounds:
            self._rounds.remove(current)
            for peer in current.peers:
                peer.close()
            current.done(current)

    # -- a session that is idle ----------------------------------------------------------------

    def _on_rests(self, found: _Round) -> None:
        """End the session, unless a rank works or has until lately.

        A pod that does not answer may be at work; but the session has to end though one hangs, or
        is gone. It is asked for as long as Kubernetes waits for a node that does not answer.
        """
        if self._since is None or self._over:
            return
        now = time.monotonic()
        self._since = max(self._since, now - found.rested)
        patience = timeouts.UNREACHED.seconds if found.missing else 0.0
        if self._limit and now - self._since >= self._limit + patience:
            self._on_idle(self._limit)
            self._ask_all({"ask": "tell", "told": {"kind": "end"}}, lambda _: None)
            self._end()

    def _end(self) -> None:
        self._over = True
        self._pass_on({"kind": "end"}, None, b"")


def _answer(peer: Peer, number: int, found: _Round) -> None:
    if found.missing:
        peer.send({"number": number, "error": found.problem, "ranks": [*sorted(found.missing)]})
    else:
        peer.send({"number": number, "told": True})
