"""How soon the next cell of a session in pods prints, beside new jobs in the same run."""

from __future__ import annotations

import statistics

from common import Measured, run_job, sized, spread
from kube import place
from session import first_line, run_cell

BOUND = 150  # milliseconds
CELLS, JOBS = sized(20, 2), sized(3, 1)  # in a run
NODES = sized(2, 1)
CELL = "print('here')\n"


def measure(runs: int) -> list[Measured]:
    """Run cells in a session, and some jobs after them."""
    cells: list[float] = []
    jobs: list[float] = []
    with place() as there:
        line = f"-s bench -n {NODES} {there.options}"
        first_line(*run_cell(line))
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
        )
    ]
