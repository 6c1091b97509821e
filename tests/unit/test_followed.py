"""A job as its follower knows it, in moments that a real cluster gives nobody the time to test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from apiscene import Scene
from harness import eventually
from logserver import PlainClient
from made_jobs import make_job

from jupyter_jax_trainer import files
from jupyter_jax_trainer.backends.kubernetes import launch, steering, trainjob
from jupyter_jax_trainer.backends.kubernetes.followed import Followed
from jupyter_jax_trainer.backends.kubernetes.store import Store
from jupyter_jax_trainer.backends.kubernetes.watch import ADDED
from jupyter_jax_trainer.jobdir import JobDir
from jupyter_jax_trainer.spec import JobSpec


@pytest.fixture
def scene() -> Iterator[Scene]:
    found = Scene()
    found.answers["/api/v1/namespaces/ns/pods"] = {"items": []}
    yield found
    found.close()


@pytest.fixture
def directory(home) -> JobDir:
    found = make_job(
        "fit", "Running", spec=JobSpec(nodes=2, max_restarts=3),
        results=[], ranks=[{**launch.new_rank(rank), "state": "Failed", "exit": 137} for rank in (0, 1)],
    )  # fmt: skip
    manifest = found.read_manifest()
    plan = {"namespace": "ns", "runs_once": True, "cluster": "c", "own_runtime": None}
    files.write_json(found.manifest, {**manifest, "uid": "u", "backend": "kubernetes", "plan": plan})
    return found


def follow(directory: JobDir, scene: Scene) -> Followed:
    lock = directory.take_lock()
    assert lock is not None
    found = Followed(directory, lock, PlainClient(scene.url))
    found.begin(watched=True)
    return found


def state_of(directory: JobDir) -> dict[str, Any]:
    return dict(json.loads(directory.state.read_text()))


def test_a_job_that_is_suspended_just_after_its_end_has_ended(directory, scene):
    failed = {"type": "Failed", "status": "True", "reason": "x", "message": "boom"}
    store = Store()
    store.put("trainjobs", ADDED, {
        "metadata": {"name": "fit", "uid": "t", "annotations": {trainjob.UID: "u"}},
        "spec": {"suspend": True},
        "status": {"conditions": [failed, {"type": "Suspended", "status": "True", "message": ""}]},
    })  # fmt: skip
    followed = follow(directory, scene)
    eventually(lambda: followed.update(store))
    state = state_of(directory)
    assert state["state"] == "Failed" and state["failure"] is not None


def test_a_follower_that_dies_when_it_has_noted_a_restart_leaves_no_old_ranks(
    directory, scene, monkeypatch
):
    followed = follow(directory, scene)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(followed.record, "event", die)  # the first thing after the restart is written
    with pytest.raises(KeyboardInterrupt):
        followed.ranks.start_again(1, 3)
    state = state_of(directory)
    assert len(state["restarts"]) == 1 and state["progress"] is None
    assert [(rank["exit"], rank["restarts"]) for rank in state["ranks"]] == [(None, 1), (None, 1)]


def test_a_runtime_that_can_t_be_deleted_now_is_deleted_later(scene, monkeypatch):
    monkeypatch.setattr(steering, "_PAUSE", 0.0)
    problems: list[str] = []
    path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainingruntimes/fit-u"
    steers = steering.Steering(PlainClient(scene.url), "fit", "u", problems.append)
    for status in (503, 429, 500):
        scene.answers[path] = status
        assert not steers.drop_runtime("fit-u")
    assert problems == []
    scene.answers[path] = 403
    assert steers.drop_runtime("fit-u") and len(problems) == 1
