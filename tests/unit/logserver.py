"""An API server that has pods with logs, over real HTTP, with the ways of a kubelet.

``timestamps=true`` only; ``tailLines``; ``sinceTime`` in whole seconds leaves out older lines, in what is followed
as well; ``follow``; ``previous``; each line is a chunk. Faults are queued: each connection takes
the next one.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import parse_qs, urlsplit

from webserver import Quiet, WebServer

from jupyter_jax_trainer.backends.kubernetes.api.client import Client
from jupyter_jax_trainer.backends.kubernetes.logs.timestamps import stamp_of


class PlainClient(Client):
    """The project's own client, without a kubeconfig."""

    def __init__(self, server: str) -> None:
        self.server = server
        super().__init__(namespace="ns")

    def _connect(self) -> None:
        import urllib3

        self._pool = urllib3.PoolManager(maxsize=300, retries=False)
        self._own_namespace = "ns"
        self._configuration = self

    def auth_settings(self) -> dict:
        return {}


@dataclass
class Run:
    """One attempt of a container."""

    lines: list[bytes] = field(default_factory=list)
    ended: bool = False
    rotated: int = 0  # lines that are gone


@dataclass
class Pod:
    """A pod with one container."""

    uid: str = "uid"
    runs: list[Run] = field(default_factory=lambda: [Run()])
    waiting: bool = False

    @property
    def now(self) -> Run:
        return self.runs[-1]

    def status(self) -> dict:
        state = "terminated" if self.now.ended else "running"
        return {
            "metadata": {"uid": self.uid},
            "status": {
                "containerStatuses": [
                    {"name": "node", "restartCount": len(self.runs) - 1, "state": {state: {}}}
                ]
            },
        }


class LogServer(WebServer):
    """Serves until it is closed.

    Attributes
    ----------
    pods
        By name; tests change them as they like.
    faults
        For the next connections to logs, one each: a status code, or a word and a number of bytes
        after which the connection is cut ("cut"), ends cleanly ("eof") or says no more ("stall").
    asked
        The queries of all requests for logs.
    looks
        How often pods were looked at.
    """

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.faults: list[int | tuple[str, int]] = []
        self.asked: list[dict[str, str]] = []
        self.looks = 0
        self.chunk = 1  # lines in a chunk
        self.closing = threading.Event()
        outer = self

        class Handler(_Handler):
            server_of = outer

        super().__init__(Handler)

    def close(self) -> None:
        self.closing.set()
        super().close()


class _Handler(Quiet):
    server_of: LogServer

    def do_GET(self) -> None:
        server = self.server_of
        url = urlsplit(self.path)
        words = url.path.strip("/").split("/")
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if len(words) == 5:  # the list of them: who asks has heard of all
            self._answer(200, {"items": []})
            return
        pod = server.pods.get(words[5])
        try:
            if pod is None:
                self._refuse(404, "pods not found")
            elif words[-1] != "log":
                server.looks += 1
                self._answer(200, pod.status())
            else:
                server.asked.append(query)
                self._log(pod, query)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _refuse(self, status: int, message: str) -> None:
        self._answer(status, {"kind": "Status", "reason": "Refused", "message": message})

    def _answer(self, status: int, body: dict) -> None:
        self.give(status, {}, json.dumps(body).encode())

    def _log(self, pod: Pod, query: dict[str, str]) -> None:
        fault = self.server_of.faults.pop(0) if self.server_of.faults else None
        if isinstance(fault, int):
            return self._refuse(fault, "no")
        if pod.waiting:
            return self._refuse(400, 'container "node" is waiting to start: ContainerCreating')
        if "previous" in query and len(pod.runs) < 2:
            return self._refuse(400, 'previous terminated container "node" not found')
        run = pod.runs[-2] if "previous" in query else pod.runs[-1]
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        word, left = fault or ("", 1 << 62)
        for data in self._chunks(run, query):
            piece = data[:left]
            left -= len(piece)
            if piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            if left == 0:
                break
        if left == 0 and word == "stall":
            self.server_of.closing.wait(60)
        if left == 0 and word in ("cut", "stall"):
            self.close_connection = True
            return None
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _chunks(self, run: Run, query: dict[str, str]):
        since = None
        if "sinceTime" in query:
            since = datetime.fromisoformat(query["sinceTime"]).timestamp() * 10**9
        at = run.rotated
        if "tailLines" in query:
            at = max(at, len(run.lines) - int(query["tailLines"]))
        while not self.server_of.closing.is_set():
            ended, count = run.ended, len(run.lines)
            while at < count:
                part = run.lines[at : min(count, at + self.server_of.chunk)]
                at += len(part)
                yield b"".join(
                    line for line in part if since is None or (stamp_of(line) or 0) >= since
                )
            if "follow" not in query or ended:
                return
            time.sleep(0.005)
