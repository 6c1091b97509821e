"""What it costs a training step that the worker samples resources meanwhile."""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path

from common import Measured, job_home, run_job, sized

LOOKS = sized(200, 2)
STEP = 0.01  # seconds
CELL = """
import json, threading, time
import jax, jax.numpy as jnp
from jupyter_jax_trainer.worker import livearrays
from jupyter_jax_trainer.worker.channel import Channel
from jupyter_jax_trainer.worker.sampler import Sampler

arrays = [jnp.ones((64, 64)) for _ in range(500)]
one = Sampler(Channel(None), 1, contained={contained})
looks = []
def look():
    for _ in range({looks}):
        began = time.thread_time()
        one._look()
        looks.append(time.thread_time() - began)
        one._usage._search_at = 0.0  # the search for other processes counts each time
thread = threading.Thread(target=look)
thread.start()
thread.join()
began = time.thread_time()
livearrays.largest(globals(), livearrays.frames_of(threading.get_ident()))
named = time.thread_time() - began
open({path!r}, "w").write(json.dumps([looks, named, one._pause]))
"""


def measure(runs: int) -> list[Measured]:
    """Measure the processor time of a sample, as part of the time between two of them.

    That is what it takes of each step, if all of it is taken from the step: one of 10 ms that is
    held up for 0.05 ms takes 0.5 % longer.
    """
    found = []
    for contained, name in ((False, "on this machine"), (True, "in a container of its own")):
        shares, namings, costs = [], [], []
        for _ in range(runs):
            with job_home(warm=False), tempfile.TemporaryDirectory() as directory:
                path = Path(directory, "looks")
                cell = CELL.format(contained=contained, looks=LOOKS, path=str(path))
                job, _ = run_job(cell, "-n 1")
                job.wait(120)
                looks, named, pause = json.loads(path.read_text())
            costs.append(statistics.fmean(looks))
            shares.append(statistics.fmean(looks) / pause)
            namings.append(named)
        share = statistics.median(shares)
        detail = (
            f"{STEP * share * 1e6:.1f} µs of a step of 10 ms; a sample takes "
            f"{statistics.median(costs) * 1e3:.2f} ms, arrays by name "
            f"{statistics.median(namings) * 1e3:.1f} ms"
        )
        found.append(
            Measured(f"per cent of a step, {name}", 100 * share, "0.5", detail, share <= 0.005)
        )
    return found
