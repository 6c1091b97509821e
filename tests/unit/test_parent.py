"""What process 1 of a pod tells its rank, which may take nothing for a while, and how that ended."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_jax_trainer.worker.pod import parent as parents
from jupyter_jax_trainer.worker.pod.parent import Parent
from jupyter_jax_trainer.worker.pod.podchannel import PodChannel
from jupyter_jax_trainer.worker.pod.relay import Relay
from jupyter_jax_trainer.worker.processes import memory_kills


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


# ---- for want of memory


@pytest.mark.parametrize(("children", "starved"), [(0, True), (0, False), (3, True), (3, False)])
def test_kills_for_memory_of_long_ago_are_not_the_ranks(tmp_path, monkeypatch, children, starved):
    """A child of the cell was killed for memory; later the rank is, for that or another reason."""
    monkeypatch.setattr(Relay, "listen", lambda _: None)
    kills, said = tmp_path / "memory.events", list[Any]()
    kills.write_text("oom_kill 5\n")
    monkeypatch.setattr(parents, "_KILLS", (str(kills),))
    monkeypatch.setattr(parents, "_RECENT", 0.05)
    monkeypatch.setattr(PodChannel, "send", lambda *_, **fields: said.append(fields))
    monkeypatch.setattr(os, "_exit", lambda status: said.append(status))
    found = Parent(b"k" * 64, 0)
    kills.write_text(f"oom_kill {5 + children}\n")
    looks = iter(range(6))  # nothing else wakes the loop
    monkeypatch.setattr(Relay, "tick", lambda _: next(looks, None) is None and found._start_anew())
    found._run()
    kills.write_text(f"oom_kill {5 + children + starved}\n")
    found._end(-signal.SIGKILL)
    assert said == [{"signal": signal.SIGKILL, "out_of_memory": starved}, 137]
    found._selector.close()
    for end in found._signals:
        end.close()


EVENTS = "low 0\nhigh 0\nmax 814\noom 3\noom_kill 2\noom_group_kill 1\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"


@pytest.mark.parametrize(
    ("events", "control", "count"),
    [
        (EVENTS, None, 2),
        (None, CONTROL, 4),
        (EVENTS, CONTROL, 2),
        (None, "oom_kill_disable 0\nunder_oom 0\n", 0),  # before Linux 4.13
        ("oom_kill many\n", CONTROL, 4),
        ("", None, 0),
        (None, None, 0),
    ],
)
def test_kills_for_memory_are_read_of_both_versions_of_cgroups(tmp_path, events, control, count):
    paths: list[Path] = []
    for name, text in (("memory.events", events), ("memory.oom_control", control)):
        paths.append(tmp_path / name)
        if text is not None:
            paths[-1].write_text(text)
    assert memory_kills(*map(str, paths)) == count
