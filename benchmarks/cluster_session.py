"""How soon the next cell of a session in pods prints, and what many cells leave behind here."""

from __future__ import annotations

import contextlib
import os
import re
import statistics
from pathlib import Path

from common import Measured, run_job, sized, spread
from kube import Place, place
from session import first_line, run_cell
from session_many import judged, usage

from jupyter_jax_trainer import api
from jupyter_jax_trainer.errors import JobFailed

BOUND = 150  # milliseconds
CELLS, JOBS = sized(20, 2), sized(3, 1)  # in a run
MANY, BEFORE = sized((1_000, 100), (4, 2))  # back to back, and those that don't count
NODES = sized(2, 1)
CELL = "print('here')\n"
FOUND = 5  # seconds
FAULTS = {"raises": "raise ValueError('here alone')", "exits": "os._exit(3)"}
# The others wait in a collective for the last rank, which does not come.
FAULTY = f"""\
import os, time, jax
from jax.experimental import multihost_utils
if jax.process_index() == {NODES - 1}:
    print("fails", time.time(), flush=True)
    FAULT
else:
    multihost_utils.sync_global_devices("all")
"""


def measure(runs: int) -> list[Measured]:
    """Run many cells in a session first: jobs leave idle connections for a while."""
    cells: list[float] = []
    jobs: list[float] = []
    with place() as there:
        line = f"-s bench -n {NODES} {there.options}"
        first_line(*run_cell(line))
        grown = _back_to_back(there, line)
        for _ in range(runs):
            cells += [first_line(*run_cell(line)) for _ in range(CELLS)]
            for _ in range(JOBS):
                job, began = run_job(CELL, f"-n {NODES} {there.options}")
                jobs.append(first_line(job, began))
                there.delete(job.name)
        found = [_found(line, *fault) for fault in FAULTS.items()]
    middle = statistics.median(cells)
    return [
        Measured(
            f"next cell of a session on {NODES} pods to its first line, ms",
            middle,
            f"<= {BOUND}",
            f"{spread(cells, 'ms')}; a new job {spread(jobs, 'ms')}",
            middle <= BOUND,
        ),
        grown,
        *found,
    ]


def _found(line: str, what: str, fault: str) -> Measured:
    """Let ranks part, and see that the next cell runs on all of them again."""
    job, _ = run_cell(line, FAULTY.replace("FAULT", fault))
    with contextlib.suppress(JobFailed):
        job.wait(60)
    (fails,) = re.findall(r"fails (\d+\.\d+)", "\n".join(one.text for one in job.logs()))
    spent = job.ended - float(fails)
    after, _ = run_cell(line)
    after.wait(60)
    assert after.state == "Succeeded", (after.state, after.reason)
    again = f"all ranks print again after {after.ended - float(fails):.2g} s"
    return Measured(
        f"a rank {what}: until it is found, s", spent, f"<= {FOUND}", again, spent <= FOUND
    )


def _back_to_back(there: Place, line: str) -> Measured:
    """Look at this process, the follower, and those in pods where they run on this machine."""
    pids = {"kernel": os.getpid(), "follower": there.start_follower()}
    pids |= processes(api.job("bench").uid)
    looks = []
    for number in range(MANY):
        run_cell(line)[0].wait()
        if number in (BEFORE - 1, MANY - 1):
            looks.append(usage(pids))
    return judged(f"growth of a process in {MANY - BEFORE} cells, MB", looks)


def processes(uid: str) -> dict[str, int]:
    """Find process 1 and the rank of each pod of a job, as far as they run on this machine."""
    found: dict[str, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = (path / "environ").read_text(errors="replace").split("\0")
            inside = re.search(r"^NSpid:.*\s(\d+)$", (path / "status").read_text(), re.MULTILINE)
            if f"JAXTRAIN_JOB_UID={uid}" not in environment or inside is None:
                continue
            (rank,) = [one for one in environment if one.startswith("JOB_COMPLETION_INDEX=")]
            kind = "process 1 of rank" if inside[1] == "1" else "rank"
            found[f"{kind} {rank.partition('=')[2]}"] = int(path.name)
    return found
