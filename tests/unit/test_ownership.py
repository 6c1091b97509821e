"""What is a job's is told by uids, owners and our labels; nothing else is deleted or changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_jobs import made_elsewhere, make_job

from jupyter_jax_trainer import cli
from jupyter_jax_trainer.backends.kubernetes import control
from jupyter_jax_trainer.backends.kubernetes.api import identity
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client
from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime, TrainJob
from jupyter_jax_trainer.backends.kubernetes.submit import launch as launching
from jupyter_jax_trainer.backends.kubernetes.submit import payload, restarts, trainjob
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.messages import submit as say_of_submit
from jupyter_jax_trainer.options.spec import JobSpec

UID, OTHER = "ab" * 16, "cd" * 16
TRAINJOB = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs/fit"


class Cluster:
    """A cluster with these objects, by their paths."""

    server, context, namespace, identity = "https://c", "ctx", "ns", "f" * 16
    core, trainer = Client.core, Client.trainer

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.done: list[tuple[str, str, Any]] = []

    def request(self, method: str, path: str, body: Any = None, **_: Any) -> dict[str, Any]:
        if path not in self.objects:
            raise ApiError(404, "NotFound", "no", method.lower(), "things")
        if method != "GET":
            self.done.append((method, path, body))
        return self.objects[path]


@pytest.fixture
def cluster(monkeypatch) -> Cluster:
    found = Cluster()
    monkeypatch.setattr(control, "get_client", lambda *_: found)
    return found


def trainjob_of(k8s: str, uid: str = UID) -> dict[str, Any]:
    return {"metadata": {"name": "fit", "uid": k8s, "annotations": {trainjob.UID: uid}}, "spec": {}}


@pytest.fixture
def directory(home) -> JobDir:
    return made("fit")


def made(name: str, store: str | None = None, **origin: Any) -> JobDir:
    found = make_job(name, spec=JobSpec(nodes=1, store=store))
    plan = {"context": "ctx", "namespace": "ns", "cluster": "f" * 16, "server": "https://c"}
    manifest = {
        **found.read_manifest(),
        "uid": UID,
        "backend": "kubernetes",
        "plan": plan,
        "origin": origin,
        "trainjob": "fit",
    }
    files.write_json(found.manifest, manifest)
    return found


def delete(directory: JobDir) -> None:
    control.delete(directory.read_manifest(), directory)


# ---------------------------------------------------------------------------- the TrainJob


def test_another_trainjob_with_the_same_name_and_annotation_is_left(cluster, directory):
    identity.note(directory, "k8s-1")
    cluster.objects[TRAINJOB] = trainjob_of("k8s-2")
    control.cancel(directory.read_manifest(), directory)
    delete(directory)
    with pytest.raises(UsageError):
        control.set_suspended(directory.read_manifest(), directory, True)
    assert cluster.done == []


def test_the_job_s_own_trainjob_is_changed_whatever_its_annotation_says_now(cluster, directory):
    identity.note(directory, "k8s-1")
    cluster.objects[TRAINJOB] = trainjob_of("k8s-1", uid=OTHER)
    control.set_suspended(directory.read_manifest(), directory, True)
    control.cancel(directory.read_manifest(), directory)
    (_, _, patch), (_, _, deletion) = cluster.done
    assert patch["metadata"] == {"uid": "k8s-1"}, "of another one the API refuses this"
    assert deletion["preconditions"] == {"uid": "k8s-1"}


def test_a_trainjob_that_can_t_have_been_made_by_us_is_not_taken_back(cluster):
    sent = trainjob_of("k8s-1")
    cluster.objects[TRAINJOB] = trainjob_of("k8s-2")
    launching.take_back(cluster, TrainJob(sent))
    assert cluster.done == []
    del sent["metadata"]["uid"]  # no answer came
    launching.take_back(cluster, TrainJob(sent))
    assert [method for method, *_ in cluster.done] == ["DELETE"]


# ---------------------------------------------------------------------------- stores


def stored(root: Path, name: str, marker: str | None) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "precious").write_text("x")
    if marker is not None:
        (folder / payload.MARKER).write_text(marker)
    return folder


def test_a_folder_in_a_store_goes_with_its_own_job_alone(cluster, home, tmp_path, capsys):
    store = tmp_path / "store"
    store.mkdir()
    bundle = tmp_path / "bundle.pyz"
    bundle.write_bytes(b"x")
    payload.upload(bundle, payload.url_of(str(store), UID), UID)
    assert {path.name for path in (store / UID).iterdir()} == {"bundle.pyz", payload.MARKER}
    delete(made("attached", str(store), attached=1.0))
    assert (store / UID).is_dir(), "the path is somebody else's word"
    delete(made("own", str(store)))
    assert not (store / UID).exists() and store.is_dir() and capsys.readouterr().out == ""


@pytest.mark.parametrize("marker", [None, "", OTHER, f"{UID}\n"])
def test_a_folder_without_the_job_s_marker_is_left_and_named(
    cluster, home, tmp_path, capsys, marker
):
    folder = stored(tmp_path, UID, marker)
    delete(made("own", str(tmp_path)))
    assert (folder / "precious").exists()
    assert str(folder) in capsys.readouterr().out


def test_a_folder_that_is_a_link_is_left(cluster, home, tmp_path, capsys):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / UID).symlink_to(stored(tmp_path, "mine", UID))
    delete(made("own", str(tmp_path / "store")))
    assert (tmp_path / "mine" / "precious").exists()
    folder = tmp_path / "store" / UID
    said, _, _ = say_of_submit.FOLDER_NOT_DELETED(folder=folder, reason="…").partition("…")
    assert said in capsys.readouterr().out


def test_a_job_without_a_folder_says_nothing_of_it(cluster, home, tmp_path, capsys):
    delete(made("own", str(tmp_path)))
    assert capsys.readouterr().out == ""


def test_urls_are_treated_alike(tmp_path):
    pytest.importorskip("fsspec")
    bundle = tmp_path / "bundle.pyz"
    bundle.write_bytes(b"x")
    url = payload.url_of(f"memory://jaxtrain-{tmp_path.name}", UID)
    payload.upload(bundle, url, UID)
    assert payload.read(url) == b"x"
    assert "another job" in (payload.remove(url, OTHER) or "") and payload.read(url) == b"x"
    assert payload.remove(url, UID) is None
    with pytest.raises(OSError):
        payload.read(url)
    assert payload.remove(url, UID) is None


# ---------------------------------------------------------------------------- Secrets, runtimes

OWNED = [
    ({"labels": {trainjob.UID: UID}}, True),
    ({"ownerReferences": [{"uid": "k8s-1"}]}, True),
    ({"labels": {trainjob.UID: OTHER}}, False),
    ({"labels": {trainjob.JOB_LABEL: "fit"}}, False),
    ({"ownerReferences": [{"uid": "k8s-2"}]}, False),
    ({"labels": {trainjob.UID: UID}, "ownerReferences": [{"uid": "k8s-2"}]}, False),
    ({"labels": {trainjob.UID: OTHER}, "ownerReferences": [{"uid": "k8s-1"}]}, True),
    ({}, False),
]


@pytest.mark.parametrize(
    ("metadata", "ours"), [*OWNED, ({"annotations": {trainjob.UID: UID}}, True)]
)
def test_a_runtime_is_deleted_only_if_it_is_the_job_s(cluster, metadata, ours):
    path = cluster.trainer("trainingruntimes", "jax-cpu")
    assert restarts.delete(cluster, "jax-cpu", UID, "k8s-1"), "there is none"
    cluster.objects[path] = {"metadata": {"uid": "r", **metadata}}
    assert restarts.delete(cluster, "jax-cpu", UID, "k8s-1") == ours
    assert len(cluster.done) == int(ours)


def test_a_runtime_that_has_the_name_already_is_not_taken_for_ours(cluster):
    mine = TrainingRuntime({"metadata": {"name": "fit-x", "labels": {trainjob.UID: UID}}})
    there = cluster.trainer("trainingruntimes", "fit-x")

    class Taken(Cluster):
        def request(self, method: str, path: str, body: Any = None, **_: Any) -> dict[str, Any]:
            if method == "POST":
                raise ApiError(409, "AlreadyExists", "no", "create", "trainingruntimes")
            return super().request(method, path, body)

    found = Taken()
    found.objects[there] = {"metadata": {"labels": {trainjob.UID: UID}}}
    restarts.create(found, mine)
    found.objects[there] = {"metadata": {"labels": {trainjob.UID: OTHER}}}
    with pytest.raises(ApiError):
        restarts.create(found, mine)


def test_what_is_a_job_s_alone_is_labelled(tmp_path):
    manifest = {"name": "fit", "uid": UID, "plan": {"own_runtime": {"x": 1}, "namespace": "ns"}}
    runtime = restarts.runtime_of(manifest)
    assert runtime is not None and trainjob.belongs(runtime, UID, None)
    packed = payload.Payload("k", [], [{"a": "b"}, {"c": "d"}])
    for item in packed.secrets("fit-abc", trainjob.own_labels(manifest), "ns"):
        assert trainjob.belongs(item, UID, None) and not trainjob.belongs(item, OTHER, None)


# ---------------------------------------------------------------------------- jobs of others


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("Running", ["fit"]),
        ("Succeeded", ["fit"]),
        ("Succeeded", ["--all"]),
    ],
)
def test_delete_leaves_the_trainjob_of_somebody_else(
    cluster, home, capsys, monkeypatch, state, words
):
    monkeypatch.setattr(control.launch, "start_follower", lambda plan: None)
    directory = make_job("fit", state, spec=JobSpec(nodes=1))
    made_elsewhere(directory, "k8s-1", trainjob="fit", uid=UID)
    manifest = directory.read_manifest()
    files.write_json(
        directory.manifest, {**manifest, "plan": {**manifest["plan"], "cluster": "f" * 16}}
    )
    cluster.objects[TRAINJOB] = trainjob_of("k8s-1")
    assert cli.main(["delete", *words, "--yes"]) == 0
    assert say.DELETED_HERE(name="fit") in capsys.readouterr().out
    assert cluster.done == [] and not directory.path.exists()


def test_cancel_still_ends_the_trainjob_that_is_named(cluster, home):
    directory = made("fit", attached=1.0)
    identity.note(directory, "k8s-1")
    cluster.objects[TRAINJOB] = trainjob_of("k8s-1")
    control.cancel(directory.read_manifest(), directory)
    assert [method for method, *_ in cluster.done] == ["DELETE"]
