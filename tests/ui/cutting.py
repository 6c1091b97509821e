"""Between the browser and the server: a way that can be cut, and questions that wait."""

from __future__ import annotations

import contextlib
import re
import selectors
import socket
import threading

from playwright.sync_api import Page, Route

SIZE = 1 << 16


class Proxy:
    """Passes bytes on to a server's port until `cut`, and again after `mend`.

    While it is cut nothing is passed on and nothing is closed, as when a cable is out: neither side
    is told. What was open before stays dead afterwards, as behind a router that has forgotten it.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._dead: list[socket.socket] = []
        self._peers: dict[socket.socket, socket.socket] = {}
        self._is_cut = False
        self._over = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True

    def mend(self) -> None:
        with self._lock:
            for one in self._peers:
                self._selector.unregister(one)
            self._dead += self._peers
            self._peers.clear()
            self._is_cut = False

    def close(self) -> None:
        with self._lock:
            self._over = True
        self._thread.join(10)
        for one in (self._listener, *self._peers, *self._dead):
            one.close()
        self._selector.close()

    def _pass_on(self) -> None:
        while not self._over:
            ready = self._selector.select(0.05)
            with self._lock:
                if self._is_cut:
                    threading.Event().wait(0.02)  # what is ready stays so
                    continue
                for key, _ in ready:
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj in self._peers:
                        self._move(key.fileobj)  # type: ignore[arg-type]

    def _accept(self) -> None:
        one, _ = self._listener.accept()
        try:
            other = socket.create_connection(("127.0.0.1", self._to))
        except OSError:
            one.close()
            return
        for a, b in ((one, other), (other, one)):
            self._peers[a] = b
            self._selector.register(a, selectors.EVENT_READ)

    def _move(self, one: socket.socket) -> None:
        other = self._peers[one]
        data = b""
        with contextlib.suppress(OSError):
            data = one.recv(SIZE)
            other.sendall(data)
        if not data:
            for each in (one, other):
                self._selector.unregister(each)
                del self._peers[each]
                each.close()


def hold_questions(page: Page) -> dict[str, Route]:
    """Return what the picker asks about a place, each by its name, for the test to answer."""
    held: dict[str, Route] = {}

    def hold(route: Route) -> None:
        held["health" if "/health" in route.request.url else "runtimes"] = route

    page.route(re.compile(r"/jaxtrain/api/(health|runtimes)\?"), hold)
    return held
