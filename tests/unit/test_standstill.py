"""Whether a rank waits for others, and for how long they all have."""

from __future__ import annotations

import linecache
import subprocess
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


def test_ranks_that_meet_wait_in_vain_when_none_of_them_could_do_anything(monkeypatch):
    monkeypatch.setenv("JAXTRAIN_AGREE_TIMEOUT", "8")
    clock = [100.0]
    monkeypatch.setattr(stall.time, "monotonic", lambda: clock[0])
    watch = stall.MeetWatch()
    stands, slow = {"meets": True}, {"meets": False}

    def look(*others):
        clock[0] += 1.1
        assert watch.asks() and not watch.asks()
        watch.take(others)
        return watch.in_vain

    watch.begin()
    assert not watch.asks()
    assert [look(stands, stands) for _ in range(3)] == [False, False, True]
    for others in ([stands, slow], [stands, None], []):
        assert not look(*others)
        assert [look(stands) for _ in range(3)] == [False, False, True]
    watch.begin()
    assert not watch.in_vain


def test_a_process_whose_other_threads_sleep_is_told_from_one_that_has_something_to_do():
    code = (
        "import hashlib, threading, time\n"
        "from jupyter_jax_trainer.worker.standstill import others_sleep\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "time.sleep(0.05)\nprint(others_sleep())\n"
        "def compute():\n    while True: hashlib.sha256(bytes(1 << 22))\n"
        "threading.Thread(target=compute, daemon=True).start()\n"
        "time.sleep(0.05)\nprint(others_sleep())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout.split() == ["True", "False"]
