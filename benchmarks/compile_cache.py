"""How long XLA compiles at the second start of a job, against the first, which fills the cache."""

from __future__ import annotations

from typing import Any

from common import Measured, job_home, ratio_of, run_job, sized, spread

BOUND = 0.1
LAYERS = sized(40, 2)
CELL = f"""
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def loss(weights, x):
    for number, w in enumerate(weights):
        x = jnp.tanh(x @ w) + jnp.sin(x) * number
    return (x ** 2).mean()

@jax.jit
def step(weights, x):
    value, slopes = jax.value_and_grad(loss)(weights, x)
    return [w - 0.1 * slope for w, slope in zip(weights, slopes)], value

mesh = Mesh(jax.devices(), ("ranks",))
weights = [jax.device_put(np.eye(64, dtype=np.float32), NamedSharding(mesh, P()))] * {LAYERS}
x = np.ones((8, 64), np.float32)
x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("ranks")), x)
weights, value = step(weights, x)
print(float(value))
"""


def measure(runs: int) -> list[Measured]:
    """Run a job twice in a job home of its own, again and again."""
    compiling: list[list[float]] = [[], []]
    whole: list[list[float]] = [[], []]
    for _ in range(runs):
        with job_home(warm=True):
            run_job("import jax\njax.devices()", "-n 2")[0].wait()  # the warm start is there
            for start in range(2):
                job, began = run_job(CELL, "-n 2")
                job.wait()
                compiling[start].append(job.compiled.seconds)
                whole[start].append(_ended(job) - began)
    first, second = compiling
    ratio = ratio_of(second, first)
    return [
        Measured(
            "XLA at the second start : the first, 2 processes",
            ratio,
            f"<= {BOUND}",
            f"{spread(second)} : {spread(first)}; the whole job {spread(whole[1])} : "
            f"{spread(whole[0])}",
            ratio <= BOUND,
        )
    ]


def _ended(job: Any) -> float:
    ended = job.ended
    assert ended is not None
    return float(ended)
