"""A submitter that is killed, wherever it is, leaves nothing that nobody knows of."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness import eventually, text

from cluster.faults import LONG_S
from jupyter_jax_trainer import api
from jupyter_jax_trainer.backends.kubernetes.submit import launch
from jupyter_jax_trainer.messages import follow as say

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
PROGRAM = Path(__file__).with_name("dies.py")


@pytest.mark.timeout(300)
def test_a_submitter_that_is_killed_at_any_step_leaves_nothing_behind(place, namespace, store):
    done = subprocess.run(
        [sys.executable, PROGRAM, f"{place} --cpu 10m"],
        text=True,
        stdout=subprocess.PIPE,
        check=True,
        timeout=200,
    )
    steps = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    requests = [step for step in steps.values() if step.startswith("send b'POST")]
    assert [re.findall(r"/(\w+)(?:\?| HTTP)", step)[0] for step in requests] == [
        "trainjobs",
        "trainjobs",
        "secrets",
        "secrets",
    ], done.stdout
    assert sum(step.startswith("write") for step in steps.values()) > 5, done.stdout
    assert list(steps.values())[-1] == "nothing"  # the last one was not killed
    jobs = {job.name: job for job in api.jobs()}
    eventually(lambda: not any(job.active for job in jobs.values()), LONG_S)
    by_number = {name: job.state for name, job in jobs.items()}
    print(done.stdout, by_number)
    begun = [job for job in jobs.values() if job.state == "Succeeded"]
    for job in begun:
        assert text(job) == "begins", job.name
    for job in jobs.values():
        if job not in begun:
            assert (job.state, job.reason, job.hint) == (
                "Failed",
                launch.CUT_OFF,
                say.RUN_AGAIN(),
            )
    there = {item["metadata"]["name"]: item for item in namespace.get("trainjobs")["items"]}
    assert there.keys() == {job.name for job in begun}
    for secret in namespace.get("secrets")["items"]:
        (owner,) = secret["metadata"]["ownerReferences"]
        assert owner["uid"] == there[owner["name"]]["metadata"]["uid"]
    # From the step on at which the TrainJob is there, the job runs; before, it does not.
    numbers = sorted(int(re.sub(r"\D", "", job.name)) for job in begun)
    assert numbers == list(range(numbers[0], len(steps))) and len(numbers) >= 3
