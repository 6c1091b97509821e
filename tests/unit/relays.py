"""Relays of many ranks in this process, on ports of the loopback address, and a way to them."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jupyter_jax_trainer.backends.kubernetes.follow.line import Target
from jupyter_jax_trainer.worker.pod import relay
from jupyter_jax_trainer.worker.pod.relay import Relay
from jupyter_jax_trainer.worker.pod.wire import Message, Wire
from jupyter_jax_trainer.worker.records import Position

KEY = "0123456789abcdef" * 4


class Loopback:
    """A cluster that forwards ports of pods, all of them on this machine.

    Attributes
    ----------
    opened
        How many connections there were.
    error
        Raised instead of opening one.
    """

    def __init__(self) -> None:
        self.opened = 0
        self.error: Exception | None = None

    @contextmanager
    def forward(self, pod: str, port: int) -> Iterator[socket.socket]:
        if self.error is not None:
            raise self.error
        self.opened += 1
        with socket.create_connection(("127.0.0.1", port)) as end:
            yield end


class Relays(threading.Thread):
    """The relays of a job, in one loop; each rank is at the line with its number."""

    def __init__(self, count: int) -> None:
        super().__init__(name="relays", daemon=True)
        self.selector = selectors.DefaultSelector()
        self._ended = False
        self.relays = [self._relay(rank) for rank in range(count)]
        with _any_port():
            ports = [one.listen() for one in self.relays]
        self.ports = [port for port in ports if port is not None]
        assert len(self.ports) == count
        self.start()

    def _relay(self, rank: int) -> Relay:
        found = Relay(KEY.encode(), rank, self.selector, lambda: found.take_place(place(rank)))
        found.pid = os.getpid()
        return found

    @property
    def target(self) -> Target:
        """Where their channel is."""
        others = {rank: ("127.0.0.1", port) for rank, port in enumerate(self.ports) if rank}
        return Target(pod="pod-0", port=self.ports[0], key=KEY, addresses=others)

    def run(self) -> None:
        """Serve until they are closed."""
        while not self._ended:
            for key, _ in self.selector.select(0.02):
                key.data()
            for one in self.relays:
                one.tick()
        for one in self.relays:
            one.abandon()
        self.selector.close()

    def close(self) -> None:
        """End them."""
        self._ended = True
        self.join()

    def __enter__(self) -> Relays:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _any_port() -> Iterator[None]:
    before = os.environ.get(relay.PORT_VARIABLE)
    os.environ[relay.PORT_VARIABLE] = "0"
    try:
        yield
    finally:
        del os.environ[relay.PORT_VARIABLE]
        if before is not None:
            os.environ[relay.PORT_VARIABLE] = before


def place(rank: int) -> Position:
    """Return where a rank says it is."""
    return {"cell": "Cell", "cell_line": rank, "doing": None, "frame": None, "seconds": 1.0}


@contextmanager
def serving(greet: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve connections on a port, each in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        def serve(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                greet(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def knows_nothing(connection: socket.socket) -> None:
    """Be process 1 of a pod that knows no question."""
    wire = Wire(KEY.encode(), 0)
    connection.sendall(wire.unsent.take())
    while data := connection.recv(1 << 16):
        for message in wire.receive(data):
            wire.send(Message({"number": message.head["number"], "error": "unknown"}))
        connection.sendall(wire.unsent.take())
