"""How soon the next cell of a session in pods prints, and what many cells leave behind here."""

from __future__ import annotations

import os
import statistics

from common import Measured, run_job, sized, spread
from kube import Place, place
from session import first_line, run_cell
from session_many import judged, usage

BOUND = 150  # milliseconds
CELLS, JOBS = sized(20, 2), sized(3, 1)  # in a run
MANY, BEFORE = sized((1_000, 100), (4, 2))  # back to back, and those that don't count
NODES = sized(2, 1)
CELL = "print('here')\n"


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
    ]


def _back_to_back(there: Place, line: str) -> Measured:
    """Look at this process and the follower; ranks are as in a session on this machine."""
    pids = {"kernel": os.getpid(), "follower": there.start_follower()}
    looks = []
    for number in range(MANY):
        run_cell(line)[0].wait()
        if number in (BEFORE - 1, MANY - 1):
            looks.append(usage(pids))
    return judged(f"growth of a process in {MANY - BEFORE} cells, MB", looks)
