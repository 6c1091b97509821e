"""The warm process and requests that are none; it is asked as others may ask it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.local import warm


class Served:
    """A warm process's loop, in a thread; what it would fork is noted."""

    def __init__(self, where: Path) -> None:
        self.forked: list[object] = []
        self.where = where
        self._ready = threading.Event()
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def start(self) -> None:
        self.thread.start()
        assert self._ready.wait(5)

    def _serve(self) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.where))
            listener.listen(64)
            self._ready.set()
            warm._serve(listener)

    def ask(self, data: bytes, files: int) -> bytes:
        with contextlib.ExitStack() as stack:
            end = stack.enter_context(socket.socket(socket.AF_UNIX))
            end.settimeout(5)
            end.connect(str(self.where))
            given = [stack.enter_context(open(os.devnull)) for _ in range(files)]
            socket.send_fds(end, [data[:8]], [one.fileno() for one in given])
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                end.sendall(data[8:])
                end.shutdown(socket.SHUT_WR)
                return end.recv(2)
        return b""


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    """Serve all requests of these tests: none of them may end it."""
    with pytest.MonkeyPatch.context() as patch:
        one = Served(tmp_path_factory.mktemp("w") / "s")
        patch.setattr(warm, "_fork_job", lambda request, *_, warm: one.forked.append(request))
        patch.setenv(timeouts.WARM_IDLE.variable, "3")
        one.start()
        yield one
        one.thread.join(10)
        assert not one.thread.is_alive()  # its idle time is over


def request(value: object) -> bytes:
    text = json.dumps(value).encode()
    return len(text).to_bytes(8) + text


GOOD = {"path": "/p", "cwd": "/", "environment": {"A": "b"}}


@pytest.mark.parametrize(
    ("data", "files"),
    [
        (request(GOOD), 0),
        (request(GOOD), 1),
        (request(GOOD)[:20], 2),
        (b"\0\0", 2),
        ((1 << 60).to_bytes(8) + b"x", 2),
        (request([]), 2),
        (request({}), 2),
        (request({**GOOD, "environment": {"A": 1}}), 2),
        (request({**GOOD, "cwd": None}), 2),
        ((200_000).to_bytes(8) + b"[" * 200_000, 2),
        ((4).to_bytes(8) + b"\xff\xfe{}", 2),
    ],
)
def test_a_bad_request_does_not_end_the_warm_process(served, data, files):
    served.forked.clear()
    before = len(os.listdir("/proc/self/fd"))
    assert served.ask(data, files) == b""
    assert served.ask(request(GOOD), 2) == b"ok"
    for _ in range(100):
        if served.forked:
            break
        threading.Event().wait(0.02)
    assert served.forked == [GOOD]
    threading.Event().wait(0.05)
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # the connection of the last one at most
