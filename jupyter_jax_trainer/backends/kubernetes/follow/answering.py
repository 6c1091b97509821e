"""What is asked of a follower by processes of the same user, and answered through the channel."""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial

from jupyter_jax_trainer.backends.kubernetes.follow.asker import Asker
from jupyter_jax_trainer.backends.kubernetes.follow.session import Session
from jupyter_jax_trainer.channel.listener import Asked, Listener
from jupyter_jax_trainer.channel.protocol import ProfileName, RankPlace
from jupyter_jax_trainer.messages import channel as say

_TICK = 1.0  # seconds

# Has the ranks profiled for so many seconds; gives the profile, or why there is none.
Profiling = Callable[[Asker, float], tuple[ProfileName | None, str | None]]


class Answering(threading.Thread):
    """Listens for the jobs of a follower, and has their ranks asked."""

    def __init__(self) -> None:
        super().__init__(name="answering", daemon=True)
        self._selector = selectors.DefaultSelector()
        self._todo: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._listeners: dict[str, Listener] = {}
        self._askers: dict[str, Asker] = {}
        self._wake, wakes = socket.socketpair()
        self._wake.setblocking(False)
        wakes.setblocking(False)
        self._selector.register(wakes, selectors.EVENT_READ, partial(self._take, wakes))

    def add(
        self,
        uid: str,
        asker: Asker,
        profile: Profiling,
        session: Session | None = None,
    ) -> None:
        """Listen for a job.

        Parameters
        ----------
        uid
            The job's own id.
        asker
            Asks its ranks.
        profile
            Takes profiles of them.
        session
            Runs cells on them, if it is a session of this store.
        """
        self._put(partial(self._add, uid, asker, profile, session))

    def remove(self, uid: str) -> None:
        """Listen no more."""
        self._put(partial(self._remove, uid))

    def run(self) -> None:
        """Serve until the process ends."""
        while True:
            for key, _ in self._selector.select(_TICK):
                key.data()
            for asker in self._askers.values():
                asker.tick()

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

    def _add(self, uid: str, asker: Asker, profile: Profiling, session: Session | None) -> None:
        self._remove(uid)
        with contextlib.suppress(OSError):  # then nobody can ask
            on_request = partial(self._answer, asker, profile, session)
            self._listeners[uid] = Listener(uid, self._selector, on_request)
            self._askers[uid] = asker

    def _remove(self, uid: str) -> None:
        if (listener := self._listeners.pop(uid, None)) is not None:
            listener.close()
        if (asker := self._askers.pop(uid, None)) is not None:
            threading.Thread(target=asker.close, daemon=True).start()

    def _answer(
        self, asker: Asker, profile: Profiling, session: Session | None, asked: Asked
    ) -> None:
        """Answer in a thread: a cluster may take its time."""
        lock = asked.take_file()
        if asked.request["ask"] not in ("where", "profile") and session is None:
            if lock is not None:
                os.close(lock)
            asked.answer(refused=say.ONLY_WHERE())
            return

        def ask() -> None:
            places: Sequence[RankPlace] = ()
            refused: str | None = None
            taken: ProfileName | None = None
            match asked.request["ask"]:
                case "run" if session is not None:
                    refused = session.accept(asked.request["cell"], lock)
                case "restart" if session is not None:
                    refused = session.restart()
                case "prolong" if session is not None:
                    refused = session.prolong(asked.request.get("seconds"))
                case "profile":
                    taken, refused = profile(asker, asked.request["seconds"])
                case _:
                    places = asker.places()
            self._put(lambda: asked.answer(places, refused, taken))

        threading.Thread(target=ask, name="answer", daemon=True).start()
