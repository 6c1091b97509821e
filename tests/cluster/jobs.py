"""Submit jobs to the cluster as a notebook does, and look at their followers."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import harness
from pace import Deadline
from procfs import open_files, processes_of

from cluster.kubernetes_cluster import Namespace
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes import SECTIONS
from jupyter_jax_trainer.jobdir.failure import Failure
from jupyter_jax_trainer.jobdir.job import Job

FOLLOWER = "kubernetes.follow.follower"  # in its command line
PATIENCE = 180.0  # seconds for a job on a busy machine
SLIM = "-r jax-cpu-slim"  # the option for jobs whose image has JAX, optax and Orbax alone
CAUSES = {cause.id: cause for causes in SECTIONS.values() for cause in causes}


def submit(cell: str, place: str, line: str = "", namespace: dict[str, Any] | None = None) -> Job:
    """Submit a cell to the cluster, without waiting for it."""
    return harness.submit(cell, namespace, f"{place} {line}")


def run(cell: str, place: str, line: str = "", namespace: dict[str, Any] | None = None) -> Job:
    """Submit a cell and wait for its success."""
    return submit(cell, place, line, namespace).wait(PATIENCE)


def fails(cell: str, place: str, line: str = "") -> tuple[Job, Failure]:
    """Submit a cell that fails, and give how."""
    job = submit(cell, place, line)
    return job, failure_of(job)


def failure_of(job: Job) -> Failure:
    """Wait for the end of a job that fails, and give how."""
    with contextlib.suppress(harness.JobFailed):
        job.wait(PATIENCE)
    assert job.state == "Failed", f"{job.state}: {job.reason}\n{harness.text(job)}"
    assert job.failure is not None
    return job.failure


def tell(namespace: Namespace, job: Job, rank: int | None = None) -> None:
    """Let the ranks of a job go on that wait for /tmp/go, or one of them."""
    pods = namespace.pods(job.name)
    for pod in pods if rank is None else [pods[rank]]:
        namespace("exec", pod["metadata"]["name"], "--", "touch", "/tmp/go")


def followers(store: Path) -> list[int]:
    """Return the pids of the followers of a job store that are alive."""
    found = []
    for lock in (store / "followers").glob("*/lock"):
        with contextlib.suppress(ValueError, OSError):
            pid = int(lock.read_text())
            if str(lock) in open_files(pid):
                found.append(pid)
    return found


def stop_followers(store: Path) -> None:
    """Kill the followers of a job store, also one that has only just been started."""

    def running() -> list[int]:
        began = [pid for pid, command in processes_of(store).items() if FOLLOWER in command]
        return [*followers(store), *began]

    deadline = Deadline(5)
    while (found := running()) and not deadline.passed:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
