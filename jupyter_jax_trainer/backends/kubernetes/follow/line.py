"""The channel's end here: one connection to the pod of rank 0, by a port-forward."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api.client import Client
from jupyter_jax_trainer.backends.kubernetes.follow.connection import Connection, connect
from jupyter_jax_trainer.backends.kubernetes.logs import messages
from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.jobdir import store
from jupyter_jax_trainer.jobdir.state import RankState
from jupyter_jax_trainer.messages import channel as say
from jupyter_jax_trainer.text import ranks_text
from jupyter_jax_trainer.worker.pod.peer import write_addresses
from jupyter_jax_trainer.worker.pod.wire import Owner, VersionError, Wire, WireError
from jupyter_jax_trainer.worker.records import Position, Whereabouts

_MOST_RANKS = 1 << 16
_MOST_NUMBER = 1 << 31
_MOST_TEXT = 10_000


@dataclass(frozen=True)
class Target:
    """Where the channel of a job is.

    Attributes
    ----------
    pod, port
        The pod of rank 0, and the port there.
    key
        The job's key.
    addresses
        Where process 1 of rank 0 finds those of the others.
    """

    pod: str
    port: int
    key: str
    addresses: Mapping[int, tuple[str, int]]


@dataclass(frozen=True)
class Reach:
    """How the ranks of a job can be asked, and what is known of them.

    Attributes
    ----------
    target
        Where its channel is; None where that is not known, or none of this user's business.
    ranks
        What they have said.
    barrier
        Why there is no target.
    """

    target: Target | None
    ranks: Sequence[RankState]
    barrier: str | None = None


class Refused(OSError):  # noqa: N818
    """The pods answer to another owner.

    Parameters
    ----------
    epoch
        That owner's.
    """

    def __init__(self, epoch: int) -> None:
        super().__init__(say.NOT_THE_OWNER())
        self.epoch = epoch


class Unsupported(OSError):  # noqa: N818
    """The pods don't know what they were asked; the connection is as good as before."""


class Unready(OSError):  # noqa: N818
    """Other pods could not be reached, or are being asked for the same.

    Parameters
    ----------
    ranks
        Which.
    """

    def __init__(self, ranks: JsonValue) -> None:
        listed = ranks if isinstance(ranks, list) else []
        self.ranks = [one for one in listed if type(one) is int]
        named = say.NOT_REACHED(ranks=ranks_text(self.ranks)) if self.ranks else say.BUSY()
        super().__init__(named)


class Over(OSError):  # noqa: N818
    """The session ends: its ranks take no more."""


class NoRoom(OSError):  # noqa: N818
    """Pods have no room for what was sent."""


