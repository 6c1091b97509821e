"""Clusters that accept connections and say nothing."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path


class Silent:
    """A server that never answers.

    Attributes
    ----------
    asked
        The connections that were made so far.
    """

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.asked: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self.asked.append(self._socket.accept()[0])
            except OSError:
                return

    def kubeconfig(self, path: Path, namespace: str, *contexts: str) -> None:
        """Write a kubeconfig whose contexts all mean this server."""
        path.parent.mkdir(exist_ok=True)
        port = self._socket.getsockname()[1]
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": contexts[0],
                    "contexts": [
                        {
                            "name": name,
                            "context": {"cluster": "c", "user": "u", "namespace": namespace},
                        }
                        for name in contexts
                    ],
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                    "users": [{"name": "u", "user": {}}],
                }
            )
        )

    def close(self) -> None:
        """Hang up, if that is not done yet; whoever still waits is told so."""
        if self._socket.fileno() < 0:
            return
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for one in self.asked:
            one.close()
