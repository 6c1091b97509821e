"""The bundle on its way: process 1 takes it through the channel, and hands it on to other pods.

Whoever sends it asks how much is here and goes on from there, and each part is acknowledged: after
a cut nothing is sent twice. The pods that still need it are a tree, in which each hands it on to
two others while it comes in. A pod that has a part by itself (packages, from a cache) takes it when
its turn comes, and says that it has so much more::

    ask     {"ask": "receive", "number", "addresses": {"1": ["10.0.0.7", 29510], …}}
    answer  {"number", "have": bytes, "least": bytes, "done": [ranks], "lost": [ranks]}
    ask     {"ask": "part", "number", "at": bytes} and a body
    answer  as above, when more is here, or is known of other ranks
"""

from __future__ import annotations

import contextlib
import selectors
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import timeouts
from jupyter_jax_trainer.worker.pod.parcel import Parcel, TransferError, megabytes
from jupyter_jax_trainer.worker.pod.peer import Address, Peer, dial, read_addresses, write_addresses
from jupyter_jax_trainer.worker.pod.wire import MAX_BODY, Message, Owner, Wire

_WINDOW = 4 * MAX_BODY  # bytes that are on their way to another pod and not acknowledged
_TRIES = 4  # without any progress
_PAUSE = 0.3  # seconds before the first other try
_INTERVAL = 1.0  # seconds between words about other pods' progress
_CHILDREN = 2


@dataclass(eq=False)
class _Child:
    """A pod that gets it from this one, and the pods that get it from there.

    Attributes
    ----------
    sent, acknowledged
        Bytes; None before it has said what it has.
    least
        Bytes that all of these pods have.
    tries, again
        How often it was tried without progress, and when it is tried next.
    heard
        When it last said something.
    """

    rank: int
    address: Address
    rest: dict[int, Address]
    peer: Peer | None = None
    sent: int | None = None
    acknowledged: int = 0
    least: int = 0
    tries: int = 0
    again: float | None = None
    heard: float = 0.0

    @property
    def owes_an_answer(self) -> bool:
        """Whether it has to say what it has."""
        return self.sent is None or self.sent > self.acknowledged

    @property
    def ranks(self) -> set[int]:
        """All that it stands for."""
        return {self.rank, *self.rest}


@dataclass
class _News:
    """What those who ask have not been told."""

    done: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)


