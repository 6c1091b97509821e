"""One rank, as its supervisor sees it."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from typing import Any

from jupyter_jax_trainer.backends.local.workers import Started
from jupyter_jax_trainer.jobdir.failure import RankEnd
from jupyter_jax_trainer.states import Phase
from jupyter_jax_trainer.worker.records import Position

_READ = 1 << 20  # bytes that are read at once


@dataclass
class LocalRank:
    """A rank: its process, what it said last, and how it ended.

    Attributes
    ----------
    number
        Which.
    process
        Its process and channel.
    end
        What is known about its end.
    has_run
        It has come to the code of the cell.
    gone
        Its process has ended.
    finished_at
        When its work was done, on the monotonic clock.
    where
        Where in the cell it was when it was asked.
    """

    number: int
    process: Started
    end: RankEnd
    state: Phase = Phase.STARTING
    has_run: bool = False
    gone: bool = False
    finished_at: float | None = None
    where: Position | None = None
    _unread: bytes = b""

    def receive(self) -> list[Any] | None:
        """Return all records that have come; None when there will be no more.

        A line that is no record is given as None: the cell wrote to a file that it did not open.
        """
        pieces: list[bytes] = []
        while True:
            try:
                pieces.append(self.process.channel.recv(_READ))
            except BlockingIOError:
                break
            except OSError:
                pieces.append(b"")
            if len(pieces[-1]) < _READ:  # nothing more was waiting
                break
        if pieces == [b""]:
            return None
        *lines, self._unread = b"".join([self._unread, *pieces]).split(b"\n")
        return [_read(line) for line in lines]

    def tell(self, **message: Any) -> None:
        """Send an instruction."""
        with contextlib.suppress(OSError):
            self.process.channel.send(json.dumps(message).encode() + b"\n")

    def signal(self, number: int) -> None:
        """Send a signal to the rank and what it started."""
        if not self.gone:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)


def _read(line: bytes) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(line)
    return None
