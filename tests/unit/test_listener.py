"""Requests to the writer of a job, and the open files that come with them."""

from __future__ import annotations

import json
import os
import selectors
import socket
from pathlib import Path

import pytest

from jupyter_jax_trainer.channel import protocol
from jupyter_jax_trainer.channel.listener import Asked, Listener
from jupyter_jax_trainer.channel.sockets import path_of, socket_at

UID = "0123456789abcdef"
RUN = {"version": 1, "number": 3, "ask": "run", "cell": "lab-cell-1"}


class Writer:
    """A writer that listens, and a client that is connected to it."""

    def __init__(self, connection: socket.socket, address: str) -> None:
        self.selector = selectors.DefaultSelector()
        self.asked: list[Asked] = []
        self.listener = Listener(UID, self.selector, self.asked.append)
        connection.settimeout(10)
        connection.connect(address)
        self.connection = connection

    def send(self, request: object, *files: int) -> None:
        socket.send_fds(self.connection, [json.dumps(request).encode() + b"\n"], files)
        self.serve()

    def serve(self) -> None:
        while found := self.selector.select(0.05):
            for key, _ in found:
                key.data()


@pytest.fixture
def writer(home):
    (home / "run").mkdir(mode=0o700)
    with socket_at(path_of(UID)) as (connection, address):
        found = Writer(connection, address)
        yield found
        found.listener.close()


def times_open(path: Path) -> int:
    """Count how often this process has a file open; other tests leave files that close meanwhile."""
    links = list(Path("/proc/self/fd").iterdir())
    return sum(link.exists() and link.samefile(path) for link in links)


def test_an_open_file_comes_with_a_request_and_the_answer_may_refuse(writer, tmp_path):
    with (tmp_path / "lock").open("w") as file:
        writer.send(RUN, file.fileno())
        (asked,) = writer.asked
        assert asked.request == RUN
        came = asked.take_file()
        assert came is not None and os.path.samestat(os.fstat(came), os.fstat(file.fileno()))
        assert not os.get_inheritable(came)
        os.close(came)
        assert asked.take_file() is None
    asked.answer(refused="not now")
    assert json.loads(writer.connection.recv(1000)) == {
        "version": 1,
        "number": 3,
        "answer": [],
        "refused": "not now",
    }


def test_files_that_nobody_takes_are_closed_with_the_connection(writer, tmp_path):
    lock = tmp_path / "lock"
    with lock.open("w") as file:
        writer.serve()
        for _ in range(3):
            writer.send({**RUN, "ask": "where"}, file.fileno())
        assert times_open(lock) == 4
        writer.send({**RUN, "ask": "where"}, file.fileno(), file.fileno())  # more than there may be
        assert writer.connection.recv(1) == b""
        assert times_open(lock) == 1


@pytest.mark.parametrize("cell", [None, "", 5, "../lab", "Lab", "a" * 64])
def test_a_cell_has_the_name_of_a_job(cell):
    assert protocol.read_request(json.dumps({**RUN, "cell": cell}).encode()) is None
