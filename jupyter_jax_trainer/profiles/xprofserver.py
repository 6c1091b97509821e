"""The process in which XProf serves one profile, on a socket in a private folder.

XProf's own server listens on all addresses of the machine, with a second port for gRPC; this one
has no port. It is started with that folder and with the seconds after which it ends unless somebody
asks; it also ends when its stdin closes, with the Jupyter server. The folder goes with it.
"""

from __future__ import annotations

import gzip
import logging
import os
import re
import resource
import shutil
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

MEMORY_LIMIT = 16 << 30  # bytes
SOCKET, LOGS = "socket", "logs"  # in the folder
READY = b"ready\n"
_HEAD = (re.compile(rb"<head[^>]*>", re.I), re.compile(rb"<!doctype[^>]*>", re.I))

# A page without an origin has no storage, no cookies and no parent to look at, and an error
# where it asks for them. XProf is to believe that it is in a window of its own.
_ALONE = b"""<script>
(() => {
  class Memory {
    #kept = new Map();
    get length() { return this.#kept.size; }
    key(index) { return [...this.#kept.keys()][index] ?? null; }
    getItem(name) { return this.#kept.get(String(name)) ?? null; }
    setItem(name, value) { this.#kept.set(String(name), String(value)); }
    removeItem(name) { this.#kept.delete(String(name)); }
    clear() { this.#kept.clear(); }
  }
  for (const name of ['localStorage', 'sessionStorage']) {
    Object.defineProperty(window, name, { value: new Memory() });
  }
  Object.defineProperty(document, 'cookie', { get: () => '', set: () => undefined });
  Object.defineProperty(window, 'parent', { value: window });
})();
</script>"""


class Serving:
    """XProf's application, and when it was asked last.

    Parameters
    ----------
    application
        XProf's.
    """

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application
        self._asked = time.monotonic()

    @property
    def idle(self) -> float:
        """For how many seconds nobody has asked."""
        return time.monotonic() - self._asked

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """Answer a request; pages get what they lack in a frame without an origin."""
        self._asked = time.monotonic()
        begun: list[Any] = []

        def begin(status: str, headers: list[tuple[str, str]], *_: Any) -> Callable[..., None]:
            begun[:] = [status, headers]
            return lambda data: None

        found = self._application(environ, begin)
        try:
            body = b"".join(found)
        finally:
            if hasattr(found, "close"):
                found.close()
        status, headers = begun
        fields = {name.lower(): value for name, value in headers}
        if fields.get("content-type", "").startswith("text/html"):
            if fields.pop("content-encoding", "") == "gzip":
                body = gzip.decompress(body)
            body = alone(body)
            fields["content-length"] = str(len(body))
        self._asked = time.monotonic()
        start(status, list(fields.items()))
        return [body]


def alone(page: bytes) -> bytes:
    """Add to a page, before all of its own scripts, what lets it run without an origin."""
    for beginning in _HEAD:
        if found := beginning.search(page):
            return page[: found.end()] + _ALONE + page[found.end() :]
    return _ALONE + page


class _Handler(WSGIRequestHandler):
    def address_string(self) -> str:
        return "local"  # at the other end of a socket without addresses

    def log_message(self, *_: Any) -> None:
        """Say nothing of each request."""


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer, WSGIServer):
    """Serves on a socket that is a file."""

    daemon_threads = True

    def server_bind(self) -> None:
        socketserver.UnixStreamServer.server_bind(self)
        self.server_name, self.server_port = "localhost", 0
        self.setup_environ()

    def get_request(self) -> tuple[Any, Any]:
        request, _ = super().get_request()
        return request, ("local", 0)


def application(logs: Path) -> WSGIApplication:
    """Return XProf's application for a folder of traces, without its server."""
    from xprof import server

    context = server.TBContext(
        str(logs), server.DataProvider(str(logs)), server.TBContext.Flags(False)
    )
    context.hide_capture_profile_button = True  # nor does the Jupyter server pass that on
    context.enable_tab_name_label = False
    context.src_prefix = None
    plugin = server.ProfilePluginLoader().load(context)
    made: WSGIApplication = server.make_wsgi_app(plugin)
    return made


def main() -> None:
    """Serve until nobody needs it."""
    folder, most = Path(sys.argv[1]), float(sys.argv[2])

    def end() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    def end_with_parent() -> None:
        while os.read(0, 1 << 10):
            pass
        end()

    threading.Thread(target=end_with_parent, daemon=True).start()
    for kind, limit in ((resource.RLIMIT_DATA, MEMORY_LIMIT), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        lowered = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (lowered, lowered))
    os.chdir(folder)  # the path of a socket has to be short
    logging.disable(logging.INFO)  # XProf would tell of each request
    serving = Serving(application(folder / LOGS))
    server = _Server(SOCKET, _Handler)
    server.set_app(serving)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.write(1, READY)
    while (left := most - serving.idle) > 0:
        time.sleep(left)
    end()


if __name__ == "__main__":
    main()
