"""How long after its threshold a job that is stuck says where its ranks are."""

from __future__ import annotations

import os
import statistics
import time

from common import Measured, job_home, run_job, sized, spread

from jupyter_jax_trainer import timeouts

BOUND = 5.0  # seconds
THRESHOLD = sized(5.0, 1.0)  # in place of two minutes, which say nothing more
CELL = """
import time
import jax
from jax.experimental import multihost_utils
from jupyter_jax_trainer import report
for _ in range(5):
    time.sleep(0.1)
    multihost_utils.sync_global_devices("x")
    report(sign=time.time())
if jax.process_index() == 1:
    time.sleep(600)
multihost_utils.sync_global_devices("y")
"""


def measure(runs: int) -> list[Measured]:
    """Wait for the event, of two ranks, of which one waits for the other in a collective."""
    times: list[float] = []
    with job_home(warm=True):
        os.environ[timeouts.STUCK.variable] = str(THRESHOLD)  # the home puts it back
        for _ in range(runs):
            job, _ = run_job(CELL, "-n 2")
            while not (told := [e for e in job.events() if e["kind"] == "silence"]):
                time.sleep(0.05)
            last = max(row["values"]["sign"] for row in job.metrics())
            times.append(told[0]["time"] - last - THRESHOLD)
            job.cancel()
    middle = statistics.median(times)
    return [
        Measured(
            "report of a hang after its threshold, s",
            middle,
            f"<= {BOUND:g}",
            spread(times, "s"),
            middle <= BOUND,
        )
    ]
