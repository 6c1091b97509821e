"""How soon the next cell of a session prints, beside a job with the warm start in the same run."""

from __future__ import annotations

import statistics
import time
from typing import Any

from common import Measured, job_home, run_job, sized, spread

BOUND = 60  # milliseconds
CELLS = sized(20, 1)  # in a run
CELL = "print('here')\n"
LINE = "-s bench -n 2"


def measure(runs: int) -> list[Measured]:
    """Run cells in a session, and as many jobs, in turn."""
    cells: list[float] = []
    jobs: list[float] = []
    with job_home(warm=True):
        first_line(*run_cell(LINE))
        for _ in range(runs * CELLS):
            cells.append(first_line(*run_cell(LINE)))
            jobs.append(first_line(*run_job(CELL, "-n 2")))
    middle = statistics.median(cells)
    return [
        Measured(
            "next cell of a session to its first line, ms",
            middle,
            f"<= {BOUND}",
            f"{spread(cells, 'ms')}; a warm job {spread(jobs, 'ms')}",
            middle <= BOUND,
        )
    ]


def run_cell(
    line: str = LINE, cell: str = CELL, namespace: dict[str, Any] | None = None
) -> tuple[Any, float]:
    """Send a cell as the magic does; give its job and the time just before."""
    from jupyter_jax_trainer import api
    from jupyter_jax_trainer.capture import capture_cell
    from jupyter_jax_trainer.options.spec import parse_cell_line

    began = time.time()
    spec = api.in_session(parse_cell_line(line))
    submission, plan = api.prepare(spec)
    captured = capture_cell(cell, namespace or {}, ledger=api.ledger(submission))
    return api.submit(spec, submission, plan, captured, cell=cell), began


def first_line(job: Any, began: float) -> float:
    """Wait for the first line of rank 0, and for the end; give the milliseconds to the line."""
    log = job.directory / "logs" / "rank-0.log"
    while not (log.exists() and log.stat().st_size):
        time.sleep(0.001)
    spent = 1e3 * (time.time() - began)
    job.wait()
    return spent
