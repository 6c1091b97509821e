"""From submit to the first completed psum over all processes, against a bare script."""

from __future__ import annotations

import tempfile
from pathlib import Path

from common import Measured, in_turn, job_home, ratio_of, run_bare, run_job, sized, spread

PSUM = """
import time
import jax, jax.numpy as jnp
total = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(jnp.ones(1))
assert float(total[0]) == jax.process_count(), total
if jax.process_index() == 0:
    open({path!r}, "w").write(repr(time.time()))
"""


def measure(runs: int) -> list[Measured]:
    """Compare cold and warm starts, with 2 and 4 processes."""
    found = []
    for warm, bound in sized(((False, 1.05), (True, 0.35)), ((True, 0.35),)):
        for count in sized((2, 4), (2,)):
            with job_home(warm=warm), tempfile.TemporaryDirectory() as name:
                path = Path(name, "done")
                program = PSUM.format(path=str(path))

                def ours(program: str = program, path: Path = path, count: int = count) -> float:
                    job, began = run_job(program, f"-n {count}")
                    job.wait(120)
                    return float(path.read_text()) - began

                def bare(program: str = program, path: Path = path, count: int = count) -> float:
                    began = run_bare(program, count)
                    return float(path.read_text()) - began

                a, b = in_turn(runs, ours, bare)
            ratio = ratio_of(a, b)
            kind = "warm" if warm else "cold"
            found.append(
                Measured(
                    f"submit to first psum, {kind}, {count} processes",
                    ratio,
                    f"<= {bound}",
                    f"ours {spread(a)}, bare {spread(b)}",
                    ratio <= bound,
                )
            )
    return found
