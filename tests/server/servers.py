"""A real Jupyter server with the extension, and a page that speaks to it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import websocket
from pace import Deadline
from ports import free_port
from prometheus_client.parser import text_string_to_metric_families

TOKEN = "a-token-of-the-tests"
BASE = "/hub/user/jo/"  # as JupyterHub has it


class Server:
    """A Jupyter server.

    Attributes
    ----------
    root
        Where its notebooks are.
    log
        What it prints.
    program
        The module that is run.
    python
        The Python that runs it.
    enabling
        The option that enables the extension, where nothing else does.
    """

    program = "jupyter_server"
    python = sys.executable
    enabling: tuple[str, ...] = (
        "--ServerApp.jpserver_extensions={'jupyter_jax_trainer.server': True}",
    )

    def __init__(self, folder: Path, home: Path, *options: str, token: str = TOKEN) -> None:
        self.root = folder / "notebooks"
        self.root.mkdir(exist_ok=True)
        self.log = folder / "server.log"
        self.port = free_port()
        self.token = token
        self._home = home
        self._folder = folder
        self._options = options
        self.start()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}{BASE}"

    @property
    def url(self) -> str:
        return f"{self.base}jaxtrain/api/"

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "JAXTRAIN_HOME": str(self._home),
            "HOME": str(self._folder),
            "JUPYTER_CONFIG_DIR": str(self._folder / "config"),
        }

    def start(self, status: int = 200) -> None:
        """Start it, and wait until it answers a request for the jobs with this status."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    self.python,
                    "-m",
                    self.program,
                    "--no-browser",
                    "--allow-root",
                    f"--port={self.port}",
                    "--ServerApp.port_retries=0",
                    "--ip=127.0.0.1",
                    f"--ServerApp.base_url={BASE}",
                    f"--IdentityProvider.token={self.token}",
                    f"--ServerApp.root_dir={self.root}",
                    *self.enabling,
                    *self._options,
                ],
                env=self.environment(),
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )
        deadline = Deadline(180)
        while True:
            assert self.process.poll() is None, self.log.read_text()
            with contextlib.suppress(OSError):
                if self.ask("GET", "jobs")[0] == status:
                    return
            assert not deadline.passed, self.log.read_text()
            time.sleep(0.1)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)

    # -- as a page asks -----------------------------------------------------------------------

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        url: str | None = None,
    ) -> tuple[int, bytes]:
        """Make a request; give status and body."""
        request = urllib.request.Request(
            (url or self.url) + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}"} if headers is None else dict(headers),
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def get(self, path: str) -> Any:
        status, body = self.ask("GET", path)
        assert status == 200, (status, body)
        return json.loads(body)

    def numbers(self) -> dict[tuple[str, ...], float]:
        """Ask as Prometheus does; give the samples of ours, by name and the values of labels."""
        status, body = self.ask("GET", "metrics", url=self.base)
        assert status == 200, (status, body)
        return {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(body.decode())
            for sample in family.samples
            if sample.name.startswith("jaxtrain_")
        }

    @contextlib.contextmanager
    def page(self, **headers: str) -> Iterator[Page]:
        """Open the WebSocket."""
        page = Page(self, headers)
        try:
            yield page
        finally:
            page.socket.shutdown()


class Page:
    """A page's WebSocket."""

    def __init__(self, server: Server, headers: Mapping[str, str] | None = None) -> None:
        given = {"Authorization": f"token {server.token}", **(headers or {})}
        self.socket = websocket.WebSocket()
        self.socket.settimeout(30)
        try:
            self.socket.connect(
                server.url.replace("http", "ws") + "live",
                suppress_origin=True,
                header=[f"{name}: {value}" for name, value in given.items()],
            )
        except BaseException:
            self.socket.shutdown()
            raise

    def say(self, **message: Any) -> None:
        self.socket.send(json.dumps(message))

    def hear(self, kind: str, number: int | None = None, seconds: float = 20) -> dict[str, Any]:
        """Return the next message of a kind; others are passed over."""
        deadline = time.monotonic() + seconds
        while True:
            self.socket.settimeout(max(0.01, deadline - time.monotonic()))
            text = self.socket.recv()
            if not text:
                raise ConnectionError("the server has closed the connection")
            found: dict[str, Any] = json.loads(text)
            if found["kind"] == "error" and kind != "error":
                raise AssertionError(found)
            if found["kind"] == kind and number in (None, found["id"]):
                return found
