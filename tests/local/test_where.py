"""Where each rank of a running job is, asked while it runs."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import answers, eventually, pattern, ranks_of, run, submit, wait_for, wait_for_text

from jupyter_jax_trainer import commands
from jupyter_jax_trainer.channel import sockets
from jupyter_jax_trainer.channel.places import grouped
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.messages import channel as say
from jupyter_jax_trainer.messages import jobs as say_of_jobs

pytestmark = pytest.mark.usefixtures("store")

STUCK = """import time
import jax
import numpy as np
from jax.experimental import multihost_utils

def step():
    return multihost_utils.process_allgather(np.ones(2))

print("begins")
if jax.process_index() == 1:
    time.sleep(600)
step()
"""


LINES = [8, 12, 8]  # the line of the magic is the first


@pytest.fixture
def stuck():
    """Three ranks, of which one never comes to the collective in which the others wait."""
    job = submit(STUCK, line="-n 3 --devices-per-node 1")
    try:
        wait_for(job, "Running")
        eventually(lambda: [one.line for one in job.where()] == LINES)
        yield job
    finally:
        job.cancel()


def test_ranks_are_found_while_they_wait_for_others(stuck, capsys):
    places = answers(stuck)
    assert [one.rank for one in places] == [0, 1, 2]
    assert all(one.cell == "Cell" for one in places)
    assert [one.call for one in places] == ["process_allgather", None, "process_allgather"]
    assert all(one.memory and one.memory > 1 << 20 for one in places)
    assert [group.ranks for group in grouped(places)] == [[1], [0, 2]]
    commands.run_command(["where", stuck.name], commands.Context(print=print))
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["RANKS", "WHERE", "FOR", "PROCESS", "MEMORY"]
    assert shown[1].startswith("1 ") and "line 12" in shown[1]
    assert shown[2].startswith("0, 2 ") and "line 8 in process_allgather" in shown[2]


def test_it_is_said_for_how_long(stuck):
    before = answers(stuck)[1].seconds
    assert before is not None
    time.sleep(1.5)
    after = answers(stuck)[1].seconds
    assert after is not None and 1.0 < after - before < 10


@pytest.mark.slow
def test_a_rank_that_reports_gets_on_though_its_line_is_the_same():
    job = submit(
        "import time\nfrom jupyter_jax_trainer import report\n"
        "while True:\n    time.sleep(0.1); report(loss=1)\n",
        line="-n 1",
    )
    wait_for(job, "Running")
    time.sleep(2.5)
    eventually(lambda: (seconds := job.where()[0].seconds) is not None and seconds < 1.5)
    job.cancel()


def test_a_frame_of_the_users_own_module_is_named(tmp_path, monkeypatch):
    (tmp_path / "own_steps.py").write_text("import time\n\ndef pause():\n    time.sleep(600)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_steps

    job = submit("own_steps.pause()", {"__name__": "__main__", "own_steps": own_steps}, "-n 1")
    wait_for(job, "Running")
    (place,) = eventually(lambda: [one for one in job.where() if one.frame])
    assert place.frame == "own_steps.py:4 in pause"
    assert (place.line, place.call) == (2, "pause")
    job.cancel()


@pytest.mark.slow
def test_a_rank_that_does_not_answer_is_named(stuck):
    pid = ranks_of(stuck)[2]
    os.kill(pid, signal.SIGSTOP)
    try:
        places = eventually(lambda: not (p := stuck.where())[2].answered and p)
        assert places[2].process == "stopped"
        assert [one.answered for one in places] == [True, True, False]
        assert places[2].memory
        assert grouped(places)[0].ranks == [2]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert eventually(lambda: stuck.where()[2].answered)


def test_who_asks_at_once_is_answered_at_once(stuck):
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda _: [one.line for one in stuck.where()], range(24)))
    assert found == [LINES] * 24


@pytest.mark.parametrize(
    "data",
    [b"\x00" * 70_000, b"{}\n", b'{"version": 9, "number": 1, "ask": "where"}\n', b"[" * 999],
)
def test_what_is_no_request_is_refused_and_does_no_harm(stuck, data):
    with sockets.socket_at(sockets.path_of(stuck.uid)) as (connection, address):
        connection.settimeout(10)
        connection.connect(address)
        connection.sendall(data)
        if not data.endswith(b"["):
            assert connection.recv(100) == b""
        assert [one.line for one in stuck.where()] == LINES


def test_more_connections_than_are_served_are_closed(stuck):
    found = []
    for _ in range(40):
        with sockets.socket_at(sockets.path_of(stuck.uid)) as (_, address):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(address)
            found.append(connection)
    time.sleep(0.5)
    for connection in found:
        connection.close()
    assert eventually(lambda: [one.line for one in stuck.where()] == LINES)


def test_a_job_that_does_not_run_says_so():
    job = run("print('done')", line="-n 1")
    words = say_of_jobs.HAS_ENDED(job=job.name, state=job.state)
    with pytest.raises(UsageError, match=re.escape(words)):
        job.where()
    assert not sockets.path_of(job.uid).exists()


def test_a_writer_that_can_not_be_reached_is_an_error_with_a_way_out():
    job = submit("import time\nprint('begins')\ntime.sleep(600)", line="-n 1")
    wait_for_text(job, "begins")
    sockets.path_of(job.uid).unlink()
    words = pattern(say.NOBODY_ANSWERS(job=job.name, error="ERROR"), ERROR=".+")
    with pytest.raises(BackendError, match=words) as refused:
        job.where()
    assert refused.value.hint
    job.cancel()
