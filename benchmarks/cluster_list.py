"""A namespace with hundreds of TrainJobs: the list, and what the follower takes."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import Measured, run_job, sized, spread
from kube import RUNTIME, Place, cpu_seconds, memory, place, until

from jupyter_jax_trainer.backends.base import ClusterJob
from jupyter_jax_trainer.backends.kubernetes import overview
from jupyter_jax_trainer.backends.kubernetes.api.objects import ApiObject
from jupyter_jax_trainer.backends.kubernetes.api.watch import list_all
from jupyter_jax_trainer.backends.kubernetes.submit.launch import follower_directory
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import FAILED

FEW, MANY = sized((10, 500), (2, 4))
CHANGES = sized(200, 5)
PACE = 0.01  # seconds between changes
_REST, _TRIES = sized((2.0, 15), (0.2, 3))  # seconds of a look at an idle follower, and looks
CHANGED = "sleeper-1"  # the first; number 0 is the job that is followed
ROOT = Path(__file__).resolve().parent.parent


def measure(runs: int) -> list[Measured]:
    """Look at few TrainJobs, then at many."""
    with place() as there:
        # The follower has a job to follow, which waits.
        run_job("1", f"-n 1 --cpu 10000 {there.options}")
        _make(there, FEW)
        few = _changes(there, runs)
        _make(there, MANY)
        lists, listed_cold = _lists(there, runs)
        there.stop_follower()
        _list_of(there).unlink()  # the next one begins it anew
        began = time.time()
        pid = there.start_follower()
        until(lambda: len(_known(there)) >= MANY)
        synced = time.time() - began
        many = _changes(there, runs)
        peak = memory(pid, "VmHWM")
    warm, cold = statistics.median(lists), statistics.median(listed_cold)
    ratio = statistics.median(many) / statistics.median(few)
    return [
        Measured(f"{MANY} TrainJobs listed, s", warm, "<= 2", spread(lists), warm <= 2),
        Measured(
            "... by `jaxtrain jobs`, a new process, s", cold, "<= 2", spread(listed_cold), cold <= 2
        ),
        Measured(
            f"... CPU time of the follower for a change, against {FEW} TrainJobs",
            ratio,
            "<= 1.5",
            f"{spread(many, 'ms', 1e3)} : {spread(few, 'ms', 1e3)}",
            ratio <= 1.5,
        ),
        Measured(
            "... peak of the follower, MB",
            peak,
            "<= 200",
            f"knows all {synced:.1f} s after its start",
            peak <= 200,
        ),
    ]


def _make(there: Place, count: int) -> None:
    """Make suspended TrainJobs until there are so many; wait until the controllers are done."""
    client = there.client

    def make(number: int) -> None:
        body = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": f"sleeper-{number}"},
            "spec": {
                "suspend": True,
                "runtimeRef": {"name": RUNTIME},
                "trainer": {"numNodes": 2, "command": ["true"]},
            },
        }
        client.request("POST", client.trainer("trainjobs"), body=body)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, range(_count(there, client.trainer("trainjobs")), count)))
    until(lambda: _count(there, client.batch("jobs")) >= count, 2.0)


def _count(there: Place, path: str) -> int:
    return sum(1 for _ in list_all(there.client, path, ApiObject))


def _lists(there: Place, runs: int) -> tuple[list[float], list[float]]:
    """List all as `jaxtrain jobs` does: with a client that is there, and from a new process."""
    warm, cold = [], []
    command = [sys.executable, "-m", "jupyter_jax_trainer", "jobs", *there.options.split()]
    for _ in range(runs):
        began = time.time()
        assert len(overview.rows(there.client)) >= MANY
        warm.append(time.time() - began)
        began = time.time()
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        cold.append(time.time() - began)
        assert len(done.stdout.splitlines()) > MANY
    return warm, cold


def _known(there: Place) -> dict[str, ClusterJob]:
    """Return the list that the follower keeps."""
    path = _list_of(there)
    return {row.name: row for row in overview.read(path)} if path.exists() else {}


def _list_of(there: Place) -> Path:
    return follower_directory(there.client.identity) / "trainjobs.jsonl"


def _reason(there: Place) -> str | None:
    """Return the reason of the one that is changed; None before the follower knows it."""
    found = _known(there).get(CHANGED)
    return None if found is None else found.reason


def _changes(there: Place, runs: int) -> list[float]:
    """Change one TrainJob often; give the follower's CPU seconds for one, without its idle ones."""
    pid = until(there.follower)
    idle = _idle(pid)
    found = []
    for run in range(runs):
        used, began = cpu_seconds(pid), time.monotonic()
        for number in range(CHANGES):
            words = f"change {run} {number}"
            patch = {"metadata": {"annotations": {FAILED: words}}}
            there.patch(there.trainjob(CHANGED), patch)
            time.sleep(PACE)
        until(lambda words=words: _reason(there) == words)
        taken = time.monotonic() - began
        found.append((cpu_seconds(pid) - used - idle * taken) / CHANGES)
    return found


def _idle(pid: int) -> float:
    """Wait until a follower has come to rest; give what it takes then, CPU seconds a second."""
    seconds: list[float] = []
    while len(seconds) < 3 or max(seconds[-3:]) > 1.3 * min(seconds[-3:]) + 0.003:
        used, began = cpu_seconds(pid), time.monotonic()
        time.sleep(_REST)
        seconds.append((cpu_seconds(pid) - used) / (time.monotonic() - began))
        if len(seconds) == _TRIES:
            break
    return statistics.median(seconds[-3:])
