"""Interrupt a cell that submits, waits or attaches: real kernels, real jobs."""

import contextlib
import json
import queue
import re
import time
from pathlib import Path

import kernels
import pytest
from conftest import end_processes_of, warm_starts
from harness import eventually, pattern
from pace import Deadline, within
from procfs import processes_of

from jupyter_jax_trainer.messages import views as say

pytestmark = pytest.mark.filterwarnings("ignore")  # of the kernel's client, not of this package

LONG = (
    "%%jaxtrain {} -n 2 -o x\nimport time\nfrom pathlib import Path\nprint('waits here', flush=True)\n"
    "while not Path({!r}).exists(): time.sleep(0.05)\nprint('seen')\nx = 3\n"
)
COUNTDOWN_OF = "from jupyter_jax_trainer.views import follow\nfollow._COUNTDOWN = {}"
COUNTDOWN = pattern(say.INTERRUPT_AGAIN(seconds="SECONDS"), SECONDS="[1-3]")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    with kernels.running(home, tmp_path_factory.mktemp("work")) as kernel:
        yield kernel
    assert end_processes_of(home) == {}


def state(kernel, name):
    return json.loads((kernel.home / "jobs" / name / "state.json").read_text())["state"]


def processes_of_jobs(kernel):
    """The processes of all jobs, without the kernel and the warm start."""
    spare = warm_starts(kernel.home) | {kernel.manager.provisioner.process.pid}
    return {pid: command for pid, command in processes_of(kernel.home).items() if pid not in spare}


def all_gone(kernel):
    deadline = Deadline(3)
    while processes_of_jobs(kernel) and not deadline.passed:
        time.sleep(0.05)
    return processes_of_jobs(kernel) == {}


@pytest.mark.slow
def test_one_interrupt_detaches_and_another_kernel_follows_to_the_end(kernel, tmp_path):
    gate = tmp_path / "gate"
    cell = kernel.start(LONG.format("long", str(gate)))
    cell.until_text("waits here")
    pressed = time.monotonic()
    kernel.interrupt()
    cell.finish(8)
    took = time.monotonic() - pressed
    assert took > 2.5 and within(took, 4)
    notes = [m[0] for _, data in cell.cards() if (m := re.search(COUNTDOWN, data["text/plain"]))]
    left = [int(re.search("[1-3]", note)[0]) for note in dict.fromkeys(notes)]
    assert left[0] == 3 and left == sorted(left, reverse=True) and len(left) > 1, notes
    assert "detached" in cell.card["text/html"] and "Running" in cell.card["text/plain"]
    assert cell.reply["ename"] == "JobDetached"
    error = "\n".join(cell.outputs[-1]["traceback"])
    detached = say.DETACHED(name="long")
    assert error == f"{detached}\n{detached.hint}"
    assert state(kernel, "long") == "Running"

    with kernels.running(kernel.home, tmp_path) as other:
        attached = other.start("%jaxtrain attach long")
        attached.until_text("waits here")
        other.interrupt()  # here, too
        attached.finish(8)
        assert attached.reply["ename"] == "JobDetached" and state(kernel, "long") == "Running"

        attached = other.start("%jaxtrain attach long")
        attached.until_text("waits here")
        gate.touch()
        attached.finish(8)
        assert attached.reply["status"] == "ok"
        assert (
            attached.shown[-1].startswith("waits here\nseen\n")
            and "Succeeded" in attached.card["text/plain"]
        )
        assert other.value("x") == "3"


