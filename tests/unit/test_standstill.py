"""Whether a rank waits for others, and for how long they all have."""

from __future__ import annotations

import linecache
import sys

import pytest

from jupyter_jax_trainer.backends import stall
from jupyter_jax_trainer.worker import standstill


def run_held(source, names):
    """Run code whose text is known, as that of a cell is."""
    linecache.cache["<held>"] = (len(source), None, source.splitlines(True), "<held>")
    exec(compile(source, "<held>", "exec"), names)


def frame_of(error):
    """Return the frame of that code from which an error came."""
    trace = error.__traceback__
    while trace.tb_frame.f_code.co_filename != "<held>":
        trace = trace.tb_next
    return trace.tb_frame


def test_who_is_in_no_function_of_jax_waits_for_nobody():
    import jax  # noqa: F401

    found = []

    def write():
        found.append(standstill.waits_for_others(sys._getframe(1), idle=True))

    run_held("write()\n", {"write": write})
    assert found == [False]


@pytest.mark.parametrize("call", ["step(\n    wrong)", "own.step(wrong)"])
def test_a_compiled_function_is_known_by_the_line_that_calls_it(call):
    import jax

    compiled = jax.jit(lambda x: x)
    names = {"step": compiled, "own": type("Own", (), {"step": compiled}), "wrong": object()}
    with pytest.raises(TypeError) as raised:
        run_held(f"value = 1 + {call}\n", names)
    frame = frame_of(raised.value)
    assert standstill.waits_for_others(frame, idle=True)
    assert not standstill.waits_for_others(frame, idle=False)


def test_an_array_that_is_waited_for_is_known_by_the_line():
    import jax  # noqa: F401

    found = []

    class Array:
        def block_until_ready(self):
            found.append(standstill.waits_for_others(sys._getframe(1), idle=True))

    run_held("array.block_until_ready()\n", {"array": Array()})
    run_held("wait = array.block_until_ready\nwait()\n", {"array": Array()})
    assert found == [True, False]


def test_only_who_waits_all_the_time_has_waited(monkeypatch):
    monkeypatch.setenv("JAXTRAIN_COLLECTIVE_TIMEOUT", "8")
    clock = [100.0]
    monkeypatch.setattr(stall.time, "monotonic", lambda: clock[0])
    watch = stall.StallWatch()
    waits, works = {"waits": True}, {"waits": False}
    assert not watch.asks(0, 2) and not watch.asks(2, 2)
    assert watch.asks(1, 2) and not watch.asks(1, 2)
    assert watch.take([waits]) is None, "it may be about to end the cell"
    clock[0] += 2
    assert watch.asks(1, 2) and watch.take([waits]) == 2
    for others in ([waits, works], [waits, None], []):
        assert watch.take(others) is None
        clock[0] += 2
        assert watch.take([waits]) is None
        clock[0] += 1
        assert watch.take([waits]) == 1
