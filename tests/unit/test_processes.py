"""Ending what is left of a job whose keeper and supervisor are both gone."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jupyter_jax_trainer.backends.local import processes
from jupyter_jax_trainer.backends.local.processes import end_strays

PARENT = """
import subprocess
# Nothing but its parent tells whose child this is.
child = subprocess.Popen(["sleep", "1000"], start_new_session=True, env={})
print(child.pid, flush=True)
child.wait()
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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
    while is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    left = is_alive(child)
    if left:
        os.kill(child, 9)
    assert not left


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
