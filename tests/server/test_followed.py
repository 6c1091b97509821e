"""Who looks after a job has died: a page that shows the job notices, and does something about it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from apiscene import EMPTY, TRAINER, Scene
from cluster.jobs import followers, stop_followers
from harness import eventually
from made_jobs import held, make_job, uid_of

from jupyter_jax_trainer.backends.kubernetes.submit import trainjob
from jupyter_jax_trainer.messages import jobs as say

TRAINJOBS = f"{TRAINER}/namespaces/default/trainjobs"


@pytest.fixture
def scene(store: Path) -> Iterator[Scene]:
    found = Scene()
    yield found
    stop_followers(store)
    found.close()


def show(scene, *conditions):
    """Let the cluster have the TrainJob."""
    scene.answers[TRAINJOBS] = {
        **EMPTY,
        "items": [
            {
                "metadata": {
                    "name": "fit",
                    "uid": "t",
                    "resourceVersion": "1",
                    "annotations": {trainjob.UID: uid_of("fit")},
                },
                "spec": {},
                "status": {"conditions": conditions},
            }
        ],
    }


def row(page, check):
    while True:
        for found in page.hear("jobs", seconds=60)["rows"]:
            if check(found):
                return found


@pytest.mark.slow
def test_a_job_whose_follower_is_dead_is_followed_again(server, store, scene, tmp_path):
    show(scene)
    scene.adopt(make_job("fit", "Running"), tmp_path)
    with server.page() as page:
        page.say(op="open", id=1, topic="jobs")
        assert row(page, lambda found: found["key"] == "fit")["active"]
        first = eventually(lambda: followers(store), 30)
        for pid in first:
            os.kill(pid, signal.SIGKILL)  # as when the machine was short of memory
        show(scene, {"type": "Failed", "status": "True", "reason": "x", "message": "boom"})
        assert row(page, lambda found: not found["active"])["state"] == "Failed"
        assert followers(store) != first


def test_a_job_of_this_machine_whose_supervisor_is_dead_has_failed(server):
    directory = make_job("one", "Running")
    with server.page() as page:
        with held(directory):
            page.say(op="open", id=1, topic="jobs")
            assert row(page, lambda found: found["key"] == "one")["state"] == "Running"
        found = row(page, lambda found: not found["active"])
    assert found["state"] == "Failed" and say.PROCESS_GONE() in found["reason"]
