"""Ranks that are stuck: what is said of them, and how long that takes; and ends because of it."""

from __future__ import annotations

import re

import pytest
from harness import at_line, cell_line, eventually, submit, wait_for_text
from pace import within

from jupyter_jax_trainer.errors import JobFailed
from jupyter_jax_trainer.jobdir.describe import remarks
from jupyter_jax_trainer.messages import jobs as say

pytestmark = pytest.mark.usefixtures("store")

STUCK = """import time
import jax
import numpy as np
from jax.experimental import multihost_utils
from jupyter_jax_trainer import report
multihost_utils.process_allgather(np.ones(2))
report(loss=1)
print("begins", time.time())
if jax.process_index() == 1:
    time.sleep(600)
multihost_utils.process_allgather(np.ones(2))
"""


def events(job, kind):
    return [event["message"] for event in job.events() if event["kind"] == kind]


def test_stuck_ranks_are_told_and_ended(monkeypatch):
    monkeypatch.setenv("JAXTRAIN_STUCK_TIMEOUT", "2")
    job = submit(STUCK, line="-n 3 --devices-per-node 1 --hang-timeout 12s")
    printed = wait_for_text(job, "begins", times=3)
    began = max(float(at) for at in re.findall(r"begins (\S+)", printed))
    eventually(lambda: events(job, "silence"))
    took = next(event["time"] for event in job.events() if event["kind"] == "silence") - began
    assert took > 1.5 and within(took, 2 + 5)
    (said,) = events(job, "silence")
    line = cell_line(12)
    place = say.IN_CALL(call="process_allgather", line=line)
    assert say.RANKS_WAIT(ranks="0 and 2", place=place) in said
    late = say.RANK_IS_AT(rank=1, place=at_line(11))
    assert late in said
    assert eventually(lambda: job.reason) == said and job.state == "Running"
    with pytest.raises(JobFailed):
        job.wait()
    assert job.failure.kind == "hang" and late in job.failure.message
    assert job.state == "Failed" and len(events(job, "silence")) == 1


DIFFERENT = """import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jupyter_jax_trainer import report
mesh = jax.make_mesh((2,), ("d",))
ones = jax.jit(lambda: jnp.ones(2), out_shardings=NamedSharding(mesh, PartitionSpec("d")))()

@jax.jit
def step(x):
    return (x * 2).sum()

@jax.jit
def evaluate(x):
    return x.sum()

if jax.process_index() == 0:
    print(float(jnp.arange(7).sum()))  # its own business
    step.lower(ones).compile()  # and so is what it does not run
print(float(step(ones)))
report(loss=1)
print(float(evaluate(ones) if jax.process_index() == 0 else jax.jit(lambda x: x.max())(ones)))
"""


def test_ranks_that_compile_different_programs_are_told_before_they_hang():
    job = submit(DIFFERENT, line="-n 2 --devices-per-node 1 --env JAXTRAIN_PACE_INTERVAL=1")
    eventually(lambda: events(job, "programs"))
    (said,) = events(job, "programs")
    job.cancel()
    assert "`evaluate` (cell line 22) on rank 0" in said
    assert "`_lambda` (cell line 22) on rank 1" in said
    assert said in remarks(job.snapshot())


ALONE = """import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jupyter_jax_trainer import report
mesh = jax.make_mesh((2,), ("d",))
rows = NamedSharding(mesh, PartitionSpec("d"))
ones = jax.jit(lambda: jnp.ones(2), out_shardings=rows)()

@jax.jit
def step(x):
    return x.sum()

@jax.jit
def evaluate(x):
    swap = lambda x: jax.lax.ppermute(x, "d", [(0, 1), (1, 0)])
    return jax.shard_map(swap, mesh=mesh, in_specs=rows.spec, out_specs=rows.spec)(x).max()

for number in range(1, 9):
    evaluates = number == 5 and jax.process_index() == 1
    loss = float(evaluate(ones) if evaluates else step(ones))
    report(loss=loss)
"""


def test_ranks_that_wait_beside_a_program_of_one_are_told(monkeypatch):
    monkeypatch.setenv("JAXTRAIN_PROGRAMS_TIMEOUT", "2")
    job = submit(ALONE, line="-n 2 --devices-per-node 1")
    eventually(lambda: events(job, "programs"))
    (said,) = events(job, "programs")
    job.cancel()
    assert "`evaluate` (cell line 21) on rank 1 but not on rank 0" in said
    assert said in remarks(job.snapshot())


SMALLER = """import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jupyter_jax_trainer import report
mesh = jax.make_mesh((2,), ("d",))
rows = NamedSharding(mesh, PartitionSpec("d"))

@jax.jit
def step(x):
    return x.sum()

for number in range(9):
    last = number == 5 and jax.process_index() == 1
    batch = np.ones((3 if last else 4, 8), np.float32)
    report(loss=float(step(jax.make_array_from_process_local_data(rows, batch))))
"""


def test_ranks_that_went_on_with_different_programs_are_told():
    job = submit(SMALLER, line="-n 2 --devices-per-node 1")
    job.wait()
    (said,) = events(job, "programs")
    assert "`step` (cell line 16) on rank 1, while rank 0 ran another `step`" in said
    assert said in remarks(job.snapshot())