class Transfer:
    """What is sent to this pod, and from here to others.

    Parameters
    ----------
    key, rank
        The job's key, and the rank of this pod.
    selector
        The loop's.
    parcel
        What is awaited.
    name
        Identifies the bundle of a session's cell to other pods; None for the job's own.

    Attributes
    ----------
    name
        As above.
    """

    def __init__(
        self,
        key: bytes,
        rank: int,
        selector: selectors.BaseSelector,
        parcel: Parcel,
        name: str | None = None,
    ) -> None:
        self.name = name
        self._key = key
        self._rank = rank
        self._selector = selector
        self._parcel = parcel
        self._askers: dict[Peer, int] = {}
        self._children: list[_Child] = []
        self._handed = 0  # to how many pods
        self._done: dict[int, Address] = {}  # other ranks
        self._owner: Owner | None = None
        self._told = 0.0
        self._heard = time.monotonic()
        self._problem: TransferError | None = None
        self._abandoned = False

    @property
    def is_busy(self) -> bool:
        """Whether `tick` has to be called soon."""
        return any(child.again is not None or child.owes_an_answer for child in self._children)

    def close(self) -> None:
        """End it: no pod needs more of the bundle."""
        for child in self._children[:]:
            self._children.remove(child)
            if child.peer is not None:
                child.peer.close()
        self._parcel.close()

    def path_of(self, root: str) -> str | None:
        """Return where the bundle is, if it is this one and all of it is here."""
        parcel = self._parcel
        return parcel.path if parcel.is_whole and parcel.root == root else None

    def check(self) -> None:
        """Raise if the bundle can no longer arrive.

        Raises
        ------
        TransferError
            Nothing came for too long, or it can't be kept here.
        """
        if self._problem is not None:
            raise self._problem
        if time.monotonic() - self._heard > timeouts.BUNDLE.seconds:
            raise TransferError(
                say.BUNDLE_NEVER_CAME(
                    have=megabytes(self._parcel.have),
                    size=megabytes(self._parcel.size),
                    seconds=timeouts.BUNDLE.seconds,
                )
            )

    def tick(self) -> None:
        """Try pods again that could not be reached, and give up those that take too long."""
        now = time.monotonic()
        for child in self._children[:]:
            if child.again is not None and now > child.again:
                self._dial(child)
            elif child.peer is not None and child.owes_an_answer:
                proven = child.peer.wire.is_proven
                patience = timeouts.TRANSFER if proven else timeouts.PROOF
                if now - child.heard > patience.seconds:
                    child.peer.close()

    def abandon(self) -> None:
        """Close all files, in a process that is forked."""
        self._abandoned = True
        for child in self._children:
            if child.peer is not None:
                child.peer.abandon()

    # -- those who send ------------------------------------------------------------------------

    def begin(self, peer: Peer, number: int, head: Mapping[str, JsonValue]) -> None:
        """Say what is here, and hand it on to those who are named."""
        self._owner = peer.wire.owner
        self._heard = time.monotonic()
        self._askers = {one: of for one, of in self._askers.items() if one.is_open}
        self._askers[peer] = number
        wanted = read_addresses(head.get("addresses"))
        wanted.pop(self._rank, None)
        for rank in wanted:  # it may be another pod by now
            self._done.pop(rank, None)
        self._hand_on(wanted)
        done = [self._rank] if self._parcel.is_whole else []
        peer.send({"number": number, **self._progress(), "done": [*done, *self._done]})

    def take(self, peer: Peer, number: int, message: Message) -> None:
        """Take a part, as far as it is not here.

        What is here already comes from somebody who sent at the same time, or is what this pod has
        by itself.
        """
        parcel, at = self._parcel, message.head.get("at")
        new = parcel.have - at if type(at) is int else -1
        if 0 <= new < len(message.body) and not parcel.is_whole:
            self._heard = time.monotonic()
            try:
                if new:
                    parcel.add(message.body[new:], b"")
                else:
                    parcel.add(message.body, message.digest)
            except TransferError as error:
                self._problem = error
                peer.send({"number": number, "error": "refused"})
                return
            for child in self._children[:]:
                self._feed(child)
            if parcel.is_whole:
                self._tell(_News(done={self._rank}))
                return
        peer.send({"number": number, **self._progress()})

    def _progress(self) -> dict[str, JsonValue]:
        have = self._parcel.have
        return {"have": have, "least": min([have, *(child.least for child in self._children)])}

    def _tell(self, news: _News) -> None:
        """Tell those who have asked."""
        self._told = time.monotonic()
        for peer, number in self._askers.items():
            told: dict[str, JsonValue] = {"number": number, **self._progress()}
            peer.send({**told, "done": [*news.done], "lost": [*news.lost]})

    # -- other pods ----------------------------------------------------------------------------

    def _hand_on(self, wanted: Mapping[int, Address]) -> None:
        """Hand it on to two pods, which hand it on to the others.

        Later pods get it from those that have it: this one has sent it twice by then.
        """
        underway = {rank for child in self._children for rank in child.ranks}
        ranks = sorted(wanted.keys() - underway)
        for part in range(_CHILDREN):
            rest = {rank: wanted[rank] for rank in ranks[part::_CHILDREN]}
            if not rest:
                continue
            if self._handed >= _CHILDREN and self._done:
                rank = [*self._done][self._handed % len(self._done)]
                child = _Child(rank, self._done[rank], rest)
            else:
                rank = min(rest)
                child = _Child(rank, rest.pop(rank), rest)
            self._handed += 1
            self._children.append(child)
            self._dial(child)

    def _dial(self, child: _Child) -> None:
        assert self._owner is not None
        child.again, child.sent, child.heard = None, None, time.monotonic()
        child.tries += 1
        child.peer = dial(
            child.address,
            Wire(self._key, child.rank, self._owner),
            self._selector,
            partial(self._hear, child),
            lambda _: self._cut(child),
            Message(self._asking(child)),
        )
        if child.peer is None:
            self._cut(child)

    def _asking(self, child: _Child) -> dict[str, JsonValue]:
        head: dict[str, JsonValue] = {"number": 1, "ask": "receive"}
        head["addresses"] = write_addresses(child.rest)
        return head if self.name is None else {**head, "parcel": self.name}

    def _hear(self, child: _Child, peer: Peer, message: Message) -> None:
        head = message.head
        have, least = head.get("have"), head.get("least")
        if "error" in head or type(have) is not int or not 0 <= have <= self._parcel.size:
            child.tries = _TRIES
            peer.close()
            return
        child.heard = time.monotonic()
        if child.sent is not None and have > child.acknowledged:
            child.tries = 0
        child.sent, child.acknowledged = max(have, child.sent or 0), have
        child.least = min(max(0, least), have) if type(least) is int else have
        news = _News(
            done=_ranks(head.get("done"), child.ranks), lost=_ranks(head.get("lost"), child.ranks)
        )
        for rank in news.done:
            self._done[rank] = child.address if rank == child.rank else child.rest[rank]
        for rank in news.lost | news.done - {child.rank}:
            child.rest.pop(rank, None)
        if child.rank in self._done and not child.rest:
            self._children.remove(child)
            peer.close()
        else:
            self._feed(child)
        if news.done or news.lost or time.monotonic() - self._told > _INTERVAL:
            self._tell(news)

    def _feed(self, child: _Child) -> None:
        """Send a pod what it lacks, as far as that is here and it takes it."""
        while (
            child.peer is not None
            and child.peer.is_open
            and child.sent is not None
            and child.sent < self._parcel.have
            and child.sent - child.acknowledged < _WINDOW
        ):
            piece, digest = self._parcel.read(child.sent)
            at, child.sent = child.sent, child.sent + len(piece)
            child.peer.send({"number": 1, "ask": "part", "at": at}, piece, digest)

    def _cut(self, child: _Child) -> None:
        """Try a pod again whose connection has ended; without it, others hand on in its place."""
        if self._abandoned or child not in self._children:
            return
        child.peer = None
        if child.tries < _TRIES:
            child.again = time.monotonic() + _PAUSE * 2**child.tries
            return
        self._children.remove(child)
        if self._done.pop(child.rank, None) is None:
            self._tell(_News(lost={child.rank}))
        self._hand_on(child.rest)


def _ranks(given: JsonValue, among: Iterable[int]) -> set[int]:
    """Read numbers of ranks; other pods speak of those alone that they were given."""
    found: set[int] = set()
    if isinstance(given, list):
        with contextlib.suppress(TypeError):
            found = {one for one in given if type(one) is int}
    return found & {*among}
