"""Ending what is left of a job whose keeper and supervisor are both gone."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import alive, eventually

from jupyter_jax_trainer.backends.local import processes
from jupyter_jax_trainer.backends.local.processes import end_strays

PARENT = """
import subprocess
# Nothing but its parent tells whose child this is.
child = subprocess.Popen(["sleep", "1000"], start_new_session=True, env={})
print(child.pid, flush=True)
child.wait()
"""
WAIT = "__import__('signal').pause()\n"

KILLED_AT_THE_FIRST = """
import os, signal, subprocess, sys
from jupyter_jax_trainer.backends.local import processes
from jupyter_jax_trainer.worker.processes import end_descendants

way, uid, parent = sys.argv[1:]
kill = os.kill

def fatal(send):
    def send_and_die(target, number):
        send(target, number)
        if number == signal.SIGKILL:
            kill(os.getpid(), number)
    return send_and_die

environment = {**os.environ, "JAXTRAIN_JOB_UID": uid}
rank = subprocess.Popen(
    [sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, env=environment
)
print(rank.pid, rank.stdout.readline(), flush=True)
os.kill, signal.pidfd_send_signal = fatal(kill), fatal(signal.pidfd_send_signal)
end_descendants() if way == "descendants" else processes.end_strays(uid)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="[macos] finding strays needs /proc")
def test_children_that_only_their_parents_tell_of_go_with_them():
    uid = f"test-{os.getpid()}-{time.time_ns()}"
    rank = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAXTRAIN_JOB_UID": uid},
    )
    assert rank.stdout is not None
    child = int(rank.stdout.readline())
    end_strays(uid)
    rank.wait(10)
    rank.stdout.close()
    deadline = time.monotonic() + 5
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    left = alive(child)
    if left:
        os.kill(child, 9)
    assert not left


@pytest.mark.skipif(sys.platform != "linux", reason="[macos] finding strays needs /proc")
@pytest.mark.parametrize("way", ["descendants", "strays"])
def test_who_is_killed_while_it_ends_others_leaves_nothing_that_cannot_be_found(way):
    uid = f"test-{os.getpid()}-{time.time_ns()}"
    ending = subprocess.Popen(
        [sys.executable, "-c", KILLED_AT_THE_FIRST, way, uid, PARENT + WAIT],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert ending.stdout is not None
    rank, child = map(int, ending.stdout.read().split())
    assert ending.wait(10) == -9
    ending.stdout.close()
    try:
        assert alive(rank)
        eventually(lambda: not alive(child))
    finally:
        for pid in filter(alive, (rank, child)):
            os.kill(pid, 9)


@pytest.mark.skipif(sys.platform != "linux", reason="[macos] finding strays needs /proc")
@pytest.mark.parametrize("kernel", ["pidfd", "before 5.3"])
def test_a_process_that_got_the_id_of_a_rank_is_left_alone(monkeypatch, kernel):
    other = subprocess.Popen(["sleep", "1000"])
    seen = [[other.pid]]  # the rank had this id, and is gone when its environment is read again
    monkeypatch.setattr(processes, "_of_job", lambda uid: seen.pop() if seen else [])
    if kernel != "pidfd":
        monkeypatch.setattr(os, "pidfd_open", missing)
    try:
        end_strays("job")
        state = Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert not seen and state in "SR"
    finally:
        other.kill()
        other.wait()


def missing(*_: object) -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


@pytest.mark.skipif(sys.platform != "linux", reason="[macos] finding strays needs /proc")
def test_strays_are_ended_on_an_old_kernel(monkeypatch):
    monkeypatch.setattr(os, "pidfd_open", missing)
    test_children_that_only_their_parents_tell_of_go_with_them()
