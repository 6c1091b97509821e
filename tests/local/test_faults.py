"""What goes wrong in a running job: the state, the reason, how soon, and that nothing is left.

Each row of docs/background/faults.md names its test here, or in the modules beside this one.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import (
    PROMISED_S,
    PSUM,
    alive,
    eventually,
    fails,
    keeper_and_supervisor,
    nothing_left,
    ranks_of,
    run,
    submit,
    text,
    wait_failed,
    wait_for,
    wait_for_text,
)
from pace import within

from jupyter_jax_trainer import api
from jupyter_jax_trainer.errors import JobFailed, JobNotFound
from jupyter_jax_trainer.jobdir.failure import CANCELLED, format_failure
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import jobs as say_of_jobs
from jupyter_jax_trainer.messages import local as say
from jupyter_jax_trainer.messages import worker as say_of_worker

ENDLESS = "import time\nprint('up', flush=True)\nwhile True: time.sleep(0.05)\n"


def by_rank(one: str, rank: int = 1, others: str = ENDLESS, before: str = "") -> str:
    """Make a cell in which one rank does something and the others do something else."""
    indent = {"one": one, "others": others}
    body = {
        key: "\n".join(f"    {line}" for line in code.splitlines()) for key, code in indent.items()
    }
    return (
        f"import jax, os, sys, signal, time\n{before}\n"
        f"if jax.process_index() == {rank}:\n{body['one']}\nelse:\n{body['others']}\n"
    )


# ---------------------------------------------------------------------------- ends of one rank


def test_an_exception_ends_the_job_with_its_traceback(start):
    cell = by_rank("loss = 0\nloss / 0  # here")
    failure = fails(cell)

    assert (failure.kind, failure.rank, failure.others) == ("error", 1, [0])
    assert failure.message == "ZeroDivisionError: division by zero (cell line 6)"
    told = format_failure(failure, "j")
    assert "    loss / 0  # here" in told
    assert "Cell, line 6" in told
    assert say_of_jobs.STOPPED_BECAUSE_OF_IT(ranks="Rank 0") in told
    assert "jupyter_jax_trainer" not in told and "site-packages" not in told


def test_a_job_fails_by_what_it_dispatched_last_though_nothing_waits_for_it(start):
    failure = fails(
        "import time\nimport jax, jax.numpy as jnp\n"
        "def fail(x):\n    time.sleep(0.5)\n    raise ValueError('too late')\n"
        "bad = jax.jit(lambda x: jax.pure_callback(fail, x, x))(jnp.ones(3))\n"
    )
    assert failure.kind == "error" and "too late" in failure.message


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        ("sys.exit(3)", "exit", say_of_worker.CALLED_EXIT(code=3)),
        ("os._exit(3)", "exit", say_of_jobs.EXITED_IN_CELL(code=3)),
        ("os._exit(0)", "exit", say_of_jobs.EXITED_IN_CELL(code=0)),
        ("os.abort()", "aborted", say_of_jobs.ABORTED()),
        ("os.kill(os.getpid(), signal.SIGKILL)", "killed", say_of_jobs.KILLED()),
        (
            "os.kill(os.getpid(), signal.SIGSEGV)",
            "crashed",
            say_of_jobs.ENDED_BY_SIGNAL(number=11, name="SIGSEGV"),
        ),
    ],
    ids=["sys.exit", "_exit-3", "_exit-0", "abort", "kill-9", "segv"],
)
@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_rank_that_ends_itself_is_named_with_how(start, rank, code, kind, said):
    failure = fails(by_rank(code, rank))
    assert (failure.kind, failure.rank, failure.others) == (kind, rank, [1 - rank])
    assert said in failure.message


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    "code",
    ["1 / 0", "os._exit(3)", "os.abort()", "os.kill(os.getpid(), signal.SIGKILL)"],
    ids=["raises", "_exit", "abort", "kill-9"],
)
def test_peers_inside_a_collective_are_never_named_first(start, rank, code):
    waits = "from jax.experimental import multihost_utils\nmultihost_utils.sync_global_devices('x')"
    cell = by_rank(f"time.sleep(0.3)\n{code}", rank, others=waits, before=PSUM)
    failure = fails(cell)
    assert failure.rank == rank, failure
    assert failure.others == [1 - rank]
    assert "Gloo" not in failure.message


def test_sys_exit_without_an_error_is_the_end_of_that_rank(store):
    job = run(by_rank("sys.exit()", others="x = 1"))
    assert job.state == "Succeeded"


@pytest.mark.slow
def test_a_rank_that_ends_late_does_not_fail_the_job(start):
    job = run(by_rank("time.sleep(8)", others="print('early')", before=PSUM))
    assert job.state == "Succeeded"
    assert [rank.exit for rank in job.ranks] == [0, 0]
    nothing_left(job)


class ComesLate:
    """Takes its time to arrive on rank 1."""

    def __reduce__(self):
        late = "__import__('os').environ['JAX_PROCESS_ID'] == '1' and __import__('time').sleep(0.5)"
        return eval, (late,)


def test_a_job_whose_ranks_come_and_go_at_different_times_has_run(store):
    job = run("late", {"__name__": "__main__", "late": ComesLate()})
    assert [state for state, _ in job.history] == ["Starting", "Running", "Succeeded"]


def test_a_rank_that_fails_while_others_wait_at_the_end(store):
    failure = fails(by_rank("time.sleep(0.5)\nraise KeyError('late')", others="pass"))
    assert (failure.rank, failure.others) == (1, [0])
    assert failure.message.startswith("KeyError: 'late'")


def test_an_exception_whose_text_fails_is_told_all_the_same(store):
    cell = "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd"
    assert fails(cell).message.startswith(f"Odd: {say_of_worker.NO_EXCEPTION_TEXT()}")


@pytest.mark.parametrize("stream", ["None", "open(os.devnull)", "closed"])
def test_a_cell_that_breaks_its_streams_is_told_all_the_same(store, stream):
    spoil = (
        "sys.stdout.close(); sys.stderr.close()"
        if stream == "closed"
        else (f"sys.stdout = sys.stderr = {stream}")
    )
    failure = fails(f"import os, sys\n{spoil}\nraise OverflowError('deep')")
    assert failure.message.startswith("OverflowError: deep")


# ---------------------------------------------------------------------------- the whole job


def test_a_cell_that_never_ends_is_cancelled(start):
    job = wait_for(submit(ENDLESS), "Running")
    began = time.monotonic()
    job.cancel()
    assert within(time.monotonic() - began, PROMISED_S)
    assert (job.state, job.reason) == ("Cancelled", CANCELLED)
    nothing_left(job)
    with pytest.raises(JobFailed, match="was cancelled"):
        job.wait()


def test_a_cell_that_does_not_let_itself_be_ended_is_cancelled(store):
    cell = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + ENDLESS
    job = submit(cell)
    wait_for_text(job, "up")
    began = time.monotonic()
    job.cancel()
    assert within(time.monotonic() - began, PROMISED_S)
    nothing_left(job)


@pytest.mark.slow
def test_a_cell_that_takes_longer_than_its_timeout_fails(store):
    job = submit(ENDLESS, line="-n 2 --timeout 6s")
    failure = wait_failed(job)
    assert failure.kind == "timeout"
    place = say_of_jobs.AT_LINE(line=say_of_jobs.CELL_LINE(cell="cell", line=""))
    where = say_of_jobs.RANKS_ARE_AT(ranks="0 and 1", place=place)
    assert failure.message.startswith(say.TIMED_OUT_AT(timeout=6, where=where))
    assert failure.rank is None
    assert within(job.ended - job.created, 6 + PROMISED_S + 10)  # and what the start took


def test_a_job_that_is_deleted_while_it_runs_is_gone(store):
    job = wait_for(submit(ENDLESS), "Running")
    pids = [*ranks_of(job), *keeper_and_supervisor(job)]
    job.delete()
    assert not job.directory.exists()
    eventually(lambda: not any(map(alive, pids)), PROMISED_S)
    with pytest.raises(JobNotFound):
        api.job(job.name)
    assert not list(store.glob(f"jobs/.{job.name}*"))


def test_a_directory_that_is_removed_by_hand_ends_the_job(store):
    job = wait_for(submit(ENDLESS), "Running")
    pids = [*ranks_of(job), *keeper_and_supervisor(job)]
    shutil.rmtree(job.directory, ignore_errors=True)  # what is written meanwhile is left
    eventually(lambda: not any(map(alive, pids)), PROMISED_S)
    shutil.rmtree(job.directory, ignore_errors=True)


def test_a_directory_that_is_removed_only_in_part_ends_the_job(store):
    job = wait_for(submit(ENDLESS), "Running")
    pids = [*ranks_of(job), *keeper_and_supervisor(job)]
    JobDir(job.directory).manifest.unlink()
    eventually(lambda: not any(map(alive, pids)), PROMISED_S)
    shutil.rmtree(job.directory)


# ---------------------------------------------------------------------------- supervisor, keeper


@pytest.mark.parametrize("who", ["supervisor", "keeper", "both"])
def test_a_supervisor_that_is_killed_takes_everything_with_it(start, who):
    cell = (
        "import subprocess\n"
        # Nothing but its parent tells whose this one is; and the other has lost its parent.
        "child = subprocess.Popen(['sleep', '1000'], start_new_session=True, env={})\n"
        "subprocess.run(['sh', '-c', 'setsid sleep 1001 & echo child $!'])\n"
        "print('child', child.pid, flush=True)\n" + ENDLESS
    )
    job = wait_for(submit(cell), "Running")
    children = eventually(
        lambda: len(found := [int(n) for n in re.findall(r"child (\d+)", text(job))]) == 4 and found
    )
    ranks = ranks_of(job)
    keeper, supervisor = keeper_and_supervisor(job)
    began = time.time()
    killed = {"supervisor": [supervisor], "keeper": [keeper], "both": [keeper, supervisor]}[who]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped, none notes the end of the other
        for pid in killed:
            os.kill(pid, number)

    failure = wait_failed(job)
    assert failure.kind == "supervisor"
    assert (
        failure.message
        == {
            "supervisor": say.SUPERVISOR_KILLED(number=9),
            "keeper": say.KEEPER_KILLED(),
            "both": say_of_jobs.PROCESS_GONE(),
        }[who]
    )
    assert within(job.ended - began, PROMISED_S)
    assert not any(map(alive, [*ranks, *children, keeper, supervisor]))


def test_a_supervisor_that_is_told_to_end_cancels_the_job(store):
    job = wait_for(submit(ENDLESS), "Running")
    os.kill(keeper_and_supervisor(job)[1], signal.SIGTERM)
    eventually(lambda: not job.active, PROMISED_S)
    assert (job.state, job.reason) == ("Cancelled", say.SIGNALLED(signal="SIGTERM"))
    nothing_left(job)


GRANDCHILD = (
    "import subprocess\n"
    "child = subprocess.Popen(['sleep', '1000'], start_new_session=True, "
    "stdout=subprocess.DEVNULL)\n"
    # One that has lost its parent, too.
    "subprocess.run(['sh', '-c', 'setsid sleep 1003 & echo orphan $!'], timeout=10, "
    "stdout=open('/proc/self/fd/1', 'ab'))\n"
    "print('child', child.pid, flush=True)\n"
)


@pytest.mark.parametrize("how", ["success", "failure", "cancel"])
def test_grandchildren_are_gone_at_the_end(start, how):
    ends = {"success": "pass\n", "failure": "1 / 0\n", "cancel": ENDLESS}
    job = submit(GRANDCHILD + ends[how])
    if how == "cancel":
        wait_for_text(job, "up")
        job.cancel()
    eventually(lambda: not job.active)
    assert job.state == {"success": "Succeeded", "failure": "Failed", "cancel": "Cancelled"}[how]
    found = [int(n) for n in re.findall(r"(?:child|orphan) (\d+)", text(job))]
    assert len(found) >= 2
    assert not any(map(alive, found))
    nothing_left(job)


# ---------------------------------------------------------------------------- the rendezvous


LATE = "import os, time\nif os.environ.get('JAX_PROCESS_ID') == '1':\n    time.sleep(1000)\n"


@pytest.mark.slow
def test_a_rank_that_never_arrives_is_named(store, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(LATE)
    line = f"-n 2 --env PYTHONPATH={tmp_path} --env JAXTRAIN_RENDEZVOUS_TIMEOUT=8"
    job = submit("x = 1", line=line)
    failure = wait_failed(job)
    assert failure.kind == "rendezvous"
    assert failure.message == say.NEVER_ARRIVED(ranks="rank 1", limit="8 s", variable="")
    assert "JAXTRAIN_RENDEZVOUS_TIMEOUT" in failure.hint
    assert within(job.ended - job.created, 8 + PROMISED_S + 10)  # and what the start took


def test_a_rank_that_dies_before_the_rendezvous_is_named(store, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(LATE.replace("time.sleep(1000)", "os._exit(7)"))
    failure = wait_failed(submit("x = 1", line=f"-n 2 --env PYTHONPATH={tmp_path}"))
    assert (failure.kind, failure.rank) == ("exit", 1)
    assert failure.message == say_of_jobs.EXITED_BEFORE_JOINING(code=7)


def test_a_port_that_is_taken_is_said(store):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        job = submit("x = 1", line=f"-n 2 --env JAX_COORDINATOR_PORT={port}")
        failure = wait_failed(job)
    assert (failure.kind, failure.rank) == ("start", 0)
    assert failure.message == say_of_worker.PORT_TAKEN(port=port)


def test_a_cell_may_call_initialize_itself(start):
    job = run("import jax\njax.distributed.initialize()\nn = jax.process_count()", line="-n 2 -o n")
    assert job.result("n") == 2
    assert say_of_worker.ALREADY_INITIALIZED() in text(job, 0)


# ---------------------------------------------------------------------------- the kernel


SUBMITTER = """
import os, signal, sys
sys.path[:0] = {path!r}
from harness import submit
from jupyter_jax_trainer import api, bundle; from jupyter_jax_trainer.jobdir import layout as jobdir
from jupyter_jax_trainer.backends.local import submission, warm

