"""The follower looks at each JobSet once, and says so where it may not."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from apiscene import Scene
from harness import eventually
from logserver import PlainClient

from jupyter_jax_trainer.backends.kubernetes.api import rights
from jupyter_jax_trainer.backends.kubernetes.api.lineage import NOBODY, JobSetRef
from jupyter_jax_trainer.backends.kubernetes.api.objects import Job, Pod
from jupyter_jax_trainer.backends.kubernetes.follow import follower as module
from jupyter_jax_trainer.options.spec import JobSpec

ONE = JobSetRef("v1alpha2", "fit", "s1")
PATH = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets/fit"


def owned(version: str, kind: str, name: str, uid: str) -> list[dict[str, Any]]:
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": uid}
    return [{**owner, "controller": True}]


POD = Pod({"metadata": {"ownerReferences": owned("batch/v1", "Job", "fit-node-0", "j1")}})
BY_JOB_SET = owned("jobset.x-k8s.io/v1alpha2", "JobSet", "fit", "s1")
JOB = Job({"metadata": {"uid": "j1", "ownerReferences": BY_JOB_SET}})


class Counting(PlainClient):
    """Notes what is asked for."""

    asked: list[str]

    def request(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        self.asked.append(path)
        return super().request(method, path, **options)


@pytest.fixture
def follower(monkeypatch):
    scene = Scene()
    client = Counting(scene.url)
    client.asked = []
    found = module.Follower(client)
    found._store.lineage.note_job(JOB)
    followed = SimpleNamespace(
        name="fit", wanted={ONE}, spec=JobSpec(), trouble=None, lacking=[], unseen=None
    )
    found._followed["fit"] = followed  # type: ignore[assignment]
    monkeypatch.setattr(module, "_POLL", 0.05)
    threading.Thread(target=found._look_up, daemon=True).start()
    yield SimpleNamespace(it=found, scene=scene, client=client, followed=followed)
    scene.close()


def turn(parts: Any, seconds: float = 0.4) -> None:
    """Let the main loop go round for a while."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        parts.it._want_owners()
        parts.it._listen()


def owner(parts: Any) -> str | None:
    return parts.it._store.lineage.of_pod(POD)


def test_a_job_set_is_looked_at_once(follower):
    owners = owned("trainer.kubeflow.org/v1alpha1", "TrainJob", "fit", "t1")
    metadata = {"name": "fit", "uid": "s1", "ownerReferences": owners}
    follower.scene.answers[PATH] = {"metadata": metadata}
    eventually(lambda: turn(follower, 0.05) or owner(follower) == "t1")
    turn(follower)
    assert owner(follower) == "t1" and follower.client.asked == [PATH]


def test_a_job_set_that_is_gone_is_nobody_s(follower):
    follower.scene.answers[PATH] = 404
    eventually(lambda: turn(follower, 0.05) or owner(follower) == NOBODY)
    assert not follower.it._store.lineage.blind


def test_an_api_that_is_away_is_asked_again(follower):
    follower.scene.answers[PATH] = 503
    eventually(lambda: turn(follower, 0.05) or len(follower.client.asked) > 1)
    assert owner(follower) is None
    follower.scene.answers[PATH] = 404
    eventually(lambda: turn(follower, 0.1) or owner(follower) == NOBODY)


def test_without_the_right_the_job_says_so_until_it_is_given(follower, monkeypatch):
    follower.scene.answers[PATH] = 403
    eventually(lambda: turn(follower, 0.05) or follower.it._store.lineage.blind)
    turn(follower)
    assert follower.it._store.lineage.blind
    lack = rights.find("get", "jobsets").lack
    assert follower.followed.unseen == lack
    assert follower.followed.lacking == [lack] and follower.client.asked == [PATH]
    monkeypatch.setattr(module, "_ASK_AGAIN", 0.1)
    follower.scene.answers[PATH] = 404
    eventually(lambda: turn(follower, 0.1) or not follower.it._store.lineage.blind)
    assert follower.followed.unseen is None
