"""How long it takes to ask the ranks of a job where they are, while all but one are blocked."""

from __future__ import annotations

import statistics
import time

from common import Measured, job_home, run_job, sized, spread

BOUND = 100  # milliseconds
ASKED = sized(20, 1)  # times in a run
CELL = """
import time
import jax
from jax.experimental import multihost_utils
if jax.process_index() == 1:
    time.sleep(600)
multihost_utils.sync_global_devices("x")
"""


def measure(runs: int) -> list[Measured]:
    """Ask two ranks, of which one waits for the other in a collective."""
    times: list[float] = []
    with job_home(warm=True):
        job, _ = run_job(CELL, "-n 2")
        while job.state != "Running":
            time.sleep(0.05)
        for _ in range(runs * ASKED):
            began = time.perf_counter()
            places = job.where()
            times.append(1e3 * (time.perf_counter() - began))
            assert all(one.answered for one in places)
    middle = statistics.median(times)
    return [
        Measured(
            "where are 2 ranks, ms",
            middle,
            f"<= {BOUND}",
            spread(times, "ms"),
            middle <= BOUND,
        )
    ]
