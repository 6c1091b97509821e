"""Submit real jobs, wait for their ends, and look for what they left behind."""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pace import Deadline, within
from procfs import open_files

from jupyter_jax_trainer import api
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.channel.protocol import RankPlace
from jupyter_jax_trainer.errors import JobFailed
from jupyter_jax_trainer.jobdir.failure import Failure
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.options.spec import parse_cell_line
from jupyter_jax_trainer.states import ENDED

PROMISED_S = 5.0  # from a fault to its end in the notebook
LONG_S = 120.0  # for whatever has no bound of its own, on a busy machine

PSUM = """
import jax
from jax.experimental import multihost_utils
multihost_utils.sync_global_devices("test")
"""


def submit(cell: str, namespace: dict[str, Any] | None = None, line: str = "-n 2") -> Job:
    """Submit a cell as the magic does, without waiting for it."""
    spec = api.in_session(parse_cell_line(line))
    backend, plan = api.prepare(spec)
    capture = capture_cell(
        cell,
        {"__name__": "__main__"} if namespace is None else namespace,
        use=spec.use,
        out=spec.out,
        on_size=lambda total: backend.check_size(total, spec),
        ledger=api.ledger(backend),
    )
    backend.check_capture(capture, spec, plan)
    return api.submit(spec, backend, plan, capture, cell=cell)


def run(cell: str, namespace: dict[str, Any] | None = None, line: str = "-n 2") -> Job:
    """Submit a cell and wait for its success."""
    return submit(cell, namespace, line).wait(LONG_S)


def wait_failed(job: Job) -> Failure:
    """Wait until a job has failed, check that nothing is left of it, and give the failure."""
    with contextlib.suppress(JobFailed):
        job.wait(LONG_S)
    assert job.state == "Failed", f"{job.state}: {job.reason}"
    failure = job.failure
    assert failure is not None
    assert job.reason
    nothing_left(job)
    return failure


def fails(cell: str, namespace: dict[str, Any] | None = None, line: str = "-n 2") -> Failure:
    """Run a cell that fails soon after its start, and check that it is told in time."""
    job = submit(cell, namespace, line)
    failure = wait_failed(job)
    # A rank may fail before all ranks run, and so before the job counts as running.
    *_, (_, began), (_, ended) = job.history
    assert within(ended - began, PROMISED_S + (0 if job.started else LONG_S))
    return failure


def eventually(check: Callable[[], Any], seconds: float = LONG_S) -> Any:
    """Wait until `check` gives something true, and give that."""
    deadline = Deadline(seconds)
    while not (found := check()):
        assert not deadline.passed, f"not within {seconds:g} s"
        time.sleep(0.02)
    return found


def wait_for(job: Job, state: str) -> Job:
    """Wait until a job has come to a state."""
    eventually(lambda: job.state in (state, *ENDED))
    assert job.state == state, f"{job.state}: {job.reason}\n{text(job)}"
    return job


def text(job: Job, rank: int | None = None) -> str:
    """Return what the ranks printed."""
    return "\n".join(line.text for line in job.logs(rank))


def wait_for_text(job: Job, wanted: str, times: int = 1) -> str:
    """Wait until the ranks have printed a text at least `times` times in all."""
    eventually(lambda: text(job).count(wanted) >= times)
    return text(job)


def pattern(words: str, **parts: str) -> str:
    """Return the pattern of a message; parts of it, by the words that stand for them, are patterns."""
    found = re.escape(words)
    for word, part in parts.items():
        found = found.replace(word, part)
    return found


def continues(step: int, reached: int, most: int = 2) -> str:
    """Return what is said of a job's first restart once it has come to a step."""
    restart = say.RESTART_CONTINUES(number=1, most=most, step=step)
    return say.ATTEMPT_HAD_REACHED(restart=restart, reached=reached)


def cell_line(number: int) -> str:
    """Return what messages call a line of the cell."""
    return say.CELL_LINE(cell="cell", line=number)


def at_line(number: int) -> str:
    """Return where a rank is that is at a line of the cell."""
    return say.AT_LINE(line=cell_line(number))


def answers(job: Job) -> list[RankPlace]:
    """Return where the ranks are, once all of them say it."""
    return eventually(lambda: (found := job.where()) and all(p.answered for p in found) and found)


def ranks_of(job: Job) -> list[int]:
    """Return the process ids of the ranks, once all are known."""
    return eventually(
        lambda: (
            (pids := [rank.pid for rank in job.ranks if rank.pid])
            and len(pids) == job.spec.nodes
            and pids
        )
    )


def _status(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise LookupError(field)


def keeper_and_supervisor(job: Job) -> tuple[int, int]:
    """Find the two processes that hold a running job's lock: the parent is the keeper."""

    def holders() -> list[int]:
        return [pid for pid, files in _open_files() if str(JobDir(job.directory).lock) in files]

    first, second = eventually(lambda: len(found := holders()) == 2 and found)
    return (first, second) if _status(second, "PPid") == first else (second, first)


def _open_files() -> Iterator[tuple[int, set[str]]]:
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) == os.getpid():
            continue
        try:
            files = open_files(int(entry.name))
        except OSError:  # gone, or not ours
            continue
        yield int(entry.name), files


def processes_of_job(job: Job) -> dict[int, str]:
    """Find the living processes of a job, by their environment and by their open files.

    A process that was started from the cell has the job's id in its environment; one that was
    forked has at least the rank's log, or the lock, open.
    """
    found = {}
    uid = f"JAXTRAIN_JOB_UID={job.uid}".encode()
    inside = f"{job.directory}/"
    for pid, files in _open_files():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if uid in environment or any(file.startswith(inside) for file in files):
            found[pid] = command.decode(errors="replace")[:200]
    return found


def alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def nothing_left(job: Job, seconds: float = PROMISED_S) -> None:
    """Check that an ended job has no process and no lock any more."""
    directory = JobDir(job.directory)
    pids = [rank.pid for rank in job.ranks if rank.pid]
    deadline = Deadline(seconds)
    while True:
        left = {pid: "a rank" for pid in pids if alive(pid)} | processes_of_job(job)
        live = directory.is_live()
        if not left and not live:
            break
        assert not deadline.passed, f"left of {job.name}: {left}, locked: {live}"
        time.sleep(0.05)
    assert not list(directory.path.glob(".reserve*")) and not list(directory.path.glob("*.part"))


def run_in_kernel(source: str, namespace: dict[str, Any]) -> None:
    """Run a cell of a notebook as its kernel does: its text is known, and counted as run."""
    namespace["In"].append(source)
    file = f"<kernel {id(namespace)} {len(namespace['In'])}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), namespace)
