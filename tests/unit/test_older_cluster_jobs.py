"""A job that version 0.1 sent to a cluster, and that still runs, is in good hands.

`tests/recorded/0.1-cluster` has its directory as the follower of 0.1 left it while the job ran,
what the cluster showed then and when the job had ended, and the logs of its pods with the frames of
the worker of 0.1. It was recorded on a real cluster, and is never made anew.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from apiscene import Scene
from harness import eventually
from logserver import LogServer, PlainClient, Pod, Run

from jupyter_jax_trainer import api
from jupyter_jax_trainer.backends.kubernetes.api import objects
from jupyter_jax_trainer.backends.kubernetes.api.cache import Store
from jupyter_jax_trainer.backends.kubernetes.api.watch import ADDED, GONE
from jupyter_jax_trainer.backends.kubernetes.follow.followed import Followed
from jupyter_jax_trainer.jobdir import layout, store
from jupyter_jax_trainer.jobdir.layout import JobDir

RECORDED = Path(__file__).parent.parent / "recorded/0.1-cluster"
PRINTED = [*(f"step {step}" for step in range(5)), "last line"]


def shown(moment: str) -> dict[str, Any]:
    return dict(json.loads((RECORDED / f"{moment}.json").read_text()))


def lines(pod: str) -> list[bytes]:
    return (RECORDED / f"{pod}.log").read_bytes().splitlines(keepends=True)


def put(cluster: Store, moment: str) -> None:
    """Have the cluster show what it showed at a moment."""
    found = shown(moment)
    cluster.put(ADDED, objects.TrainJob(found["trainjob"]))
    for one in found["jobsets"]:
        cluster.lineage.note_job_set(one["metadata"]["uid"], objects.JobSet(one))
    for one in found["jobs"]:
        cluster.put(ADDED, objects.Job(one))
    for one in found["pods"]:
        cluster.put(ADDED, objects.Pod(one))


@pytest.fixture
def directory(home) -> JobDir:
    """The job's directory, as the follower of 0.1 left it when it was killed."""
    jobs = store.private_directory(layout.jobs_directory())
    shutil.copytree(RECORDED / "old", jobs / "old")
    return layout.find("old")


@pytest.fixture
def cluster() -> Store:
    """What the cluster shows while the job runs."""
    found = Store()
    put(found, "running")
    return found


@pytest.fixture
def server() -> Iterator[LogServer]:
    """The pods and what they have printed while the job ran: all but the last dozen lines."""
    found = LogServer()
    for pod in shown("running")["pods"]:
        name = pod["metadata"]["name"]
        running = [line for line in lines(name) if b"last line" not in line][:12]
        found.pods[name] = Pod(pod["metadata"]["uid"], [Run(running)])
    yield found
    found.close()


def follow(directory: JobDir, url: str) -> Followed:
    lock = directory.take_lock()
    assert lock is not None
    found = Followed(directory, lock, PlainClient(url))
    found.begin(watched=True)
    return found


def test_it_is_listed_and_shown_as_it_was(directory):
    job = api.job("old")
    assert [one.name for one in api.jobs()] == ["old"]
    assert (job.backend.name, job.spec.nodes, job.steps) == ("kubernetes", 2, 5)
    assert [rank.state for rank in job.ranks] == ["Running", "Running"]
    assert [line.text for line in job.logs(0)][-1] == "step 4"
    assert job.trusted  # it has no signature: this store submitted it


def test_it_is_followed_to_its_end_and_its_results_are_fetched(directory, cluster, server):
    followed = follow(directory, server.url)
    for _ in range(5):
        assert not followed.update(cluster)
    job = api.job("old")
    assert job.state == "Running" and [rank.state for rank in job.ranks] == ["Running"] * 2
    put(cluster, "ended")
    for name, pod in server.pods.items():
        pod.now.lines = lines(name)
        pod.now.ended = True
    eventually(lambda: followed.update(cluster))
    followed.streams.close()

    assert job.state == "Succeeded" and [rank.state for rank in job.ranks] == ["Finished"] * 2
    for rank in range(2):  # nothing is lost, and nothing comes twice
        printed = [line.text for line in job.logs(rank)]
        assert printed == [f"rank {rank} of 2", *PRINTED]
        steps = [one["step"] for one in job.metrics() if one["rank"] == rank]
        assert sorted(steps) == [1, 2, 3, 4, 5]
    assert np.array_equal(job.result("w"), np.arange(600, dtype=np.float32))
    assert job.result("text") == "done"


def test_it_is_cancelled(directory, cluster):
    scene = Scene()
    try:
        scene.answers["/api/v1/namespaces/ns/pods"] = {"items": []}
        followed = follow(directory, scene.url)
        followed.update(cluster)
        directory.cancel.touch()
        followed.update(cluster)
        running = shown("running")
        cluster.put(GONE, objects.TrainJob(running["trainjob"]))
        for pod in running["pods"]:
            cluster.put(GONE, objects.Pod(pod))
        eventually(lambda: followed.update(cluster))
        followed.streams.close()
    finally:
        scene.close()
    assert api.job("old").state == "Cancelled"