@pytest.mark.slow
def test_second_interrupt_cancels_and_leaves_no_process(kernel, tmp_path):
    cell = kernel.start(LONG.format("doomed", str(tmp_path / "never")))
    cell.until_text("waits here")
    assert len(processes_of_jobs(kernel)) >= 2
    kernel.interrupt()
    cell.until_text("interrupt again", 2)
    kernel.interrupt()
    cell.finish(6)
    assert cell.reply["ename"] == "JobFailed"
    assert "Job 'doomed' was cancelled" in cell.text and "failed" not in cell.text
    assert "cancelled by" not in cell.card["text/plain"]
    assert state(kernel, "doomed") == "Cancelled" and "Cancelled" in cell.card["text/plain"]
    assert any("cancelling" in data["text/html"] for _, data in cell.cards())
    assert all_gone(kernel)


@pytest.mark.slow
def test_an_interrupt_stops_a_cell_of_a_session_and_a_second_one_restarts_its_ranks(kernel):
    def sends(source):
        return kernel.start(f"%%jaxtrain -s lab -n 2\n{source}")

    def pids():
        cell = sends("import os, time\nprint('pid', os.getpid())")
        cell.finish(20)
        assert cell.reply["status"] == "ok", cell.text
        return set(re.findall(r"pid (\d+)", cell.text))

    ranks = pids()
    kept = sends("kept = 7\nprint('waits here', flush=True)\nwhile True: time.sleep(0.01)")
    kept.until_text("waits here")
    kernel.interrupt()
    kept.finish(10)
    assert kept.reply["ename"] == "JobFailed" and "was cancelled" in kept.text
    cell = sends("print('still', kept)")
    cell.finish(8)
    assert "still 7" in cell.text and pids() == ranks
    # This one goes on, whatever it hears.
    deaf = sends(
        "print('waits here', flush=True)\nwhile True:\n"
        "    try:\n        time.sleep(0.01)\n    except KeyboardInterrupt: pass"
    )
    deaf.until_text("waits here")
    kernel.interrupt()
    deaf.until_text(say.INTERRUPTING().partition("'")[0], 2)
    kernel.interrupt()
    deaf.finish(8)
    assert deaf.reply["ename"] == "JobFailed"
    assert any(say.RESTARTING() in data["text/html"] for _, data in deaf.cards())
    assert not pids() & ranks
    kernel.run("%jaxtrain cancel lab")


@pytest.mark.slow
def test_two_interrupts_at_once_cancel(kernel, tmp_path):
    cell = kernel.start(LONG.format("twice", str(tmp_path / "never")))
    cell.until_text("waits here")
    cancelling, deadline = False, Deadline(3)
    while not cancelling and not deadline.passed:
        for _ in range(3):  # Python takes two for one when it is busy as they come
            kernel.interrupt()
            time.sleep(0.05)
        with contextlib.suppress(AssertionError):
            cancelling = bool(cell.until_text(say.CANCELLING(), 1))
    cell.finish(6)
    assert state(kernel, "twice") == "Cancelled"
    assert all_gone(kernel)


def test_interrupt_of_a_job_that_ends_meanwhile_stops_run_all_and_keeps_its_results(
    kernel, tmp_path
):
    gate = tmp_path / "gate"
    kernel.run(COUNTDOWN_OF.format(60))
    cell = kernel.start(LONG.format("ends", str(gate)))
    cell.until_text("waits here")
    kernel.interrupt()
    gate.touch()
    cell.finish(20)
    kernel.run(COUNTDOWN_OF.format(3))
    assert cell.reply["ename"] == "JobDetached" and "has ended" in cell.text
    assert "Succeeded" in cell.card["text/plain"] and kernel.value("x") == "3"


