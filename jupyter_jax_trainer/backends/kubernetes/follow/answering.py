"""What is asked of a follower by processes of the same user, and answered through the channel."""

from __future__ import annotations

import contextlib
import queue
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, Unreachable
from jupyter_jax_trainer.backends.kubernetes.follow.line import Line, Target, own
from jupyter_jax_trainer.channel.listener import Asked, Listener
from jupyter_jax_trainer.channel.places import placed, rank_place
from jupyter_jax_trainer.channel.protocol import RankPlace
from jupyter_jax_trainer.jobdir.state import RankState
from jupyter_jax_trainer.log import log
from jupyter_jax_trainer.worker.records import Whereabouts

_TICK = 1.0  # seconds
Look = Callable[[], tuple[Target | None, Sequence[RankState]]]


class Answering(threading.Thread):
    """Listens for the jobs of a follower, and asks their ranks.

    Parameters
    ----------
    client
        The cluster.
    """

    def __init__(self, client: Client) -> None:
        super().__init__(name="answering", daemon=True)
        self._client = client
        self._selector = selectors.DefaultSelector()
        self._todo: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._listeners: dict[str, Listener] = {}
        self._lines: dict[str, Line] = {}
        self._wake, wakes = socket.socketpair()
        self._wake.setblocking(False)
        wakes.setblocking(False)
        self._selector.register(wakes, selectors.EVENT_READ, partial(self._take, wakes))

    def add(self, uid: str, look: Look) -> None:
        """Listen for a job.

        Parameters
        ----------
        uid
            The job's own id.
        look
            Gives where its channel is, if there is one, and what is known of its ranks; called in
            other threads.
        """
        self._put(partial(self._add, uid, look))

    def remove(self, uid: str) -> None:
        """Listen no more."""
        self._put(partial(self._remove, uid))

    def run(self) -> None:
        """Serve until the process ends."""
        while True:
            for key, _ in self._selector.select(_TICK):
                key.data()
            for line in self._lines.values():
                line.keep()

    def _put(self, todo: Callable[[], object]) -> None:
        self._todo.put(todo)
        with contextlib.suppress(OSError):  # it is awake
            self._wake.send(b"x")

    def _take(self, wakes: socket.socket) -> None:
        with contextlib.suppress(OSError):
            wakes.recv(4096)
        with contextlib.suppress(queue.Empty):
            while True:
                self._todo.get_nowait()()

    def _add(self, uid: str, look: Look) -> None:
        self._remove(uid)
        line = Line(self._client, own())
        with contextlib.suppress(OSError):  # then nobody can ask
            on_request = partial(self._answer, line, look)
            self._listeners[uid] = Listener(uid, self._selector, on_request)
            self._lines[uid] = line

    def _remove(self, uid: str) -> None:
        if (listener := self._listeners.pop(uid, None)) is not None:
            listener.close()
        if (line := self._lines.pop(uid, None)) is not None:
            threading.Thread(target=line.close, daemon=True).start()

    def _answer(self, line: Line, look: Look, asked: Asked) -> None:
        """Answer in a thread: a cluster may take its time."""

        def ask() -> None:
            places = _places(line, look)
            self._put(lambda: asked.answer(places))

        threading.Thread(target=ask, name="where", daemon=True).start()


def _places(line: Line, look: Look) -> list[RankPlace]:
    """Return where ranks are: by their answers, or else by what they have said unasked."""
    target, ranks = look()
    found: dict[int, Whereabouts] = {}
    if target is not None:
        try:
            found = {one["rank"]: one for one in line.where(target)}
        except (OSError, ApiError, Unreachable) as error:
            log("info", f"the channel to {target.pod} failed: {error}")
    now = time.time()
    return [_place(rank, found.get(rank["rank"]), now) for rank in ranks]


def _place(rank: RankState, found: Whereabouts | None, now: float) -> RankPlace:
    if found is None or (found["where"] is None and found["process"] is None):
        return rank_place(rank, now)
    place = placed(rank["rank"], rank["state"], found["where"])
    return replace(place, process=found["process"], memory=found["memory"])
