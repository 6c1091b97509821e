"""What a cell brings back: by the log, or fetched from the pod that holds it; nothing is lost silently.

(By a store: test_payload.py.)
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

import numpy as np
import pytest
from harness import wait_for_text
from pace import Deadline

from cluster.jobs import followers, run, stop_followers, submit, tell
from jupyter_jax_trainer import api
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.errors import ResultError
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.options.spec import parse_cell_line

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
SIZE = 60_000_000  # bytes: so many that their fetch takes a moment
NOISE = "import numpy as np\nbig = np.random.default_rng(3).integers(0, 255, {}, dtype=np.uint8)\n"


def noise(size):
    return np.random.default_rng(3).integers(0, 255, size, dtype=np.uint8)


def test_small_results_come_with_the_log_and_large_ones_are_fetched(place, namespace):
    small = submit(NOISE.format(3_900_000) + "word = 'ok'", place, "-o big,word")
    large = submit(NOISE.format(20_000_000) + "word = 'ok'", place, "-n 2 -o big,word")
    np.testing.assert_array_equal(small.wait(90).result("big"), noise(3_900_000))
    np.testing.assert_array_equal(large.wait(90).result("big"), noise(20_000_000))
    assert small.result("word") == large.result("word") == "ok"
    # Rank 0 did not wait for its ten minutes.
    namespace.until_condition(large.name, "Complete", 30)
    assert not [path for path in large.directory.iterdir() if path.name.endswith(".part")]
    for job in (small, large):
        text = "\n".join(line.text for line in job.logs())
        assert "\x1e" not in text and "jaxtrain1" not in text, "no message is left in the log"


def test_it_is_said_at_submission_that_results_may_be_large(place):
    spec = parse_cell_line(f"{place} -o big")
    variables = {"big": np.zeros(5_000_000, np.uint8), "__name__": "__main__"}
    backend, plan = api.prepare(spec)
    capture = capture_cell("big = big + 1", variables, out=spec.out)
    backend.check_capture(capture, spec, plan)
    (note,) = [note for note in capture.notes if "--out" in note]
    assert "big (5 MB)" in note and "--store" in note and "10 minutes" in note


def test_results_that_nobody_fetches_are_said_to_be_lost(place, namespace, store):
    job = submit(
        NOISE.format(6_000_000) + "import os, time\nprint('begun', flush=True)\n"
        "while not os.path.exists('/tmp/go'): time.sleep(0.05)",
        place,
        "-o big --env JAXTRAIN_RESULT_HOLD=1",
    )
    wait_for_text(job, "begun")
    stop_followers(store)
    tell(namespace, job)
    namespace.until_condition(job.name, "Complete", 60)
    job.wait(60)
    with pytest.raises(ResultError, match="'big' did not come back"):
        job.result("big")
    assert any(say.NOT_FETCHED_IN_TIME() in event["message"] for event in job.events())


def test_a_fetch_goes_on_after_its_follower_was_killed(place, store):
    def fetched(job):
        with contextlib.suppress(FileNotFoundError):
            return (job.directory / "result.fetched.part").stat().st_size
        return 0

    def killed_meanwhile(job):
        deadline = Deadline(90)
        while fetched(job) <= 5_000_000:
            assert not deadline.passed, job.snapshot()
            if not job.active:
                return False
            time.sleep(0.002)
        for pid in followers(store):
            os.kill(pid, signal.SIGKILL)
        return 5_000_000 < fetched(job) < SIZE

    jobs = (submit(NOISE.format(SIZE), place, "-o big") for _ in range(3))
    job = next(filter(killed_meanwhile, jobs))  # it may be over before it is seen
    job.wait(90)
    np.testing.assert_array_equal(job.result("big"), noise(SIZE))


def test_each_result_that_can_not_come_says_why(place):
    job = run("import threading\nfine = 1\nlock = threading.Lock()", place, "-o fine,lock")
    assert job.result("fine") == 1
    with pytest.raises(ResultError, match="lock"):
        job.result("lock")