# An interrupt at any moment of a submission: either there is no trace of the job, or it is a job
# like others that the cell knows of. The moments are reached by interrupting from within.
MOMENTS = {
    "while the bundle is written": ("jupyter_jax_trainer.bundle", "write_bundle", False),
    "before it has a name": ("jupyter_jax_trainer.jobdir.layout", "publish", True),
    "before the start": (
        "jupyter_jax_trainer.backends.local.submission",
        "LocalSubmission.start",
        True,
    ),
    "when it has its processes": ("jupyter_jax_trainer.jobdir.job", "Job.__init__", True),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_interrupt_during_submission(kernel, tmp_path, moment):
    module, name, starts = MOMENTS[moment]
    kernel.run(
        "import importlib, os, signal\n"
        f"owner = module = importlib.import_module({module!r})\n"
        f"*path, last = {name!r}.split('.')\n"
        "for part in path: owner = getattr(owner, part)\n"
        "original = getattr(owner, last)\n"
        "def interrupted(*args, **kwargs):\n"
        "    setattr(owner, last, original)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return original(*args, **kwargs)\n"
        "setattr(owner, last, interrupted)\n"
    )
    job = "at-" + re.sub("[^a-z]+", "-", moment)
    gate = tmp_path / "gate"
    cell = kernel.start(LONG.format(job, str(gate)))
    if not starts:
        cell.finish(5)
        assert cell.reply["ename"] == "KeyboardInterrupt"
        assert "Not started" in cell.card["text/plain"]
        assert not (kernel.home / "jobs" / job).exists()
        assert [p for p in Path(kernel.home, "jobs").iterdir() if p.name.startswith(".")] == []
        assert all_gone(kernel)
        return
    cell.until_text("interrupt again", 5)
    gate.touch()
    cell.finish(8)
    eventually(lambda: state(kernel, job) == "Succeeded")  # the countdown may end before it
    assert cell.reply["ename"] == "JobDetached"


def test_the_countdown_begins_once_the_job_is_submitted(kernel, tmp_path):
    kernel.run(
        f"{COUNTDOWN_OF.format(1)}\nimport os, signal, time\n"
        "from jupyter_jax_trainer.backends.local.submission import LocalSubmission\n"
        "original = LocalSubmission.start\n"
        "def slow(*args, **kwargs):\n"
        "    LocalSubmission.start = original\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(1.2)\n"
        "    return original(*args, **kwargs)\n"
        "LocalSubmission.start = slow\n"
    )
    cell = kernel.start(LONG.format("late", str(tmp_path / "gate")))
    cell.until_text("interrupt again")
    (tmp_path / "gate").touch()
    cell.finish(8)
    kernel.run(COUNTDOWN_OF.format(3))
    eventually(lambda: state(kernel, "late") == "Succeeded")


@pytest.mark.slow
def test_interrupts_at_random_moments_leave_nothing_unknown(kernel, tmp_path):
    """Whatever the moment: no process without a job, no job that nobody has named."""
    for number in range(8):
        name = f"random-{number}"
        cell = kernel.start(LONG.format(name, str(tmp_path / "never")))
        cell.until(lambda m: m["msg_type"] == "execute_input")  # an idle kernel ignores them
        time.sleep(0.03 * number)
        kernel.interrupt()
        time.sleep(0.1)
        kernel.interrupt()
        with contextlib.suppress(
            queue.Empty
        ):  # ipykernel drops a reply at whose sending it is interrupted
            cell.finish(20)
        assert cell.reply is None or cell.reply["status"] == "error"
        if (kernel.home / "jobs" / name).exists():
            assert name in cell.text
            if (
                cell.reply is None or cell.reply["ename"] == "JobDetached"
            ):  # it had not begun at the first one
                kernel.run(f"%jaxtrain cancel {name}")
            assert state(kernel, name) == "Cancelled", name
        assert all_gone(kernel), name
        assert list(Path(kernel.home, "jobs").glob(".*")) == []


def test_detach_is_not_waiting(kernel, tmp_path):
    cell = kernel.run(
        f"%%jaxtrain aside --detach\nimport time\nfrom pathlib import Path\n"
        f"while not Path({str(tmp_path / 'gate')!r}).exists(): time.sleep(0.05)\n"
    )
    assert "%jaxtrain cancel aside" in cell.text
    kernel.run("%jaxtrain cancel aside")
    assert state(kernel, "aside") == "Cancelled" and all_gone(kernel)
