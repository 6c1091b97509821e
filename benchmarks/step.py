"""A training step inside a job against the same step in a bare script."""

from __future__ import annotations

import tempfile
from pathlib import Path

from common import Measured, in_turn, job_home, ratio_of, run_bare, run_job, sized, spread

COUNT, BEFORE = sized((150, 30), (3, 1))  # steps, and those of them that don't count
STEP = """
import time, statistics
import jax, jax.numpy as jnp

def loss(w, x):
    for _ in range(6):
        x = jnp.tanh(x @ w)
    return (x ** 2).mean()

@jax.jit
def local(w, x):
    return jax.grad(loss)(w, x)

average = jax.pmap(lambda g: jax.lax.pmean(g, "i"), axis_name="i")
w, x = jnp.eye(384), jnp.ones((256, 384))

def timed_step():
    global w
    began = time.perf_counter()
    g = average(local(w, x)[None])
    w = w - 0.1 * g[0]
    w.block_until_ready()
    return time.perf_counter() - began
"""
STEPS = (
    STEP
    + """
times = []
for step in range({count}):
    times.append(timed_step())
    {report}
if jax.process_index() == 0:
    open({path!r}, "w").write(repr(statistics.median(times[{before}:])))
"""
)


def measure(runs: int) -> list[Measured]:
    """Compare the median step of two processes, with a report() after each step and without."""
    found = []
    reporting = (f"report(step=step, total={COUNT}, loss=0.5)", ", with report()")
    for report, name in sized((("", ""), reporting), (reporting,)):
        with job_home(warm=False), tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "step")
            sizes = {"count": COUNT, "before": BEFORE, "path": str(path)}
            program = STEPS.format(**sizes, report="pass")
            cell = STEPS.format(**sizes, report=report or "pass")
            if report:
                cell = "from jupyter_jax_trainer import report\n" + cell

            def ours(cell: str = cell, path: Path = path) -> float:
                job, _ = run_job(cell, "-n 2")
                job.wait(120)
                return float(path.read_text())

            def bare(program: str = program, path: Path = path) -> float:
                run_bare(program, 2)
                return float(path.read_text())

            a, b = in_turn(runs, ours, bare)
        ratio = ratio_of(a, b)
        found.append(
            Measured(
                f"a training step{name}",
                ratio,
                "1.00 +- 0.02",
                f"ours {spread(a, 'ms', 1e3)}, bare {spread(b, 'ms', 1e3)}",
                0 < ratio <= 1.02,
            )
        )
    return found
