"""The socket of a job's writer is for its own user: another one can neither ask nor answer."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from policy import skip_or_fail

from jupyter_jax_trainer.channel import asking
from jupyter_jax_trainer.channel.listener import Asked, Listener
from jupyter_jax_trainer.channel.sockets import path_of
from jupyter_jax_trainer.errors import BackendError
from jupyter_jax_trainer.messages import channel as say

UID = "0123456789abcdef"
NOBODY = 65534
ASKED = json.dumps({"version": 1, "number": 1, "ask": "where"}).encode() + b"\n"
BARRED, CLOSED, ANSWERED = 1, 2, 3  # exit codes of the other user's process


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a store to whose door another user finds the way."""
    if os.getuid():
        skip_or_fail("root", "only root can be another user for a moment")
    root = Path(tempfile.mkdtemp(dir="/tmp"))
    root.chmod(0o755)
    monkeypatch.setenv("JAXTRAIN_HOME", str(root / "home"))
    yield root / "home"
    shutil.rmtree(root)


class Writer:
    """A writer of a job that listens."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.selector = selectors.DefaultSelector()
        self.listener = Listener(UID, self.selector, self.asked.append)

    def serve(self, pid: int) -> int:
        """Serve while another process asks; return its exit code."""
        while (found := os.waitpid(pid, os.WNOHANG)) == (0, 0):
            for key, _ in self.selector.select(0.05):
                key.data()
            for one in self.asked:
                one.answer()
        return os.waitstatus_to_exitcode(found[1])


@pytest.fixture
def writer(store: Path) -> Iterator[Writer]:
    found = Writer()
    yield found
    found.listener.close()
    found.selector.close()


def start_as(user: int, do: Callable[[], int]) -> int:
    """Start a process of another user; return its id."""
    pid = os.fork()
    if pid:
        return pid
    status = 99
    try:
        signal.alarm(20)
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        status = do()
    finally:
        os._exit(status)


def ask() -> int:
    """Ask the writer, without the checks of our own client."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(path_of(UID)))
            connection.sendall(ASKED)
            return ANSWERED if connection.recv(100) else CLOSED
        except PermissionError:
            return BARRED
        except ConnectionError:
            return CLOSED


def test_another_user_does_not_come_to_the_socket(writer):
    folder = path_of(UID).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path_of(UID).stat().st_mode) == 0o600
    assert writer.serve(start_as(NOBODY, ask)) == BARRED
    assert writer.serve(start_as(os.getuid(), ask)) == ANSWERED


@pytest.mark.parametrize(("user", "outcome"), [(NOBODY, CLOSED), (0, ANSWERED)])
def test_another_user_who_comes_to_it_is_not_served(store, writer, user, outcome):
    """Somebody has opened the folder."""
    for path in (store, store / "run"):
        path.chmod(0o755)
    path_of(UID).chmod(0o777)
    assert writer.serve(start_as(user, ask)) == outcome
    assert len(writer.asked) == (outcome == ANSWERED)


def test_another_user_who_listens_in_its_place_is_not_asked(store):
    path = path_of(UID)
    path.parent.mkdir(parents=True)
    path.parent.chmod(0o777)
    ready, listens = os.pipe()

    def listen() -> int:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            server.listen()
            os.write(listens, b"x")
            connection, _ = server.accept()
            return ANSWERED if connection.recv(100) else CLOSED

    pid = start_as(NOBODY, listen)
    os.read(ready, 1)
    with pytest.raises(BackendError) as refused:
        asking.where(UID, "fit")
    assert say.ANOTHER_USER() in str(refused.value)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == CLOSED, "it has heard nothing"
    os.close(ready)
    os.close(listens)
