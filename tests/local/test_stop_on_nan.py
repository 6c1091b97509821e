"""A job that is to stop at the first metric that is not finite."""

from __future__ import annotations

import pytest
from harness import PSUM, submit, wait_failed

from jupyter_jax_trainer.messages import worker as say

CELL = """
from jupyter_jax_trainer import report
for step in range(1000):
    report(step=step, loss=1.0 if step < 3 else float("nan"))
print("too far")
"""


@pytest.mark.slow
def test_it_fails_at_the_first_one_with_rank_step_and_line(home):
    job = submit(CELL, line="-n 1 --stop-on-nan")
    failure = wait_failed(job)
    assert failure.kind == "error" and failure.rank == 0 and failure.hint
    assert failure.error is not None and failure.error["cell_line"] == 5
    assert failure.error["type"] == "NotFiniteError"
    assert "loss was NaN at step 3" in failure.message
    assert job.not_finite == [{"metric": "loss", "value": "NaN", "step": 3, "rank": 0}]
    assert len(job.metrics()) == 4


ONE_OF_TWO = (
    PSUM
    + """
import time
from jupyter_jax_trainer import report
for step in range(10):
    report(step=step, loss=float("nan") if step == 3 and jax.process_index() == 1 else 1.0)
time.sleep(600)
"""
)


@pytest.mark.slow
def test_one_rank_ends_all_of_them_and_is_the_reason(home):
    job = submit(ONE_OF_TWO, line="-n 2 --stop-on-nan")
    failure = wait_failed(job)
    assert (failure.kind, failure.rank, failure.others) == ("error", 1, [0])
    assert failure.error is not None and failure.error["type"] == "NotFiniteError"
    assert say.NOT_FINITE(metric="loss", value="NaN", step=3) in job.reason
    assert job.ranks[1].state == "Failed" and job.ranks[0].state in ("Stopped", "Failed")
    assert job.not_finite == [{"metric": "loss", "value": "NaN", "step": 3, "rank": 1}]
    assert [line["step"] for line in job.metrics() if line["rank"] == 1] == [0, 1, 2, 3]
