"""The warm start is as good as the cold one, and its process does no harm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import warm_starts
from harness import (
    LONG_S,
    alive,
    eventually,
    keeper_and_supervisor,
    nothing_left,
    run,
    submit,
    wait_for,
)
from procfs import open_files

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.local import warm
from jupyter_jax_trainer.channel.sockets import socket_at

ENDLESS = "import time\nwhile True: time.sleep(0.05)\n"
IS_WARM = "import sys\nwarm = 'jupyter_jax_trainer.backends.local.warm' in sys.modules"


def is_warm(line: str = "") -> bool:
    job = run(IS_WARM, line=f"-o warm {line}")
    return bool(job.result("warm"))


def warm_process(home) -> int:
    (pid,) = eventually(lambda: warm_starts(home))
    return pid


@pytest.mark.slow
def test_jobs_are_forked_from_one_process_per_environment(home, monkeypatch):
    assert is_warm()
    pid = warm_process(home)
    assert is_warm()
    assert warm_process(home) == pid
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert is_warm()
    assert len(warm_starts(home)) == 2


@pytest.mark.slow
def test_a_notebook_that_has_imported_jax_shares_it(home, monkeypatch):
    for name in ("TF_CPP_MIN_LOG_LEVEL", "TPU_SKIP_MDS_QUERY"):
        monkeypatch.delenv(name, raising=False)
    assert is_warm()
    program = (
        "import os; before = set(os.environ); import jax, jax.numpy; jax.numpy.ones(1)\n"
        "print(*(f'{k}={v}' for k, v in os.environ.items() if k not in before))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=LONG_S
    ).stdout
    for item in printed.split():  # what jax leaves in the environment of its process
        monkeypatch.setenv(*item.split("=", 1))
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")  # as many notebooks do; ranks get it anyway
    assert is_warm()
    assert len(warm_starts(home)) == 1


@pytest.mark.slow
def test_it_can_be_turned_off_and_is_not_used_where_it_would_change_the_job(home, monkeypatch):
    monkeypatch.setenv("JAXTRAIN_WARM", "0")
    assert not is_warm()
    monkeypatch.delenv("JAXTRAIN_WARM")
    assert not is_warm("--env XLA_FLAGS=--xla_cpu_enable_fast_math=false")
    assert not is_warm("--env JAX_ENABLE_X64=1")
    assert not is_warm("--env OMP_NUM_THREADS=2")
    monkeypatch.setenv("JAX_DEBUG_NANS", "1")
    assert not is_warm()
    assert not warm_starts(home)


@pytest.mark.slow
def test_jobs_start_cold_in_the_store_that_is_used_without_settings(tmp_path):
    # Their supervisor runs without site-packages, and so without platformdirs.
    script = tmp_path / "train.py"
    script.write_text("print('works')")
    environment = {k: v for k, v in os.environ.items() if k != "JAXTRAIN_HOME"}
    environment |= {"XDG_DATA_HOME": str(tmp_path), "JAXTRAIN_WARM": "0"}
    command = [sys.executable, "-m", "jupyter_jax_trainer", "run", str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "works" in done.stdout, done.stderr
    assert [path.name[:5] for path in (tmp_path / "jaxtrain" / "jobs").iterdir()] == ["train"]


def test_it_ends_when_it_is_idle(home, monkeypatch):
    monkeypatch.setenv("JAXTRAIN_WARM_IDLE", "5")
    assert is_warm()
    pid = warm_process(home)
    eventually(lambda: not alive(pid))
    assert not list((home / "run").glob("warm-*[0-9a-f]"))  # its socket is gone, too
    assert is_warm()


@pytest.mark.slow
def test_a_job_goes_on_when_the_warm_process_is_killed_and_the_next_one_works(home):
    job = wait_for(submit(ENDLESS, line="-n 1"), "Running")
    pid = warm_process(home)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not alive(pid))

    assert is_warm()  # while the first job still runs: it holds nothing of the dead process
    assert warm_process(home) != pid
    assert job.state == "Running"
    job.cancel()
    nothing_left(job)


@pytest.mark.slow
def test_a_process_of_a_job_holds_nothing_but_its_own_files(home):
    for _ in range(2):  # the one that starts the warm process, and one that asks it
        job = wait_for(submit(ENDLESS), "Running")
        for pid in keeper_and_supervisor(job):
            foreign = [
                file
                for file in open_files(pid)
                if file.startswith("/")
                and not file.startswith((f"{job.directory}/", f"{home}/queue/", "/dev/"))
            ]
            assert not foreign
        job.cancel()


@pytest.mark.slow
def test_a_warm_process_that_hangs_is_passed_over_and_starts_nothing_later(home, monkeypatch):
    monkeypatch.setenv(timeouts.WARM.variable, "1")
    assert is_warm()
    pid = warm_process(home)
    os.kill(pid, signal.SIGSTOP)
    try:
        mark = home / "mark"
        job = run(f"with open({str(mark)!r}, 'a') as f: f.write('x')\n" + IS_WARM, line="-o warm")
        assert job.result("warm") is False
    finally:
        os.kill(pid, signal.SIGCONT)
    time.sleep(1)
    assert mark.read_text() == "x"
    nothing_left(job)


def test_a_submitter_that_dies_while_it_asks_does_not_leave_the_job_locked(home):
    import array
    import socket
    import struct

    from jupyter_jax_trainer.jobdir import layout

    assert is_warm()
    directory, lock = layout.create()
    where = warm.socket_path(home / "run", os.environ)
    with socket_at(where) as (connection, address):
        connection.connect(address)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [lock, lock]))]
        connection.sendmsg([struct.pack("!Q", 1000)], rights)
        connection.sendall(b"{")
    os.close(lock)
    eventually(lambda: not directory.is_live(), 5)
    assert is_warm()


def test_random_numbers_differ_between_jobs_and_ranks(home):
    cell = "import jax, random, numpy as np\nprint('drawn', np.random.random(), random.random())"
    drawn = set()
    for _ in range(2):
        job = run(cell)
        lines = [line.text for line in job.logs() if line.text.startswith("drawn")]
        assert len(lines) == 2
        drawn.update(number for line in lines for number in line.split()[1:])
    assert len(drawn) == 8


def test_a_job_sees_the_environment_and_directory_of_its_own_submission(
    home, tmp_path, monkeypatch
):
    cell = "import os, time\ngot = os.environ.get('COLOUR'), os.getcwd(), time.tzname[0]"
    assert run(cell, line="-o got").result("got")[0] is None
    monkeypatch.setenv("COLOUR", "green")
    monkeypatch.setenv("TZ", "XYZ-3")
    monkeypatch.chdir(tmp_path)
    assert run(cell, line="-o got").result("got") == ("green", str(tmp_path), "XYZ")
    monkeypatch.delenv("COLOUR")
    assert run(cell, line="-o got").result("got")[0] is None


# ---------------------------------------------------------------------------- both ways


def test_devices_are_as_many_as_asked_for(start):
    cell = "import jax\nn = jax.local_device_count(), jax.device_count(), jax.process_count()"
    job = run(cell, line="-n 2 --devices-per-node 3 -o n")
    assert job.result("n") == (3, 6, 2)


def test_the_environment_of_ranks(start, monkeypatch):
    for name in ("JPY_API_TOKEN", "JPY_SESSION_NAME", "JUPYTER_TOKEN", "JUPYTERHUB_API_TOKEN"):
        monkeypatch.setenv(name, "secret-one")
    monkeypatch.setenv("OF_THE_NOTEBOOK", "yes")
    cell = (
        "import os, subprocess\nseen = dict(os.environ)\n"
        "child = subprocess.run(['env'], capture_output=True, text=True).stdout"
    )
    job = run(cell, line="-o seen,child --env GIVEN=a=b --env OF_THE_NOTEBOOK=no -n 2")
    seen, child = job.result()["seen"], job.result()["child"]
    assert (seen["GIVEN"], seen["OF_THE_NOTEBOOK"]) == ("a=b", "no")
    assert (seen["JAX_PROCESS_ID"], seen["JAX_NUM_PROCESSES"]) == ("0", "2")
    assert "secret-one" not in seen.values() and "secret-one" not in child
    assert "GIVEN=a=b" in child
    assert "JAXTRAIN_CHANNEL_FD" not in seen
