"""How long after its end a profile of 5 s of 2 ranks is in the notebook, with its summary."""

from __future__ import annotations

import statistics
import time

from common import Measured, job_home, run_job, sized, spread

from jupyter_jax_trainer import commands

BOUND = 5.0  # seconds
SECONDS = sized(5.0, 0.5)
CELL = """
import jax, jax.numpy as jnp
from jupyter_jax_trainer import report
@jax.jit
def step(w, x):
    return w - 0.1 * jax.grad(lambda w: ((jnp.tanh(x @ w) - 1) ** 2).mean())(w)
w, x = jnp.ones((256, 256)), jnp.ones((512, 256))
while True:
    w = step(w, x)
    report(norm=float(jnp.abs(w).mean()))
"""


def measure(runs: int) -> list[Measured]:
    """Profile two ranks that train, by the command of a notebook."""
    times: list[float] = []
    with job_home(warm=True):
        job, _ = run_job(CELL, "-n 2 --devices-per-node 1")
        while not job.steps:
            time.sleep(0.05)
        for _ in range(runs):
            shown: list[str] = []
            began = time.perf_counter()
            words = ["profile", job.name, "--seconds", f"{SECONDS:g}"]
            commands.run_command(words, commands.Context(print=shown.append))
            times.append(time.perf_counter() - began - SECONDS)
            assert "OPERATION" in shown[0]
        job.cancel()
    middle = statistics.median(times)
    return [
        Measured(
            "profile of 2 ranks, s after its end",
            middle,
            f"<= {BOUND:g}",
            spread(times, "s"),
            middle <= BOUND,
        )
    ]
