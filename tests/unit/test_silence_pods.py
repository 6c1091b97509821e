"""Silent ranks in pods, as their follower learns of them: by what they say, or by asking."""

from __future__ import annotations

import time

import pytest
from apiscene import Scene
from harness import at_line, eventually
from logserver import PlainClient
from made_jobs import make_job

from jupyter_jax_trainer.backends.kubernetes.api import objects
from jupyter_jax_trainer.backends.kubernetes.api.cache import Store
from jupyter_jax_trainer.backends.kubernetes.api.watch import ADDED
from jupyter_jax_trainer.backends.kubernetes.follow.followed import Followed
from jupyter_jax_trainer.backends.kubernetes.follow.steering import Steering
from jupyter_jax_trainer.backends.kubernetes.logs import messages
from jupyter_jax_trainer.backends.kubernetes.submit import trainjob
from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.state import new_rank
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.states import State

UID = "ab" * 16


@pytest.fixture
def scene():
    found = Scene()
    found.answers["/api/v1/namespaces/ns/pods"] = {"items": []}
    yield found
    found.close()


@pytest.fixture
def hang_timeout():
    return None


@pytest.fixture
def followed(home, scene, monkeypatch, hang_timeout):
    monkeypatch.setenv("JAXTRAIN_STUCK_TIMEOUT", "0.2")
    directory = make_job(
        "fit",
        "Running",
        spec=JobSpec(nodes=2, hang_timeout=hang_timeout),
        ranks=[{**new_rank(rank), "state": "Running"} for rank in (0, 1)],
    )
    plan = {"namespace": "ns", "runs_once": True, "cluster": "c", "own_runtime": None}
    manifest = {**directory.read_manifest(), "uid": UID, "backend": "kubernetes", "plan": plan}
    files.write_json(directory.manifest, manifest)
    lock = directory.take_lock()
    assert lock is not None
    found = Followed(directory, lock, PlainClient(scene.url))
    found.begin(watched=True)
    return found


def store(annotations=None, spec=None):
    found = Store()
    metadata = {
        "name": "fit",
        "uid": "t",
        "annotations": {trainjob.UID: UID, **(annotations or {})},
    }
    found.put(ADDED, objects.TrainJob({"metadata": metadata, "spec": spec or {}}))
    return found


def says(followed, rank, line, seconds, **more):
    """Have a rank say where it is, in its log; its clock is hours off, which nobody sees."""
    place = {"cell": "Cell", "cell_line": line, "doing": None, "frame": None, "seconds": seconds}
    followed.ranks.take(rank, messages.read({"kind": "where", "time": 9e9, **place, **more}), 0)


def looks(followed):
    followed.look_after_ranks()
    followed.update(store())
    return Job(followed.directory)


def silences(followed):
    events = Job(followed.directory).events()
    return [event["message"] for event in events if event["kind"] == "silence"]


def test_without_a_channel_what_pods_said_last_counts(followed):
    says(followed, 0, 15, 300.0, waits=True)
    says(followed, 1, 12, 300.0)
    eventually(lambda: looks(followed) and silences(followed))
    (said,) = silences(followed)
    assert say.RANK_WAITS(rank=0, place=at_line(15)) in said
    assert say.RANK_IS_AT(rank=1, place=at_line(12)) in said
    eventually(lambda: looks(followed).reason == said)
    followed.record.reports(0, [{"time": 1.0, "step": 1, "total": None, "values": {}}])
    eventually(lambda: looks(followed).reason != said)


@pytest.mark.parametrize("age", [None, 600.0])
def test_a_pod_that_says_nothing_of_itself_gets_on(followed, age):
    says(followed, 0, 15, 300.0)
    if age is not None:
        says(followed, 1, 12, 300.0)
        followed.record.rank(1)["where"]["time"] -= age
    until = time.monotonic() + 0.6
    while time.monotonic() < until:
        looks(followed)
        time.sleep(0.05)
    assert silences(followed) == []


@pytest.mark.parametrize("hang_timeout", [1.0])
def test_a_job_that_hangs_is_suspended_and_fails_with_the_places(followed, monkeypatch):
    stopped = []
    monkeypatch.setattr(Steering, "stop_reruns", lambda self, found, why: stopped.append(why))
    says(followed, 0, 15, 300.0, waits=True)
    says(followed, 1, 12, 300.0)
    eventually(lambda: looks(followed) and followed.ranks.kept.hung)
    place = say.RANK_IS_AT(rank=1, place=at_line(12))
    assert looks(followed).state == State.RUNNING and place in stopped[0]
    # A follower that comes later knows why.
    later = Followed(followed.directory, followed.lock, followed._client)
    later.begin(watched=True)
    suspended = store({trainjob.FAILED: stopped[0]}, {"suspend": True})
    eventually(lambda: later.update(suspended))
    job = Job(followed.directory)
    assert job.state == State.FAILED and job.failure.kind == "hang"
    assert place in job.failure.message
