"""The channel's end here: one connection to the pod of rank 0, by a port-forward."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api.client import Client
from jupyter_jax_trainer.backends.kubernetes.follow.connection import Connection, connect
from jupyter_jax_trainer.backends.kubernetes.logs import messages
from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.jobdir import store
from jupyter_jax_trainer.messages import channel as say
from jupyter_jax_trainer.worker.pod.wire import Owner, Wire, WireError
from jupyter_jax_trainer.worker.records import Whereabouts

_FIRST_EPOCH = 1


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


class Refused(OSError):  # noqa: N818
    """The pods answer to a later owner."""


class Line:
    """A connection that is opened on first need, and closed when it is needed no more.

    Parameters
    ----------
    client
        The cluster.
    owner
        Whose it is.
    """

    def __init__(self, client: Client, owner: Owner) -> None:
        self._client = client
        self._owner = owner
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
            addresses: dict[str, JsonValue] = {
                str(rank): [host, port] for rank, (host, port) in target.addresses.items()
            }
            answer = self._ask(target, {"ask": "where", "addresses": addresses})
            self._used = time.monotonic()
        ranks = answer.get("ranks")
        listed = ranks if isinstance(ranks, list) else []
        return [_read(one) for one in listed if isinstance(one, dict)]

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

    def _ask(self, target: Target, head: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Ask, and ask again once where the connection had been cut before."""
        if target != self._target:
            self._close()
        cut = self._connection is not None
        while True:
            try:
                if self._connection is None:
                    self._open(target)
                return self._converse(head)
            except (OSError, WireError) as error:
                self._close()
                if not cut or isinstance(error, Refused):
                    raise OSError(str(error) or say.NOT_PROVEN()) from None
                cut = False
            except BaseException:
                self._close()
                raise

    def _open(self, target: Target) -> None:
        wire = Wire(target.key.encode(), 0, self._owner)
        patience = timeouts.ANSWER.seconds
        self._connection = self._opened.enter_context(
            connect(self._client, target.pod, target.port, wire, patience)
        )
        self._target = target

    def _converse(self, head: dict[str, JsonValue]) -> dict[str, JsonValue]:
        assert self._connection is not None
        self._number += 1
        self._connection.send({**head, "number": self._number})
        while True:
            for message in self._connection.receive():
                if message.head.get("number") == self._number:
                    if "error" in message.head:
                        raise Refused(say.NOT_THE_OWNER())
                    return message.head

    def _close(self) -> None:
        self._connection = self._target = None
        with contextlib.suppress(Exception):
            self._opened.close()
        self._opened = contextlib.ExitStack()


def own() -> Owner:
    """Return by what the pods tell this job store from another one."""
    place = f"{socket.gethostname()} {store.home()}"
    return Owner(hashlib.sha256(place.encode()).hexdigest()[:32], _FIRST_EPOCH)


def _read(one: Mapping[str, JsonValue]) -> Whereabouts:
    """Read what a pod says of a rank; it may say anything."""
    rank, where, memory = one.get("rank"), one.get("where"), one.get("memory")
    place = None
    if isinstance(where, dict):
        found = messages.read({**where, "kind": "where"})
        place = found.where if isinstance(found, messages.Located) else None
    process = one.get("process")
    return {
        "rank": rank if type(rank) is int else -1,
        "where": place,
        "process": process if isinstance(process, str) and len(process) < 40 else None,
        "memory": memory if type(memory) is int and 0 <= memory < 1 << 60 else None,
    }
