"""A web server in a thread, for scenes that answer as an API server does."""

from __future__ import annotations

import base64
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_WEBSOCKET = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455


class Quiet(BaseHTTPRequestHandler):
    """Answers many requests over one connection, and says nothing on stderr."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_args: object) -> None:
        pass

    def give(self, status: int, headers: dict[str, str], data: bytes) -> None:
        """Send a whole answer."""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def upgrade(self) -> None:
        """Agree to a WebSocket, and close it when this handler returns."""
        digest = hashlib.sha1((self.headers["Sec-WebSocket-Key"] + _WEBSOCKET).encode()).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
        if protocol := self.headers["Sec-WebSocket-Protocol"]:
            self.send_header("Sec-WebSocket-Protocol", protocol)
        self.end_headers()
        self.close_connection = True


class WebServer:
    """Serves until it is closed.

    Attributes
    ----------
    url
        Where it is.
    """

    def __init__(self, handler: type[Quiet]) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
