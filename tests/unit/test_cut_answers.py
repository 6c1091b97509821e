"""Connections that are cut at any byte, of a question or its answer: what is asked is done once."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from harness import eventually
from hypothesis import given, settings
from hypothesis import strategies as st
from relays import KEY, Relays

from jupyter_jax_trainer.backends.kubernetes.follow.line import Line
from jupyter_jax_trainer.worker.pod.cells import Cells
from jupyter_jax_trainer.worker.pod.restart import Restart
from jupyter_jax_trainer.worker.pod.wire import Owner

RANKS = 2
MINE = Owner("ab" * 16, 1)
_ids = itertools.count(1)


class Cutting:
    """A cluster that cuts its connections to pods, the first ones after so many bytes each.

    Parameters
    ----------
    cuts
        Whether it counts what comes from the pod, and after how many bytes it is cut.
    """

    def __init__(self, cuts: list[tuple[bool, int]]) -> None:
        self._cuts = cuts[:]

    @contextmanager
    def forward(self, _pod: str, port: int) -> Iterator[_End]:
        comes, left = self._cuts.pop(0) if self._cuts else (False, None)
        with socket.create_connection(("127.0.0.1", port)) as end:
            yield _End(end, None if comes else left, left if comes else None)


class _End:
    def __init__(self, end: socket.socket, to_send: int | None, to_come: int | None) -> None:
        self._end, self._to_send, self._to_come = end, to_send, to_come
        self.settimeout = end.settimeout

    def sendall(self, data: bytes) -> None:
        if self._to_send is not None and len(data) > self._to_send:
            self._end.sendall(bytes(data)[: self._to_send])
            self._cut()
        self._end.sendall(data)
        if self._to_send is not None:
            self._to_send -= len(data)

    def recv(self, size: int) -> bytes:
        if self._to_come is None:
            return self._end.recv(size)
        if not self._to_come:
            self._end.recv(1)  # the pod has answered, and takes it to have arrived
            self._cut()
        data = self._end.recv(min(size, self._to_come))
        self._to_come -= len(data)
        return data

    def _cut(self) -> None:
        self._end.close()
        raise ConnectionResetError("cut")


class Job(Relays):
    """The pods of a session, whose ranks only note what they are told."""

    def __init__(self) -> None:
        self.heard: list[list[dict[str, Any]]] = [[] for _ in range(RANKS)]
        super().__init__(RANKS)

    def anew(self) -> Job:
        """Forget what ranks have heard."""
        for heard in self.heard:
            heard.clear()
        return self

    def _relay(self, rank: int) -> Any:
        found, heard = super()._relay(rank), self.heard[rank]
        key = KEY.encode()

        def tell(line: bytes) -> None:
            heard.append(json.loads(line))

        def note(kind: str) -> Callable[[], None]:
            return lambda: heard.append({"kind": kind})

        found.tell = tell
        found.restart = Restart(key, rank, self.selector, note("stopped"), note("started"))
        found.cells = Cells(
            key, rank, 0.0, self.selector, tell, lambda _: None, lambda _: "/bundle"
        )
        return found


@pytest.fixture(scope="module")
def pods() -> Iterator[Job]:
    with Job() as found:
        yield found


def until_done(cuts: list[tuple[bool, int]], *asks: Callable[[Line], object]) -> None:
    """Ask one thing after another through a line that is cut, each as often as it takes."""
    line = Line(Cutting(cuts), MINE)
    for ask in asks:
        for tries in itertools.count():
            try:
                ask(line)
                break
            except OSError:
                assert tries < 50
    line.close()


# A connection's proofs take some 200 bytes, a question and its answer some more.
CUTS = st.lists(st.tuples(st.booleans(), st.integers(0, 400)), max_size=4)
QUICK = settings(max_examples=60, deadline=None)


@QUICK
@given(CUTS)
def test_ranks_are_started_anew_once(pods, cuts):
    job = pods.anew()
    known = f"restart-{next(_ids)}"
    until_done(cuts, lambda line: line.restart(job.target, known))
    eventually(lambda: job.heard[0][-1:] == [{"kind": "started"}])  # once it has answered
    kinds = [[one["kind"] for one in heard] for heard in job.heard]
    assert kinds == [["stopped", "started"]] * RANKS


@QUICK
@given(CUTS)
def test_ranks_hear_all_that_they_are_told_in_order(pods, cuts):
    """What they hear twice they leave out, by its order: `PodChannel` does so."""
    job = pods.anew()
    told = [{"kind": "cell", "order": 1, "parcel": "0"}, {"kind": "interrupt", "order": 2}]
    to = {0: "a", 1: "b"}
    until_done(
        cuts, *(partial(Line.tell, target=job.target, to=to, told=one, body=b"") for one in told)
    )
    for heard in job.heard:
        orders = [one["order"] for one in heard]
        assert orders == sorted(orders) and {*orders} == {1, 2}


@QUICK
@given(CUTS)
def test_ranks_are_profiled_under_one_name(pods, cuts):
    """Asked for twice, a profile is taken once: `Profiler` knows its name."""
    job = pods.anew()
    name = str(next(_ids))
    until_done(cuts, lambda line: line.profile(job.target, name, 1.0))
    for heard in job.heard:
        assert heard and all(one == {**one, "kind": "profile", "name": name} for one in heard)
        assert len(heard) <= 2 * len(cuts) + 1
