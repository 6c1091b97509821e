"""Send a job's bundle to the pods that wait for it: once through the API, then from pod to pod."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, Unreachable
from jupyter_jax_trainer.backends.kubernetes.follow.connection import Connection, connect
from jupyter_jax_trainer.backends.kubernetes.follow.line import Target
from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.jobdir import pieces
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.text import joined, size
from jupyter_jax_trainer.worker.pod.peer import write_addresses
from jupyter_jax_trainer.worker.pod.wire import MAX_BODY, Owner, Wire, WireError

_WINDOW = 8 * MAX_BODY  # bytes that are on their way and not acknowledged
_PAUSE = 1.0  # seconds between tries
_INTERVAL = 1.0  # seconds between looks at how far it has come
_LOOK = 0.1  # seconds between looks for pods that have come to wait


@dataclass(frozen=True)
class Waiting:
    """The pods of a job that wait for its bundle.

    Attributes
    ----------
    target
        Where rank 0 is, and those of the others that wait.
    pods
        The pods of these, by rank: each can be reached by itself, too.
    """

    target: Target
    pods: Mapping[int, str]


class Full(WireError):  # noqa: N818
    """A pod has no room for what is sent."""


@dataclass
class Progress:
    """What the pods have said of themselves.

    Attributes
    ----------
    total
        Bytes of the bundle.
    have, least
        How many the first pod has, and how many all of them have.
    done, lost
        Ranks that have all of it, and ranks that can't be reached.
    """

    total: int
    have: int = 0
    least: int = 0
    done: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)

    def take(self, head: Mapping[str, JsonValue]) -> None:
        """Take an answer; it may be of any form."""
        have, least = head.get("have"), head.get("least")
        if head.get("error") == "refused":
            raise Full
        if "error" in head or type(have) is not int or type(least) is not int:
            raise WireError
        if not 0 <= least <= have <= self.total:
            raise WireError
        self.have, self.least = have, least
        for found, name in ((self.done, "done"), (self.lost, "lost")):
            given = head.get(name)
            if isinstance(given, list):
                found.update(one for one in given if type(one) is int)


class Sending(threading.Thread):
    """Sends a bundle for as long as there are pods that wait for it.

    Parameters
    ----------
    client, owner
        The cluster, and who sends.
    bundle
        The file.
    look
        Gives the pods that wait; None where there are none, or rank 0 can't be reached yet.
    on_progress
        Called about once a second.
    problem
        Called with a sentence when it can't be done.
    name
        By what the pods know that it is the bundle of a session's cell.

    Attributes
    ----------
    doing
        What is done, or keeps from it, in plain words.
    """

    def __init__(
        self,
        client: Client,
        owner: Owner,
        bundle: Path,
        look: Callable[[], Waiting | None],
        on_progress: Callable[[], None],
        problem: Callable[[str], None],
        name: str | None = None,
    ) -> None:
        super().__init__(name="sending", daemon=True)
        self._parcel = name
        self._client = client
        self._bundle = bundle
        self._digests = pieces.noted(bundle)
        self._look = look
        self._on_progress = on_progress
        self._problem = problem
        self._owner = owner
        self._told = self._looked = 0.0
        self._failing_since: float | None = None
        self.doing: str = say.SENDING(size=size(bundle.stat().st_size))

    def run(self) -> None:
        """Send until nobody waits, going on where the last try stopped."""
        while (waiting := self._look()) is not None:
            try:
                self.send_to(waiting)
            except ApiError as error:
                if error.status != 404:
                    right = f"{error.verb} {error.resource}"
                    self._fail(
                        say.NO_SEND_RIGHT(right=right)
                        if error.status == 403
                        else say.SEND_REFUSED(right=right, error=error.message)
                    )
            except (Unreachable, OSError, WireError) as error:
                self._digests.clear()  # the file may have changed since
                self._fail(say.SEND_FAILED(error=str(error) or say.POD_CUT_OFF()))
            self._on_progress()
            time.sleep(_PAUSE)

    def _fail(self, words: str) -> None:
        """Say what is wrong, unless the next try may well succeed: a pod has only just started."""
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        if now - self._failing_since > timeouts.SILENCE.seconds:
            self.doing = words
            self._problem(words)

    def send_to(self, waiting: Waiting) -> None:
        """Send to rank 0, which hands it on, and then to those that it can't reach.

        Raises
        ------
        OSError, WireError, ApiError, Unreachable
            It could not be done now.
        """
        lost = self.hand_out(waiting.target)
        if not lost:
            return
        self._problem(say.NOT_HANDED_ON(ranks=joined(map(str, sorted(lost)))))
        for rank in sorted(lost & waiting.pods.keys()):
            _, port = waiting.target.addresses[rank]
            alone = replace(waiting.target, pod=waiting.pods[rank], port=port, addresses={})
            self._send(alone, rank)

    def hand_out(self, target: Target) -> set[int]:
        """Send to rank 0, which hands it on; return the ranks that it can't reach.

        Raises
        ------
        OSError, WireError, ApiError, Unreachable
            As for `send_to`.
        """
        return self._send(target, 0)

    def _send(self, target: Target, rank: int) -> set[int]:
        """Send to a pod and, from there, to others; return the ranks that it can't reach."""
        wire = Wire(target.key.encode(), rank, self._owner)
        patience = timeouts.TRANSFER.seconds
        wanted = {rank, *target.addresses}
        total = self._bundle.stat().st_size
        progress = Progress(total)
        with (
            self._bundle.open("rb") as file,
            connect(self._client, target.pod, target.port, wire, patience) as opened,
        ):
            self._ask(opened, target.addresses)
            sent = None
            while not wanted <= progress.done | progress.lost:
                self._hear(opened, progress)
                if rank == 0:
                    more = self._come_since(wanted)
                    if more:
                        self._ask(opened, more)
                        wanted |= more.keys()
                sent = max(sent or 0, progress.have)
                while sent < total and sent - progress.have < _WINDOW:
                    file.seek(sent)
                    piece = file.read(MAX_BODY - sent % MAX_BODY)  # whole ones are hashed once
                    if not piece:
                        raise OSError(say.BUNDLE_SHORT())
                    part: dict[str, JsonValue] = {"ask": "part", "number": 1, "at": sent}
                    opened.send(part, piece, self._digest(sent, piece, total))
                    sent += len(piece)
        return progress.lost - progress.done

    def _digest(self, at: int, piece: bytes, total: int) -> bytes:
        """Return the digest of a whole piece, where it was noted."""
        is_whole = at % MAX_BODY == 0 and len(piece) == min(MAX_BODY, total - at)
        known = self._digests[at // MAX_BODY :][:1] if is_whole else []
        return known[0] if known else b""

    def _ask(self, opened: Connection, addresses: Mapping[int, tuple[str, int]]) -> None:
        """Have a pod take the bundle, and hand it on."""
        given = write_addresses(addresses)
        head: dict[str, JsonValue] = {"ask": "receive", "number": 1, "addresses": given}
        opened.send(head if self._parcel is None else {**head, "parcel": self._parcel})

    def _come_since(self, known: Set[int]) -> dict[int, tuple[str, int]]:
        """Return the pods that have come to wait meanwhile: none waits for another turn."""
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return {}
        self._looked = now
        waiting = self._look()
        addresses = waiting.target.addresses if waiting is not None else {}
        return {rank: address for rank, address in addresses.items() if rank not in known}

    def _hear(self, opened: Connection, progress: Progress) -> None:
        for message in opened.receive():
            progress.take(message.head)
            self._failing_since = None
        if time.monotonic() - self._told > _INTERVAL:
            self._told = time.monotonic()
            share = 100 * progress.least // max(1, progress.total)
            self.doing = say.SENDING_SHARE(size=size(progress.total), share=share)
            self._on_progress()
