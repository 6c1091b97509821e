"""A job that is to stop at the first metric that is not finite."""

from __future__ import annotations

import pytest
from harness import submit, wait_failed

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
