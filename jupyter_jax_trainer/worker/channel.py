"""The worker's line to whoever runs it: records out, instructions in.

A record is a JSON object on a line of its own, over a socket that the supervisor gave to this
worker alone, so nothing that the cell prints can pass for one. Without a supervisor (the bundle run
by hand) records go nowhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from jupyter_jax_trainer.worker.processes import end_descendants
from jupyter_jax_trainer.worker.records import Instruction

FD_VARIABLE = "JAXTRAIN_CHANNEL_FD"
Handler = Callable[[Instruction], None]


class Channel:
    """Records to the supervisor; safe to use from several threads.

    Parameters
    ----------
    connection
        A stream socket, or None for a worker on its own.

    Attributes
    ----------
    supervised
        Somebody watches over the rendezvous and ends one that takes too long.
    interval
        Seconds between batches of reports.
    batch
        Reports that don't wait for it.
    """

    supervised = True
    interval = 0.1
    batch = 1_000

    def __init__(self, connection: socket.socket | None) -> None:
        self._socket = connection
        self._lock = threading.Lock()
        self._inbox: queue.SimpleQueue[Instruction] = queue.SimpleQueue()
        # A child that the cell forks must not speak for this rank.
        self._pid = os.getpid()

    @classmethod
    def from_environment(cls) -> Channel:
        """Open the channel that the supervisor left in the environment; children don't get it."""
        number = os.environ.pop(FD_VARIABLE, None)
        if number is None:
            return cls(None)
        connection = socket.socket(fileno=int(number))
        connection.set_inheritable(False)
        return cls(connection)

    @property
    def connected(self) -> bool:
        """Whether there is somebody who listens."""
        return self._socket is not None

    def send(self, kind: str, **fields: Any) -> None:
        """Send one record; a supervisor that is gone is not this rank's error."""
        if self._socket is None or os.getpid() != self._pid:
            return
        data = json.dumps({"kind": kind, **fields}, default=str).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            self._socket.sendall(data)

    def answer(self, kind: str, **fields: Any) -> None:
        """Send what was asked for."""
        self.send(kind, **fields)

    def wake(self) -> None:
        """Have `receive` return an instruction that asks for nothing."""
        self._inbox.put({"kind": "wake"})

    def receive(self) -> Instruction:
        """Wait for the next instruction."""
        return self._inbox.get()

    def wait_for_leave(self, timeout: float) -> None:
        """Wait until this rank is no longer needed by the others, but not for long."""
        with contextlib.suppress(queue.Empty):
            while self._inbox.get(timeout=timeout).get("kind") != "leave":
                pass

    def _is_meant(self, told: Instruction) -> bool:
        """Return whether an instruction is for this process, and new to it."""
        return True

    def listen(self, handlers: Mapping[str, Handler]) -> None:
        """Take instructions in a thread; end this process when the supervisor is gone.

        What the cell has started ends, too, so nothing is left running whoever is killed.

        Parameters
        ----------
        handlers
            What to do in that thread for some kinds of instruction; others wait in the inbox. More
            may be added later.
        """
        if self._socket is None:
            return
        connection = self._socket

        def read() -> None:
            with contextlib.suppress(OSError), connection.makefile("rb") as lines:
                for line in lines:
                    message = json.loads(line)
                    if not self._is_meant(message):
                        continue
                    handler = handlers.get(message["kind"])
                    if handler is None:
                        self._inbox.put(message)
                    else:
                        handler(message)
            with contextlib.suppress(OSError):
                end_descendants()  # those in sessions of their own
                if os.getpgrp() == os.getpid():
                    os.killpg(0, signal.SIGKILL)
            os._exit(1)

        threading.Thread(target=read, name="jaxtrain-channel", daemon=True).start()
