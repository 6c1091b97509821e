"""The worker's line to its reader in a pod: messages are frames in what it prints."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import output
from jupyter_jax_trainer.worker.channel import Channel, Handler
from jupyter_jax_trainer.worker.pod import frames
from jupyter_jax_trainer.worker.records import Instruction

_MAX_MESSAGE = 8 << 20  # bytes of JSON
_COUNT_INTERVAL = 1.0  # seconds between messages that say how much was printed


class PodChannel(Channel):
    """Messages into the container's log; what is asked by process 1 is answered to it.

    Parameters
    ----------
    key
        The job's key.
    rank
        This rank.
    connection
        To process 1 of the pod; None where that itself speaks.
    """

    supervised = False
    interval = 1.0
    batch = 10_000

    def __init__(self, key: bytes, rank: int, connection: socket.socket | None) -> None:
        super().__init__(connection)
        self._key = key
        self._rank = rank
        self._incarnation = secrets.token_hex(4)
        self._number = 0
        self._order = 0  # of what it was told last
        self._counted = (0, 0)
        # A copy: the cell may lead its own output elsewhere for a while.
        self._fd = os.dup(1)
        self._waiting: deque[bytes] = deque()
        self._writing = False

    def send(self, kind: str, **fields: Any) -> None:
        """Write one message, after what has been printed so far."""
        if os.getpid() != self._pid:
            return
        text = frames.dumps({"kind": kind, **fields})
        if len(text) > _MAX_MESSAGE:
            self._send_too_large(kind, fields, len(text))
            return
        output.flush()
        if kind in frames.LAST_WORDS:
            self.send_count(again=True)
        self._write(text)

    def _send_too_large(self, kind: str, fields: dict[str, Any], size: int) -> None:
        """Make smaller messages of it, or say that it is left out."""
        reports = fields.get("reports", ())
        if len(reports) > 1:
            half = len(reports) // 2
            self.send(kind, reports=reports[:half])
            self.send(kind, reports=reports[half:])
        elif kind == "display":
            note = say.DISPLAY_TOO_LARGE(megabytes=size / 1e6)
            self.send(kind, **{**fields, "data": {"text/plain": note}, "metadata": {}})
        else:
            print(say.MESSAGE_TOO_LARGE(kind=kind, megabytes=size / 1e6))

    def answer(self, kind: str, **fields: Any) -> None:
        """Answer process 1."""
        super().send(kind, **fields)

    def send_count(self, again: bool = False) -> None:
        """Say how much was printed up to here, if that has changed.

        Parameters
        ----------
        again
            Also if it has not: the node may have rotated away what was said of it before.
        """
        with output.pipe:
            counted = output.written()
            if counted != self._counted or (again and any(counted)):
                self._counted = counted
                count, size = counted
                self._write(frames.dumps({"kind": "lines", "count": count, "bytes": size}))

    def _write(self, text: bytes) -> None:
        """Write a message as a whole, even if a signal's handler has another one meanwhile."""
        self._waiting.append(text)
        with output.pipe:
            if self._writing:
                return  # this thread is within the loop below: it will get there
            self._writing = True
            try:
                while self._waiting:
                    self._number += 1
                    for frame in frames.encode_json(
                        self._key,
                        self._rank,
                        self._incarnation,
                        self._number,
                        self._waiting.popleft(),
                    ):
                        self._write_frame(frame)
            finally:
                self._writing = False

    def _write_frame(self, frame: bytes) -> None:
        """Write one frame in one piece; a log that nobody takes any more is not this rank's error.

        Programs that the cell starts may make the pipe, which they share, non-blocking.
        """
        view = memoryview(frame)
        with contextlib.suppress(OSError):
            while view:
                try:
                    view = view[os.write(self._fd, view) :]
                except BlockingIOError:
                    select.select([], [self._fd], [])

    def sign(self, data: bytes) -> bytes:
        """Return the mac of some data, in hex, which shows that one knows the job's key."""
        return hmac.digest(self._key, data, hashlib.sha256).hex().encode()

    def _is_meant(self, told: Instruction) -> bool:
        """Leave out what was for the process before this one, or has come before."""
        if told.get("to", self._incarnation) not in (self._incarnation, None):
            return False
        order = told.get("order")
        if order is not None and order <= self._order:
            return False
        self._order = max(self._order, order or 0)
        return True

    def wait_for_leave(self, timeout: float) -> None:
        """Give the other ranks a moment, since nobody says when they need this one no more."""
        time.sleep(timeout)

    def listen(self, handlers: Mapping[str, Handler]) -> None:
        """Begin to count lines, and take what process 1 asks."""

        def count() -> None:
            while True:
                time.sleep(_COUNT_INTERVAL)
                self.send_count()

        threading.Thread(target=count, name="jaxtrain-lines", daemon=True).start()
        super().listen(handlers)
