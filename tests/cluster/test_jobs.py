"""A cell as a TrainJob, from its line to what comes back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from harness import answers, eventually, text, wait_for

from cluster.jobs import PATIENCE, SLIM, fails, failure_of, run, submit
from jupyter_jax_trainer.worker.profiling import MEMORY, TRACE

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_a_cell_runs_on_two_nodes_and_brings_back_what_it_made(place, namespace):
    scale = 3
    job = run(
        """
import jax
from jax.experimental import multihost_utils
from jupyter_jax_trainer import report
for step in range(5):
    report(step, 5, loss=1 / (step + 1))
print("rank", jax.process_index(), "of", jax.process_count())
total = multihost_utils.process_allgather(jax.numpy.arange(3.0) * scale)
""",
        place,
        "-n 2 -o total",
        {"scale": scale, "__name__": "__main__"},
    )
    np.testing.assert_array_equal(job.result("total"), np.tile(np.arange(3.0) * 3, (2, 1)))
    assert [line for line in text(job, 1).splitlines() if line] == ["rank 1 of 2"]
    assert [m["values"]["loss"] for m in job.metrics() if m["rank"] == 0] == [
        1,
        1 / 2,
        1 / 3,
        1 / 4,
        1 / 5,
    ]
    assert [rank.state for rank in job.ranks] == ["Finished"] * 2
    assert [state for state, _ in job.history][-2:] == ["Running", "Succeeded"]


def test_an_error_on_one_rank_is_told_at_the_line_of_the_cell(place):
    _, failure = fails(
        "import jax\nif jax.process_index() == 1:\n    raise ValueError('no')", place, "-n 2"
    )
    assert failure.rank == 1 and failure.message == "ValueError: no (cell line 4)"
    assert failure.others == [0]


def test_a_rank_that_stands_still_says_where_it_is(place):
    """Unasked, in its log: for where it can't be asked."""
    job = submit(
        "import time\nimport jax\nfrom jax.experimental import multihost_utils\n"
        "if jax.process_index() == 1:\n    time.sleep(600)\n"
        "multihost_utils.sync_global_devices('x')\n",
        place,
        "-n 2 --env JAXTRAIN_WHERE_INTERVAL=1",
    )
    wait_for(job, "Running")

    def told():
        found = [rank.get("where") for rank in job.snapshot()["ranks"]]
        return found if [one and one["cell_line"] for one in found] == [7, 6] else None

    waits, sleeps = eventually(told, PATIENCE)
    assert (waits["doing"], sleeps["doing"]) == ("sync_global_devices", None)
    assert waits["seconds"] >= 1 and sleeps["seconds"] >= 1
    job.cancel()


def test_ranks_say_where_they_are_when_they_are_asked_and_a_hang_ends_the_job(place):
    """Through process 1 of the pod of rank 0, at once; not when they have stood still for long."""
    job = submit(
        "import time, jax\nfrom jax.experimental import multihost_utils\n"
        "if jax.process_index() == 1:\n    time.sleep(600)\n"
        "multihost_utils.sync_global_devices('end')",
        place,
        "-n 2 --hang-timeout 20s",
    )
    wait_for(job, "Running")
    eventually(lambda: [one.line for one in job.where()] == [6, 5], PATIENCE)
    profile = job.profile(0.2)  # asked for on the same way
    assert [one["problem"] for one in profile.ranks] == [None, None]
    assert [{*one["files"]} for one in profile.ranks] == [{TRACE, MEMORY}] * 2
    waits, sleeps = answers(job)
    assert waits.call == "sync_global_devices" and sleeps.call is None
    assert all(one.memory for one in (waits, sleeps))
    # Who waits for others may look now and then whether they have come.
    assert sleeps.process == "sleeping" and waits.process in ("sleeping", "running")
    failure = failure_of(job)
    assert failure.kind == "hang"
    assert "rank 1 is at cell line 5" in failure.message and "(cell line 6)" in failure.message
    assert all(rank.get("spent") for rank in job.snapshot()["ranks"])


def test_a_cell_displays_by_ipython_where_the_image_has_none(place):
    job = run(
        "import IPython\nfrom IPython.display import HTML, display\n"
        "print(type(IPython.__spec__.loader).__name__)\ndisplay(HTML('<b>bold</b>'))",
        place,
        SLIM,
    )
    assert text(job) == "StandIn"
    displayed = json.loads((job.directory / "displays.jsonl").read_text().splitlines()[0])
    assert displayed["data"]["text/html"] == "<b>bold</b>"
