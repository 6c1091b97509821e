"""The writer's end: takes requests from processes of the same user, in the writer's own loop."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import cast

from jupyter_jax_trainer.channel import protocol
from jupyter_jax_trainer.channel.protocol import (
    PlaceRecord,
    ProfileName,
    RankPlace,
    Reply,
    Request,
)
from jupyter_jax_trainer.channel.sockets import is_same_user, path_of, prune, socket_at
from jupyter_jax_trainer.jobdir.store import private_directory

_MOST = 32  # connections at a time
_FILES = 4  # that come with the requests of one connection, and are not taken yet


@dataclass
class Client:
    """A connection, and what is to be read from it and sent to it."""

    connection: socket.socket
    unread: bytes = b""
    unsent: bytearray = field(default_factory=bytearray)
    files: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Asked:
    """A request that waits for its answer."""

    client: Client
    request: Request
    listener: Listener

    def take_file(self) -> int | None:
        """Take over the open file that came with it, if one did."""
        return self.client.files.pop(0) if self.client.files else None

    def answer(
        self,
        places: Sequence[RankPlace] = (),
        refused: str | None = None,
        profile: ProfileName | None = None,
    ) -> None:
        """Answer it; a client that is gone needs no answer."""
        reply: Reply = {
            "version": protocol.VERSION,
            "number": self.request["number"],
            "answer": [cast(PlaceRecord, asdict(one)) for one in places],
        }
        if profile is not None:
            reply["profile"] = profile
        if refused is not None:
            reply["refused"] = refused
        self.listener.send(self.client, reply)


class Listener:
    """Listens for requests without blocking.

    Parameters
    ----------
    uid
        The job's own id.
    selector
        The writer's: what is registered in it has a function as its data, to be called when the
        socket is ready.
    on_request
        Called with each request.

    Raises
    ------
    OSError
        There is no place for a socket.
    """

    def __init__(
        self,
        uid: str,
        selector: selectors.BaseSelector,
        on_request: Callable[[Asked], None],
    ) -> None:
        self._path = path_of(uid)
        self._selector = selector
        self._on_request = on_request
        self._clients: list[Client] = []
        prune(private_directory(self._path.parent))
        self._path.unlink(missing_ok=True)
        with socket_at(self._path) as (_, address):
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(address)
        os.chmod(self._path, 0o600)
        self._socket.listen(_MOST)
        self._socket.setblocking(False)
        selector.register(self._socket, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Stop listening."""
        for client in self._clients[:]:
            self._drop(client)
        self._selector.unregister(self._socket)
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def send(self, client: Client, reply: Reply) -> None:
        """Send an answer, now or as soon as the client takes it."""
        if client in self._clients:
            client.unsent += protocol.write(reply)
            self._flush(client)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._socket.accept()
            if len(self._clients) >= _MOST or not is_same_user(connection):
                connection.close()
                return
            connection.setblocking(False)
            client = Client(connection)
            self._clients.append(client)
            self._selector.register(connection, selectors.EVENT_READ, lambda: self._serve(client))

    def _serve(self, client: Client) -> None:
        """Read what has come, and send what has had to wait."""
        self._flush(client)
        if client not in self._clients:
            return
        try:
            data, files, _, _ = socket.recv_fds(client.connection, 1 << 16, _FILES)
            for file in files:
                os.set_inheritable(file, False)
            client.files += files
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, client.unread = (client.unread + data).split(b"\n")
        for line in lines:
            request = protocol.read_request(line)
            if request is None:
                self._drop(client)
                return
            self._on_request(Asked(client, request, self))
        if not data or len(client.unread) > protocol.MAX_REQUEST or len(client.files) > _FILES:
            self._drop(client)

    def _flush(self, client: Client) -> None:
        try:
            while client.unsent:
                del client.unsent[: client.connection.send(client.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.unsent else 0)
        self._selector.modify(client.connection, events, lambda: self._serve(client))

    def _drop(self, client: Client) -> None:
        if client in self._clients:
            self._clients.remove(client)
            self._selector.unregister(client.connection)
            client.connection.close()
            for file in client.files:
                os.close(file)
