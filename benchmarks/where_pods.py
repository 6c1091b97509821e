"""How long process 1 of rank 0 takes to ask those of all other pods where their ranks are."""

from __future__ import annotations

import os
import selectors
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from common import Measured, sized, spread

from jupyter_jax_trainer.backends.kubernetes.follow.line import Line, Target
from jupyter_jax_trainer.worker.pod.relay import PORT_VARIABLE, Relay
from jupyter_jax_trainer.worker.pod.wire import Owner

BOUND = 1000  # milliseconds
RANKS = sized(256, 2)
ASKED = sized(10, 1)  # times in a run
KEY = "0123456789abcdef" * 4
PLACE = {"cell": "Cell", "cell_line": 12, "doing": "psum", "frame": None, "seconds": 1.0}


def measure(runs: int) -> list[Measured]:
    """Ask all ranks, by the loopback address; all of them share one process with the first."""
    times: list[float] = []
    with pods() as target:
        line = Line(Loopback(), Owner("ab" * 16, 1))
        for _ in range(runs * ASKED + 1):
            began = time.perf_counter()
            found = line.where(target)
            times.append(1e3 * (time.perf_counter() - began))
            assert sum(one["where"] is not None for one in found) == RANKS
        line.close()
    times = times[1:]  # without the opening of the line
    middle = statistics.median(times)
    return [
        Measured(
            f"where are {RANKS} ranks in pods, ms",
            middle,
            f"<= {BOUND}",
            spread(times, "ms"),
            middle <= BOUND,
        )
    ]


class Loopback:
    """A cluster that forwards ports of pods, all of them on this machine."""

    @contextmanager
    def forward(self, pod: str, port: int) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", port)) as end:
            yield end


@contextmanager
def pods() -> Iterator[Target]:
    """Run the relays of all ranks, in one loop; give where their channel is."""
    selector, ended = selectors.DefaultSelector(), threading.Event()

    def relay(rank: int) -> Relay:
        found = Relay(KEY.encode(), rank, selector, lambda: found.take_place(PLACE))
        found.pid = os.getpid()
        return found

    def serve() -> None:
        while not ended.is_set():
            for key, _ in selector.select(0.1):
                key.data()
            for one in relays:
                one.tick()

    relays = [relay(rank) for rank in range(RANKS)]
    with mock.patch.dict(os.environ, {PORT_VARIABLE: "0"}):
        ports = [one.listen() for one in relays]
    thread = threading.Thread(target=serve)
    thread.start()
    others = {rank: ("127.0.0.1", port) for rank, port in enumerate(ports) if rank}
    try:
        yield Target(pod="pod-0", port=ports[0], key=KEY, addresses=others)
    finally:
        ended.set()
        thread.join()
        for one in relays:
            one.abandon()
        selector.close()
