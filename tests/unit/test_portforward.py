"""The end of a port-forward here: what goes through its WebSocket, both ways."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from webserver import Quiet, WebServer

from jupyter_jax_trainer.backends.kubernetes.api.client import Client

PORT = 4242
FIRST = [(channel, struct.pack("<H", PORT)) for channel in (0, 1)]  # as a node begins
SIZES = [1, 124, 125, 4000, 65534, 65535, 131072, 300_001]


class Node(Quiet):
    """A pod's port behind an API server; `serve` says what happens there."""

    serve: Callable[[Node], None]

    def do_GET(self) -> None:
        assert self.path.endswith(f"/pods/pod/portforward?ports={PORT}")
        self.upgrade()
        for channel, data in FIRST:
            self.say(channel, data)
        type(self).serve(self)

    def say(self, channel: int, data: bytes, kind: int = 2) -> None:
        whole = bytes([channel]) + data
        self.wfile.write(struct.pack(">BBQ", 0x80 | kind, 127, len(whole)) + whole)

    def hear(self) -> tuple[int, bytes, bytes]:
        """Return the kind, the key and the content of a message."""
        kind, size = self.rfile.read(2)
        assert kind & 0x80 and size & 0x80, "whole, and masked"
        size &= 0x7F
        if size > 125:
            shortest, length = {126: (126, 2), 127: (1 << 16, 8)}[size]
            size = int.from_bytes(self.rfile.read(length), "big")
            assert size >= shortest
        key = self.rfile.read(4)
        data = self.rfile.read(size)
        return kind & 0xF, key, bytes(byte ^ key[at % 4] for at, byte in enumerate(data))


@pytest.fixture
def forward(home: Path, tmp_path: Path, monkeypatch: Any) -> Iterator[Callable[..., Any]]:
    """Open a connection to a port at which something happens."""
    with ExitStack() as opened:

        def open_to(serve: Callable[[Node], None]) -> Any:
            server = WebServer(type("Port", (Node,), {"serve": serve}))
            opened.callback(server.close)
            found = {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "one",
                "clusters": [{"name": "one", "cluster": {"server": server.url}}],
                "users": [{"name": "one", "user": {"token": "t"}}],
                "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
            }
            (tmp_path / "config").write_text(json.dumps(found))
            monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
            return Client().forward("pod", PORT)

        yield open_to


@pytest.mark.parametrize("numpy", [True, False])
def test_what_is_sent_arrives_masked_in_messages_of_bounded_size(forward, monkeypatch, numpy):
    heard: list[tuple[int, bytes, bytes]] = []
    data = [bytes(at * 7 % 251 for at in range(size)) for size in SIZES]

    def serve(node: Node) -> None:
        while sum(len(content) - 1 for *_, content in heard) < sum(SIZES):
            heard.append(node.hear())
        node.say(0, b"all")

    if not numpy:
        monkeypatch.setitem(sys.modules, "numpy", None)
    with forward(serve) as end:
        for one in data:
            end.sendall(memoryview(bytearray(one)))
        assert end.recv(10) == b"all"
    assert all((kind, content[0]) == (2, 0) for kind, _, content in heard)
    assert b"".join(content[1:] for *_, content in heard) == b"".join(data)
    assert max(len(content) for *_, content in heard) <= (1 << 17) + 1
    assert len({key for _, key, _ in heard}) == len(heard), "each has a key of its own"


def test_what_comes_is_given_as_it_is_asked_for(forward):
    def serve(node: Node) -> None:
        node.say(0, b"abcdef")
        node.say(0, b"", kind=9)  # a ping
        node.say(0, b"ghi")

    with forward(serve) as end:
        assert [end.recv(4) for _ in range(4)] == [b"abcd", b"ef", b"ghi", b""]
        with pytest.raises(BrokenPipeError):
            end.sendall(b"x")


def test_a_node_that_cannot_connect_says_why(forward):
    def serve(node: Node) -> None:
        node.say(1, b"nobody listens\n")

    with pytest.raises(OSError, match=r"^nobody listens$"), forward(serve) as end:
        assert end.recv(1) == b""
        raise OSError("it has ended")


def test_who_says_nothing_is_not_waited_for(forward):
    with forward(lambda node: node.rfile.read(1)) as end:
        end.settimeout(0.05)
        with pytest.raises(TimeoutError):
            end.recv(1)