def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

where = {where!r}
if where == "bundle":
    bundle.write_bundle = die
elif where == "publish":
    jobdir.publish = die
elif where == "start":
    submission.LocalSubmission.start = die
elif where == "asked":
    warm.start = submission.LocalSubmission._start_cold = die
job = submit({cell!r}, line={line!r})
print("submitted", flush=True)
job.wait()
"""


def kernel(where: str, cell: str, line: str) -> subprocess.Popen:
    """Start a process that submits a job, as a kernel does, and may be killed on the way."""
    path = [str(Path(__file__).parents[1]), str(Path(api.__file__).parents[1])]
    program = SUBMITTER.format(where=where, cell=cell, line=line, path=path)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("where", ["bundle", "publish", "start", "asked"])
def test_a_kernel_that_is_killed_while_it_submits_leaves_nothing(store, where):
    name = f"cut-{where}"
    with kernel(where, "x = 1", f"{name} -n 2") as process:
        assert process.wait(60) == -signal.SIGKILL
    jobs = store / "jobs"
    if where in ("start", "asked"):
        job = api.job(name)
        assert job.state == "Failed"
        assert job.reason == (
            say_of_jobs.SUBMISSION_CUT_OFF() if where == "start" else say_of_jobs.PROCESS_GONE()
        )
        nothing_left(job)
    else:
        with pytest.raises(JobNotFound):
            api.job(name)
    for hidden in jobs.glob(".new-*"):
        os.utime(hidden, (0, 0))  # as if a minute had gone by

    job = run("x = 1", line=f"{name} -n 2")
    assert job.name == (name if where != "asked" else f"{name}-2")
    assert not list(jobs.glob(".*"))


def test_a_job_outlives_the_kernel_that_waits_for_it(start, store, tmp_path):
    go = tmp_path / "go"
    cell = (
        f"import os, time\nprint('up', flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.05)\nx = 41 + 1"
    )
    name = f"outlives-{start}"
    with kernel("nowhere", cell, f"{name} -n 2 -o x") as process:
        assert process.stdout.readline() == "submitted\n"
        job = api.job(name)
        eventually(lambda: job.state == "Running")  # both ranks are at the cell's code
        process.kill()
    assert job.state == "Running"
    go.touch()
    assert job.result("x") == 42
    nothing_left(job)


def test_jax_may_be_in_use_in_the_notebook_already(start):
    import jax.numpy as jnp

    weights = jnp.arange(4.0) * 2
    job = run(
        "import jax\ntotal = float(weights.sum()) + jax.process_count()",
        {"weights": weights},
        line="-n 2 -o total",
    )
    assert job.result("total") == 14.0
