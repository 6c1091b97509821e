"""What pods answer may be anything: it is bounded before anybody shows or keeps it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from relays import KEY, Loopback, serving

from jupyter_jax_trainer.backends.kubernetes.follow.line import Line, Target, _listed
from jupyter_jax_trainer.worker.pod.wire import Message, Owner, Wire

PLACE = {"cell": "Cell", "cell_line": 3, "doing": "psum", "frame": None, "seconds": 1.5}
NOBODY = {"where": None, "process": None, "memory": None}


def read(**said: Any) -> dict[str, Any]:
    (found,) = _listed({"ranks": [{"rank": 1, **said}]})
    return dict(found)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"where": [], "process": 5, "memory": "1"},
        {"where": {}, "process": "x" * 40, "memory": -1},
        {"where": {**PLACE, "cell_line": "3"}, "process": {}, "memory": 10**400},
        *({"where": {**PLACE, "cell_line": line}} for line in (-1, True, 10**400, 2.5)),
        *(
            {"where": {**PLACE, "seconds": seconds}}
            for seconds in (-1, float("nan"), float("inf"), "1", 10**400)
        ),
        *(
            {"where": {**PLACE, name: "x" * 100_000}}
            for name in ("cell", "doing", "frame", "compiles")
        ),
        {"where": {**PLACE, "frame": {"deep": [[[]]]}}},
    ],
    ids=lambda said: json.dumps(said)[:40],
)
def test_what_is_odd_of_a_rank_is_left_out(said):
    assert read(**said) == {"rank": 1, **NOBODY}


def test_what_is_right_stays():
    kept = {**PLACE, "waits": False, "meets": False, "compiles": None}
    said = {"where": PLACE, "process": "sleeping", "memory": 1 << 30}
    assert read(**said) == {"rank": 1, **said, "where": kept}


@pytest.mark.parametrize("rank", [None, "1", True, -1, 1.0, 10**400, [1]])
def test_what_is_no_rank_is_none_of_the_job(rank):
    assert _listed({"ranks": [{"rank": rank}]}) == [{"rank": -1, **NOBODY}]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=10,
)
PLACES = st.dictionaries(st.sampled_from([*PLACE, "waits", "compiles"]), ANYTHING)


@given(
    st.lists(
        st.fixed_dictionaries(
            {}, optional={"rank": ANYTHING, "where": PLACES | ANYTHING, "process": ANYTHING}
        )
        | ANYTHING,
        max_size=4,
    )
    | ANYTHING
)
def test_whatever_is_said_a_page_can_show_it(ranks):
    for one in _listed({"ranks": ranks}):
        json.dumps(one, allow_nan=False)
        assert type(one["rank"]) is int and -1 <= one["rank"] < 1 << 16


# ---- from a pod that knows the key, and breaks the rules


def answers(head: str, body: bytes = b"") -> Callable[[socket.socket], None]:
    """Be process 1 of a pod that answers this; the text need not be JSON."""

    def greet(connection: socket.socket) -> None:
        wire = Wire(KEY.encode(), 0)
        connection.sendall(wire.unsent.take())
        while data := connection.recv(1 << 16):
            for _ in wire.receive(data):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(
                        "jupyter_jax_trainer.worker.pod.wire.json.dumps", lambda *_, **__: head
                    )
                    patch.setattr("jupyter_jax_trainer.worker.pod.wire._MAX_HEAD", 1 << 30)
                    wire.send(Message({}, body))
            connection.sendall(wire.unsent.take())

    return greet


@pytest.mark.parametrize(
    "head",
    [
        '{"number":1,"ranks":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"number":1,"ranks":[' + "0," * (1 << 20) + "0]}",
        '{"number":1,"ranks":[{"rank":' + "9" * 5000 + "}]}",
        '{"number":1,"ranks":[}',
        "[]",
    ],
    ids=["deep", "huge", "long number", "no JSON", "no object"],
)
def test_an_answer_that_breaks_the_rules_closes_the_line(head):
    line = Line(Loopback(), Owner("ab" * 16, 1))
    with serving(answers(head)) as port, pytest.raises(OSError):
        line.where(Target(pod="pod-0", port=port, key=KEY, addresses={}))
    assert line._connection is None


def test_an_answer_as_large_as_may_be_is_read_and_bounded():
    one = json.dumps({"rank": 1, "where": {**PLACE, "cell": "x" * 900_000}})
    line = Line(Loopback(), Owner("ab" * 16, 1))
    with serving(answers('{"number":1,"ranks":[' + one + "]}")) as port:
        found = line.where(Target(pod="pod-0", port=port, key=KEY, addresses={}))
        line.close()
    assert found == [{"rank": 1, **NOBODY}]