class Line:
    """A connection that is opened on first need, and closed when it is needed no more.

    Parameters
    ----------
    client
        The cluster.
    owner
        Whose it is.

    Attributes
    ----------
    client, owner
        As above; the owner is of another epoch after `claim`.
    """

    def __init__(self, client: Client, owner: Owner) -> None:
        self.client = client
        self.owner = owner
        self._guard = threading.Lock()
        self._opened = contextlib.ExitStack()
        self._target: Target | None = None
        self._connection: Connection | None = None
        self._number = 0
        self._used = 0.0

    def where(self, target: Target) -> list[Whereabouts]:
        """Ask where all ranks are.

        Raises
        ------
        OSError
            The connection failed, or the other end broke the rules.
        ApiError, Unreachable
            The cluster refuses the connection, or does not answer.
        """
        with self._guard:
            addresses = write_addresses(target.addresses)
            answer = self._ask(target, {"ask": "where", "addresses": addresses})
            self._used = time.monotonic()
        return _listed(answer)

    def profile(self, target: Target, name: str, seconds: float) -> list[Whereabouts]:
        """Have all ranks profiled from now on; return what `where` does, without places.

        Parameters
        ----------
        target
            Where they are.
        name, seconds
            The name of the profile, and for how long.

        Raises
        ------
        Unready
            The ranks are being asked something else.
        OSError, ApiError, Unreachable
            As for `where`.
        """
        with self._guard:
            ask: dict[str, JsonValue] = {"ask": "profile", "name": name, "seconds": seconds}
            answer = self._ask(target, {**ask, "addresses": write_addresses(target.addresses)})
            self._used = time.monotonic()
        return _listed(answer)

    def restart(self, target: Target, known: str) -> None:
        """Have all ranks restart in their pods.

        Parameters
        ----------
        target
            Where they are.
        known
            An id of the restart: asked for again, it is not done twice.

        Raises
        ------
        Unready
            Ranks can't be reached: none is stopped, or those that are wait for the next try.
        OSError, ApiError, Unreachable
            As for `where`.
        """
        with self._guard:
            ask: dict[str, JsonValue] = {"ask": "restart", "id": known}
            self._ask(target, {**ask, "addresses": write_addresses(target.addresses)})
            self._used = time.monotonic()

    def tell(
        self, target: Target, to: Mapping[int, str], told: Mapping[str, JsonValue], body: bytes
    ) -> None:
        """Have all ranks of a session told something; what they have heard they leave out.

        Parameters
        ----------
        to
            For which process of each rank it is.
        told, body
            The instruction, and a bundle.

        Raises
        ------
        Unready
            Ranks can't be reached; others may have heard it.
        Over
            The session ends.
        NoRoom
            A pod can't keep the bundle.
        OSError, ApiError, Unreachable
            As for `where`.
        """
        with self._guard:
            head: dict[str, JsonValue] = {
                "ask": "tell",
                "told": dict(told),
                "to": {str(rank): process for rank, process in to.items()},
                "addresses": write_addresses(target.addresses),
            }
            self._ask(target, head, body)
            self._used = time.monotonic()

    def claim(self, target: Target, epoch: int) -> None:
        """Be the owner of an epoch, and tell the pods.

        Raises
        ------
        Refused
            There is an owner of the same epoch, or of a later one.
        OSError, ApiError, Unreachable
            As for `where`.
        """
        with self._guard:
            self._close()
            self.owner = replace(self.owner, epoch=epoch)
            self._ask(target, {"ask": "ping"})

    def keep(self) -> None:
        """Keep the connection alive while it may be needed, and close it then."""
        if self._connection is None or not self._guard.acquire(blocking=False):
            return
        try:
            now = time.monotonic()
            if now - self._used > timeouts.CHANNEL_IDLE.seconds:
                self._close()
            elif now - self._connection.heard > timeouts.KEEP_ALIVE.seconds:
                self._ping()
        finally:
            self._guard.release()

    def _ping(self) -> None:
        """Give a sign of life; without an answer the next question opens another connection."""
        try:
            self._converse({"ask": "ping"})
        except (OSError, WireError):
            self._close()

    def close(self) -> None:
        """Close the connection."""
        with self._guard:
            self._close()

    def _ask(
        self, target: Target, head: dict[str, JsonValue], body: bytes = b""
    ) -> dict[str, JsonValue]:
        """Ask, and ask again once where the connection had been cut before."""
        if target != self._target:
            self._close()
        cut = self._connection is not None
        while True:
            try:
                if self._connection is None:
                    self._open(target)
                return self._converse(head, body)
            except (Unsupported, Unready, Over, NoRoom):
                raise
            except (OSError, WireError) as error:
                self._close()
                if not cut or isinstance(error, Refused):
                    raise _in_words(error) from None
                cut = False
            except BaseException:
                self._close()
                raise

    def _open(self, target: Target) -> None:
        wire = Wire(target.key.encode(), 0, self.owner)
        patience = timeouts.ANSWER.seconds
        self._connection = self._opened.enter_context(
            connect(self.client, target.pod, target.port, wire, patience)
        )
        self._target = target

    def _converse(self, head: dict[str, JsonValue], body: bytes = b"") -> dict[str, JsonValue]:
        assert self._connection is not None
        self._number += 1
        # It ends processes, or reaches other pods, before it answers.
        more = {"restart": timeouts.KILL.seconds, "tell": timeouts.PROOF.seconds}
        self._connection.wait_up_to(timeouts.ANSWER.seconds + more.get(str(head["ask"]), 0.0))
        self._connection.send({**head, "number": self._number}, body)
        while True:
            for message in self._connection.receive():
                if message.head.get("number") == self._number:
                    match message.head.get("error"):
                        case None:
                            return message.head
                        case "owner":
                            epoch = message.head.get("epoch")
                            raise Refused(epoch if type(epoch) is int else 0)
                        case "unreachable" | "busy":
                            raise Unready(message.head.get("ranks"))
                        case "over":
                            raise Over
                        case "room":
                            raise NoRoom
                        case _:
                            raise Unsupported(say.NOT_SUPPORTED(ask=head["ask"]))

    def _close(self) -> None:
        self._connection = self._target = None
        with contextlib.suppress(Exception):
            self._opened.close()
        self._opened = contextlib.ExitStack()


def owner_of(epoch: int) -> Owner:
    """Return the identity by which pods tell this job store from others."""
    return Owner(store.own_id(), epoch)


def _in_words(error: OSError | WireError) -> OSError:
    """Return an error with words for people."""
    if isinstance(error, OSError):
        return error
    return OSError(say.OTHER_VERSION() if isinstance(error, VersionError) else say.NOT_PROVEN())


def _listed(answer: Mapping[str, JsonValue]) -> list[Whereabouts]:
    ranks = answer.get("ranks")
    listed = ranks if isinstance(ranks, list) else []
    return [_read(one) for one in listed if isinstance(one, dict)]


def _read(one: Mapping[str, JsonValue]) -> Whereabouts:
    """Read what a pod says of a rank; it may say anything."""
    rank, where, memory = one.get("rank"), one.get("where"), one.get("memory")
    place = None
    if isinstance(where, dict):
        found = messages.read({**where, "kind": "where"})
        place = found.where if isinstance(found, messages.Located) else None
    process = one.get("process")
    return {
        "rank": rank if type(rank) is int and 0 <= rank < _MOST_RANKS else -1,
        "where": place if place is not None and _is_sane(place) else None,
        "process": process if isinstance(process, str) and len(process) < 40 else None,
        "memory": memory if type(memory) is int and 0 <= memory < 1 << 60 else None,
    }


def _is_sane(place: Position) -> bool:
    """Return whether a page can show a place: numbers and texts may be of any size."""
    line, seconds = place["cell_line"], place["seconds"]
    texts = (place["cell"], place["doing"], place["frame"], place.get("compiles"))
    return (
        (line is None or (type(line) is int and 0 <= line < _MOST_NUMBER))
        and (seconds is None or 0 <= seconds < _MOST_NUMBER)  # which NaN is not
        and all(len(text) < _MOST_TEXT for text in texts if text is not None)
    )
