"""What process 1 of a pod tells its rank, which may take nothing for a while."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from jupyter_jax_trainer.worker.pod.parent import Parent
from jupyter_jax_trainer.worker.pod.relay import Relay


class Rank:
    """The rank's end of its connection to process 1."""

    def __init__(self, parent: Parent) -> None:
        self.parent = parent
        ours, self.end = socket.socketpair()
        ours.setblocking(False)
        self.end.settimeout(10)
        parent._connection = ours
        parent._selector.register(ours, 1, parent._serve)

    def hear(self, last: bytes) -> list[bytes]:
        """Take all lines up to one, while the loop of process 1 turns."""
        data = b""
        while not data.endswith(last):
            for key, events in self.parent._selector.select(0):
                if events:
                    key.data()
            data += self.end.recv(1 << 16)
        return data.splitlines(keepends=True)


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Parent]:
    monkeypatch.setattr(Relay, "listen", lambda _: None)
    found = Parent(b"k" * 64, 0)
    yield found
    if found._connection is not None:
        found._connection.close()
    found._selector.close()
    for end in found._signals:
        end.close()


def test_what_a_busy_rank_is_told_waits_and_questions_are_left_out(parent):
    rank = Rank(parent)
    told = [b'{"kind":"cell","cell":%d,"name":"%s"}\n' % (at, b"x" * 900) for at in range(1000)]
    for line in told:
        parent._ask()
        parent._tell(line)
    heard = rank.hear(told[-1])
    assert [line for line in heard if b"where" not in line] == told
    assert len(heard) < 2 * len(told)
    parent._ask()
    parent._tell(told[0])
    assert rank.hear(told[0]) == [b'{"kind":"where"}\n', told[0]], "it is asked again"
    rank.end.close()


def test_questions_alone_fill_nothing(parent):
    rank = Rank(parent)
    for _ in range(5000):
        parent._ask()
    parent._tell(b"interrupt\n")
    assert rank.hear(b"interrupt\n")[-1] == b"interrupt\n"
    rank.end.close()


def test_what_waits_for_a_rank_is_bounded_and_the_rest_is_refused(parent):
    rank = Rank(parent)
    with pytest.raises(OSError):
        for _ in range(100):
            parent._tell(b"x" * 100_000 + b"\n")
    assert len(parent._unsent) < 2 << 20
    rank.end.close()


def test_where_there_is_no_rank_that_is_an_error(parent):
    with pytest.raises(OSError):
        parent._tell(b"cell\n")
    rank = Rank(parent)
    rank.end.close()
    parent._serve()
    with pytest.raises(OSError):
        parent._tell(b"cell\n")
    parent._ask()
