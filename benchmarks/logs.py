"""10^6 log lines from 4 ranks: the rate until they are readable, against printing into files."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from common import Measured, in_turn, job_home, ratio_of, run_bare, run_job, sized, spread

from jupyter_jax_trainer.jobdir.job import Job

RANKS, LINES = sized((4, 250_000), (2, 1_000))
PRINT = """
import time, jax
from jax.experimental import multihost_utils
multihost_utils.sync_global_devices("start")
began = time.time()
for i in range({lines}):
    print(f"rank {{jax.process_index()}} step {{i}} loss 0.123456 accuracy 0.987 images/s 1234.5")
import sys; sys.stdout.flush()
multihost_utils.sync_global_devices("end")
if jax.process_index() == 0:
    open({path!r}, "w").write(f"{{began}} {{time.time()}}")
"""


def measure(runs: int) -> list[Measured]:
    """Compare the time to print, and to print and read all lines back merged."""
    with job_home(warm=False), tempfile.TemporaryDirectory() as name:
        path = Path(name, "times")
        program = PRINT.format(lines=LINES, path=str(path))

        def taken() -> float:
            began, ended = map(float, path.read_text().split())
            return ended - began

        jobs: list[Job] = []

        def ours() -> float:
            job, _ = run_job(program, f"-n {RANKS}")
            job.wait(300)
            jobs.append(job)
            return taken()

        def bare() -> float:
            run_bare(program, RANKS)
            return taken()

        a, b = in_turn(runs, ours, bare)
        began = time.perf_counter()
        count = sum(1 for _ in jobs[-1].logs())
        reading = time.perf_counter() - began
        assert count == RANKS * LINES, count
    ratio = 1 / ratio_of(a, b)
    return [
        Measured(
            "rate of 10^6 log lines from 4 ranks, written",
            ratio,
            ">= 0.8",
            f"ours {spread(a)}, bare {spread(b)}",
            ratio >= 0.8,
        ),
        Measured(
            "reading them merged, million lines/s",
            count / reading / 1e6,
            ">= the writing",
            f"{reading:.2f} s",
            reading <= 1.25 * min(b),
        ),
    ]
