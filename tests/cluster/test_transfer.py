"""Data that no Secret holds, on its way into pods."""

from __future__ import annotations

import numpy as np
import pytest
from harness import text

from cluster.jobs import run, stop_followers, submit
from jupyter_jax_trainer.jobdir import store

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

CELL = (
    "import jax; total = int(data.sum()); print(jax.process_index(), total, data.flags.writeable)"
)
DATA = np.random.default_rng(3).integers(0, 1000, 5_000_000)  # 40 MB


def test_arrays_of_any_size_reach_all_pods_without_a_store(place):
    job = run(CELL, place, "-n 3 -o total", {"data": DATA})
    assert job.result() == {"total": DATA.sum()}
    assert sorted(text(job).splitlines()) == [f"{rank} {DATA.sum()} True" for rank in range(3)]
    assert not [event for event in job.events() if event["kind"] in ("warning", "error")]


def test_a_follower_that_is_killed_while_it_sends_is_followed_by_another(place):
    job = submit(CELL, place, "-n 2", {"data": np.tile(DATA, 5)})
    seen = []
    for _ in range(2_000):
        reason = job.reason or ""
        if "sending" in reason:
            seen.append(reason)
            break
    stop_followers(store.home())
    assert job.wait(90).state == "Succeeded" and seen
