"""One connection to process 1 of a pod, by a port-forward."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.api.client import Client
from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.messages import channel as say
from jupyter_jax_trainer.worker.pod.wire import Message, Wire

_PIECE = 1 << 16  # bytes


class Connection:
    """A connection whose ends have proven that they know the job's key.

    Parameters
    ----------
    end
        The socket.
    wire
        What goes through it.

    Attributes
    ----------
    heard
        When something came last.
    """

    def __init__(self, end: Any, wire: Wire) -> None:
        self.heard = time.monotonic()
        self._end = end
        self._wire = wire

    def wait_up_to(self, seconds: float) -> None:
        """Set for how long `receive` waits for anything."""
        self._end.settimeout(seconds)

    def send(self, head: dict[str, JsonValue], body: bytes = b"", digest: bytes = b"") -> None:
        """Send a message.

        Parameters
        ----------
        digest
            The digest of the body, where it is known.

        Raises
        ------
        OSError
            The connection was cut.
        """
        self._wire.send(Message(head, body, digest))
        self._flush()

    def receive(self) -> list[Message]:
        """Wait for more, and return the messages that it completes.

        Raises
        ------
        OSError
            The connection was cut, or nothing came for too long.
        WireError
            The other end does not know the key, or broke the rules.
        """
        self._flush()
        data = self._end.recv(_PIECE)
        if not data:
            raise OSError(say.CONNECTION_CLOSED())
        found = list(self._wire.receive(data))
        self._flush()
        self.heard = time.monotonic()
        return found

    def _flush(self) -> None:
        self._end.sendall(self._wire.unsent.take())


@contextlib.contextmanager
def connect(
    client: Client, pod: str, port: int, wire: Wire, patience: float
) -> Iterator[Connection]:
    """Open a connection, and have both ends prove that they know the job's key.

    Parameters
    ----------
    client
        The cluster.
    pod, port
        Where to.
    wire
        With the key, and of which rank it is.
    patience
        Seconds to wait for anything from there.

    Raises
    ------
    OSError, WireError
        As of `Connection.receive`.
    ApiError, Unreachable
        The cluster refuses the connection, or does not answer.
    """
    with client.forward(pod, port) as end:
        opened = Connection(end, wire)
        opened.wait_up_to(patience)
        while not wire.is_proven:
            opened.receive()
        yield opened
