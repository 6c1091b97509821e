"""A job as its follower knows it, in moments that a real cluster gives nobody the time to test."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from typing import Any

import podruns
import pytest
from apiscene import Scene
from harness import eventually
from logserver import LogServer, PlainClient, Pod, Run
from made_jobs import make_job

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api import identity, objects
from jupyter_jax_trainer.backends.kubernetes.api.cache import JOB_SET, Store
from jupyter_jax_trainer.backends.kubernetes.api.objects import RANK, ROLE
from jupyter_jax_trainer.backends.kubernetes.api.watch import ADDED, GONE
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes import ended as causes
from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import Verdict
from jupyter_jax_trainer.backends.kubernetes.follow import steering
from jupyter_jax_trainer.backends.kubernetes.follow.ending import failure_of
from jupyter_jax_trainer.backends.kubernetes.follow.followed import Followed
from jupyter_jax_trainer.backends.kubernetes.logs import messages
from jupyter_jax_trainer.backends.kubernetes.submit import (
    images,
    packagecache,
    payload,
    trainjob,
)
from jupyter_jax_trainer.capture.files import gather
from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.describe import remarks
from jupyter_jax_trainer.jobdir.failure import RankEnd
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.state import ErrorRecord, about_restart, new_rank
from jupyter_jax_trainer.messages import channel
from jupyter_jax_trainer.messages import follow as follow_words
from jupyter_jax_trainer.messages import jobs as job_words
from jupyter_jax_trainer.options.spec import JobSpec, parse_cell_line
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.worker import exceptions
from jupyter_jax_trainer.worker.pod.frames import encode

UID = "ab" * 16
FAILED = {"type": "Failed", "status": "True", "reason": "x", "message": "boom"}


@pytest.fixture
def scene() -> Iterator[Scene]:
    found = Scene()
    found.answers["/api/v1/namespaces/ns/pods"] = {"items": []}
    yield found
    found.close()


@pytest.fixture
def directory(home) -> JobDir:
    found = make_job(
        "fit",
        "Running",
        spec=JobSpec(nodes=2, max_restarts=3),
        results=[],
        ranks=[{**new_rank(rank), "state": "Failed", "exit": 137} for rank in (0, 1)],
    )
    manifest = found.read_manifest()
    plan = {"namespace": "ns", "runs_once": True, "cluster": "c", "own_runtime": None}
    files.write_json(
        found.manifest, {**manifest, "uid": UID, "backend": "kubernetes", "plan": plan}
    )
    return found


def with_trainjob(
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
) -> Store:
    """Return what the cluster shows of the job: its TrainJob."""
    store = Store()
    kept = {trainjob.UID: UID, **(annotations or {})}
    metadata = {"name": "fit", "uid": "t", "annotations": kept}
    found = {"metadata": metadata, "spec": spec or {}}
    store.put(ADDED, objects.TrainJob(found if status is None else {**found, "status": status}))
    return store


def follow(directory: JobDir, scene: Scene) -> Followed:
    lock = directory.take_lock()
    assert lock is not None
    found = Followed(directory, lock, PlainClient(scene.url))
    found.begin(watched=True)
    return found


def state_of(directory: JobDir) -> dict[str, Any]:
    return dict(json.loads(directory.state.read_text()))


def test_a_job_that_is_suspended_just_after_its_end_has_ended(directory, scene):
    suspended = {"type": "Suspended", "status": "True", "message": ""}
    store = with_trainjob({"suspend": True}, {"conditions": [FAILED, suspended]})
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

    monkeypatch.setattr(
        followed.record, "event", die
    )  # the first thing after the restart is written
    with pytest.raises(KeyboardInterrupt):
        followed.ranks.start_again(1, 3)
    state = state_of(directory)
    assert len(state["restarts"]) == 1 and state["progress"] is None
    assert [(rank["exit"], rank["restarts"]) for rank in state["ranks"]] == [(None, 1), (None, 1)]


@pytest.mark.parametrize(
    ("reached", "told"),
    [
        (17, True),
        (15, True),
        (5, False),  # its last reports were lost with it
        (None, False),
    ],
)
def test_a_restart_never_goes_on_behind_what_the_attempt_before_had_reached(reached, told):
    restart = {"time": 1.0, "most": 3, "reason": "killed", "reached": reached, "step": 16}
    said = job_words.RESTART_CONTINUES(number=1, most=3, step=16)
    if told:
        said = job_words.ATTEMPT_HAD_REACHED(restart=said, reached=reached)
    assert about_restart([restart]) == said


def test_where_a_rank_has_said_to_be_is_written_and_forgotten_at_a_restart(directory, scene):
    followed = follow(directory, scene)
    said = {"kind": "where", "cell": "Cell", "cell_line": 3, "doing": "psum"}
    for more in ({}, {"frame": "m.py:2", "seconds": 61.5}):  # 0.1 did not say these
        followed.ranks.take(1, messages.read({**said, **more}), 0)
        where = followed.record.state["ranks"][1]["where"]
        assert (where["cell_line"], where["doing"]) == (3, "psum")
        assert (where["frame"], where["seconds"]) == (more.get("frame"), more.get("seconds"))
    eventually(lambda: followed.save() or state_of(directory)["ranks"][1].get("where"))
    assert state_of(directory)["ranks"][1]["where"]["cell_line"] == 3
    followed.ranks.start_again(1, 3)
    assert state_of(directory)["ranks"][1]["where"] is None


def test_ranks_are_reached_by_their_users_own_store_alone(directory, scene):
    own = {**directory.read_manifest(), "frame_key": "0" * 64}
    files.write_json(directory.manifest, own)
    followed = follow(directory, scene)
    found = followed.reach()
    assert found.target is None and found.barrier == channel.NOT_SAID()
    for rank, address in enumerate(("10.0.0.1", "fd00::2")):
        metadata, status = {"name": f"pod-{rank}", "uid": f"p{rank}"}, {"podIP": address}
        pod = objects.Pod({"metadata": metadata, "status": status})
        followed._attempts.pods[pod.uid] = pod
        followed.record.rank(rank)["pod"] = pod.name
        followed.ranks.kept.ports[rank] = 40_000 + rank
    target = followed.reach().target
    assert target is not None and followed.reach().barrier is None
    assert (target.pod, target.port, target.key) == ("pod-0", 40_000, "0" * 64)
    assert target.addresses == {1: ("fd00::2", 40_001)}
    followed.manifest["origin"] = {"attached": 1.0}
    found = followed.reach()
    assert found.target is None and found.barrier == channel.NOT_YOURS()


def test_how_far_its_data_has_come_is_on_the_card(directory, scene):
    followed = follow(directory, scene)
    followed.update(with_trainjob())
    ready = threading.Event()
    sending = threading.Thread(target=ready.wait)
    sending.doing = follow_words.SENDING_SHARE(size="1.0 GB", share=37)
    sending.start()
    followed._sending = sending
    followed.update(with_trainjob())
    assert followed.record.state["reason"] == "sending 1.0 GB to its pods: 37 % done"
    ready.set()
    sending.join()
    followed.update(with_trainjob())
    assert "sending" not in (followed.record.state["reason"] or "")


def test_what_keeps_from_the_channel_is_on_the_card_while_the_job_runs(directory, scene):
    followed = follow(directory, scene)
    words = channel.NO_CHANNEL_TO(ranks="the ranks", reason="no permission")
    shown = lambda: remarks({**followed.record.state, "state": State.RUNNING})  # noqa: E731
    followed.asker._on_lack(words)
    assert shown() == [words] and followed.wants_look()
    followed.asker._on_lack(None)
    assert shown() == []
    followed.asker._on_lack(words)
    followed.record.save()
    os.close(followed.lock)
    followed = follow(directory, scene)
    assert shown() == [], "the next follower has not asked"
    followed.asker._on_lack(words)
    assert remarks({**followed.record.state, "state": State.FAILED}) == []


def test_a_take_over_that_came_too_late_leaves_nothing(directory, scene):
    directory.take_over.touch()
    followed = follow(directory, scene)
    followed._end(State.CANCELLED, None, None)
    assert not directory.take_over.exists()


@pytest.mark.parametrize("label", ["999999", "9" * 63, "-1", "²", "x"])
def test_no_label_makes_a_job_restart_more_often_than_it_may(directory, scene, label):
    store = with_trainjob()
    linked(store)
    forged = pod(owned("Job", "j"))
    forged["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] = label
    store.put(ADDED, objects.Pod(forged))
    followed = follow(directory, scene)
    for _ in range(5):
        followed.update(store)
    followed.streams.close()
    assert followed.record.restarts == (3 if label == "999999" else 0)


def of_attempt(number: int, **metadata: Any) -> list[objects.Pod]:
    """Return the pods of a session's two ranks, as its restart with this number made them."""
    pods = []
    for rank in (0, 1):
        made = pod(owned("Job", "j"))
        labels = {RANK: str(rank), "jobset.sigs.k8s.io/restart-attempt": str(number)}
        made["metadata"]["labels"] |= labels
        own = {"name": f"fit-{number}-{rank}", "uid": f"p{number}{rank}"}
        made["metadata"] |= {**own, **(metadata if rank else {})}
        pods.append(objects.Pod(made))
    return pods


def cell_of_it(name: str) -> JobDir:
    cell = make_job(name, "Queued", spec=JobSpec(nodes=2))
    cell_of = {"session": "fit", "uid": UID, "kernel": "k"}
    files.write_json(cell.manifest, {**cell.read_manifest(), "cell_of": cell_of, "digest": "d"})
    cell.bundle.touch()
    return cell


@pytest.fixture
def kept_session(directory, scene) -> Iterator[tuple[Followed, Store, Any, Any]]:
    """Follow a session that may start again, with a cell that runs and one behind it."""
    own = {**directory.read_manifest(), "frame_key": "0" * 64}
    own["spec"] |= {"session": "fit"}
    files.write_json(directory.manifest, own)
    store = with_trainjob()
    linked(store)
    for one in of_attempt(0):
        store.put(ADDED, one)
    ranks = [new_rank(0), new_rank(1)]
    files.write_json(directory.state, {**state_of(directory), "ranks": ranks})
    followed = follow(directory, scene)
    followed.update(store)
    session = followed.session
    assert session is not None
    session._cells.start()
    cells = [cell_of_it("fit-cell-1"), cell_of_it("fit-cell-2")]
    for cell in cells:
        assert session.accept(cell.path.name, cell.take_lock()) is None
    yield followed, store, *cells
    followed.streams.close()
    session.finish()


LOST = "rank 1 was terminated: its pod was deleted"


def test_a_session_that_has_lost_a_pod_lives_and_hands_its_cells_back(kept_session):
    followed, store, runs, waits = kept_session
    assert state_of(runs)["state"] == "Running"
    store.put(GONE, of_attempt(0, deletionTimestamp="2026-01-01T00:00:00Z")[1])
    followed.update(store)
    assert (state_of(runs)["state"], state_of(runs)["reason"]) == ("Failed", LOST)
    assert state_of(waits)["state"] == "Cancelled" and LOST in state_of(waits)["reason"]
    assert state_of(followed.directory)["reason"].startswith(f"{LOST}; ")
    late = cell_of_it("fit-cell-3")
    assert followed.session.accept("fit-cell-3", late.take_lock()) is None
    store.put(GONE, of_attempt(0)[0])
    for one in of_attempt(1):
        store.put(ADDED, one)
    eventually(lambda: followed.update(store) or followed.record.restarts == 1)
    assert state_of(late)["state"] == "Queued" and not followed.session._cells.ready


def test_cells_end_with_pods_that_were_replaced_while_nobody_looked(kept_session, monkeypatch):
    followed, store, runs, waits = kept_session
    monkeypatch.setattr(type(followed.streams), "idle", True)  # as when nothing was read yet
    for old, new in zip(of_attempt(0), of_attempt(1), strict=True):
        followed._attempts.pods.pop(old.uid)
        store.put(GONE, old)
        store.take_gone(*followed._known_as)
        store.put(ADDED, new)
    eventually(lambda: followed.update(store) or followed.record.restarts == 1)
    assert (state_of(runs)["state"], state_of(waits)["state"]) == ("Failed", "Cancelled")


def test_an_initializer_that_failed_is_named_when_its_pod_is_gone(directory, scene):
    """JobSet deletes the pod at once: its end and its deletion may come in one look."""
    store = with_trainjob(status={"conditions": [FAILED]})
    linked(store)
    fetched = pod(owned("Job", "j"))
    name = "dataset-initializer"
    fetched["metadata"]["labels"][ROLE] = name
    fetched["spec"]["containers"][0]["name"] = name
    ended = {"name": name, "state": {"terminated": {"exitCode": 3}}}
    fetched["status"] = {"phase": "Failed", "containerStatuses": [ended]}
    store.put(ADDED, objects.Pod(fetched))
    store.put(GONE, objects.Pod(fetched))
    followed = follow(directory, scene)
    eventually(lambda: followed.update(store))
    (cause,) = (one for one in causes.OTHER if one.id == "initializer-failed")
    said = cause.say({"what": "the dataset initializer", "code": "3"})
    assert state_of(directory)["failure"]["message"] == said


@pytest.mark.parametrize("marked", [False, True])
def test_the_last_lines_of_an_initializer_are_shown_when_nobody_saw_how_it_ended(
    directory, scene, marked
):
    mark = {trainjob.FAILED: "the dataset initializer failed"} if marked else {}
    store = with_trainjob(status={} if marked else {"conditions": [FAILED]}, annotations=mark)
    linked(store)
    state = state_of(directory)
    ranks = [new_rank(rank) for rank in (0, 1)]
    files.write_json(directory.state, {**state, "ranks": ranks})
    for log in directory.logs.glob("*.log"):
        log.unlink()
    again = "[jaxtrain: restart 1, pod other]"  # nothing came of it before it was stopped
    directory.log("dataset-initializer").write_text(f"fetching\nno such data\n{again}\n")
    followed = follow(directory, scene)
    eventually(lambda: followed.update(store))
    failure = state_of(directory)["failure"]
    assert failure["container"] == "dataset-initializer"
    assert failure["log"] == ["fetching", "no such data"]


# ---------------------------------------------------------------------------- whose word counts

KEY = b"k" * 64
POD = "fit-node-0-0-x"


def owned(kind: str, uid: str) -> list[dict[str, Any]]:
    group = {"Job": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2"}.get(kind, trainjob.API)
    return [{"apiVersion": group, "kind": kind, "name": "fit", "uid": uid, "controller": True}]


def pod(owners: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a pod with the right labels, variables and log."""
    labels = {JOB_SET: "fit", ROLE: "node", RANK: "0"}
    env = [{"name": "JAXTRAIN_JOB_UID", "value": UID}]
    return {
        "metadata": {"name": POD, "uid": "p", "labels": labels, "ownerReferences": owners},
        "spec": {"containers": [{"name": "node", "env": env}]},
        "status": {
            "containerStatuses": [{"name": "node", "restartCount": 0, "state": {"running": {}}}]
        },
    }


@pytest.fixture
def spoken() -> Iterator[LogServer]:
    """Serve the log of a pod that says, signed, that there are results."""
    server = LogServer()
    messages: list[dict[str, Any]] = [
        {
            "kind": "reports",
            "reports": [{"time": 1.0, "step": 1, "total": 2, "values": {"loss": 0.5}}],
        },
        {"kind": "results", "results": [{"name": "x", "type": "int", "size": 1}]},
        {
            "kind": "result_part",
            "index": 0,
            "count": 1,
            "size": 1,
            "sha256": "0" * 64,
            "data": "eA==",
        },
    ]
    frames = [
        frame
        for number, message in enumerate(messages, 1)
        for frame in encode(KEY, 0, "0badcafe", number, message)
    ]
    stamp = b"2026-01-01T00:00:00.00000000%dZ "
    lines = [b"hello\n", *frames, b"bye\n"]
    server.pods[POD] = Pod("p", [Run([stamp % n + line for n, line in enumerate(lines)])])
    yield server
    server.close()


def followed_with(server: LogServer, directory: JobDir, store: Store, log: str) -> JobDir:
    files.write_json(directory.manifest, {**directory.read_manifest(), "frame_key": KEY.decode()})
    store.put(
        ADDED,
        objects.TrainJob(
            {
                "metadata": {"name": "fit", "uid": "t", "annotations": {trainjob.UID: UID}},
                "spec": {},
            }
        ),
    )
    lock = directory.take_lock()
    assert lock is not None
    found = Followed(directory, lock, PlainClient(server.url))
    found.begin(watched=True)

    def has_come() -> bool:
        found.update(store)
        path = directory.log(0)
        return (path.read_text() if path.exists() else "") == log

    eventually(has_come)
    for _ in range(5):  # what follows the text
        time.sleep(0.05)
        found.update(store)
    found.streams.close()
    return directory


def linked(store: Store, trainjob_uid: str = "t") -> None:
    job = {
        "name": "fit",
        "uid": "j",
        "labels": {JOB_SET: "fit"},
        "ownerReferences": owned("JobSet", "s"),
    }
    store.put(ADDED, objects.Job({"metadata": job}))
    owner = {"uid": "s", "ownerReferences": owned("TrainJob", trainjob_uid)}
    store.lineage.note_job_set("s", objects.JobSet({"metadata": owner}))


IMAGE = {
    "kind": "image",
    "python": "3.11",
    "glibc": "2.36",
    "machine": images.machine(),
    "distributions": {"stuff": "1.0", "odd": 3},
}


def test_what_the_first_rank_says_of_its_image_is_remembered(directory, scene):
    store = with_trainjob()
    linked(store)
    followed = follow(directory, scene)
    for rank in (1, 0):
        followed.ranks.take(rank, messages.read({**IMAGE, "python": f"3.1{1 + rank}"}), 0)
    named = f"registry.example/jax@sha256:{'ab' * 32}"
    shown = pod(owned("Job", "j"))
    store.put(ADDED, objects.Pod(shown))
    followed.update(store)
    assert images.remembered(named) is None, "the pod does not say yet which image it is"
    shown["status"]["containerStatuses"][0]["imageID"] = named
    store.put(ADDED, objects.Pod(shown))
    followed.update(store)
    found = images.remembered(named)
    assert found is not None and found.distributions == {"stuff": "1.0"}
    assert found.platform.python == "3.11"


def test_what_others_jobs_say_of_an_image_is_not_remembered(directory, scene):
    store = with_trainjob()
    linked(store)
    files.write_json(directory.manifest, {**directory.read_manifest(), "origin": {"attached": 1.0}})
    followed = follow(directory, scene)
    followed.ranks.take(0, messages.read(IMAGE), 0)
    shown = pod(owned("Job", "j"))
    named = f"jax@sha256:{'ab' * 32}"
    shown["status"]["containerStatuses"][0]["imageID"] = named
    store.put(ADDED, objects.Pod(shown))
    followed.update(store)
    assert followed.ranks.image is None and images.remembered(named) is None


def test_what_the_first_rank_says_of_its_packages_is_remembered(directory, scene, tmp_path):
    bundle, _ = podruns.bundle(tmp_path, "1", wheels={"aid-1.0-py3-none-any.whl": b"aid"})
    shutil.copy(bundle, directory.bundle)
    manifest = directory.read_manifest()
    plan: Any = {**manifest["plan"], "runtime_kind": "K", "runtime": "jax", "shared": "/data"}
    files.write_json(directory.manifest, {**manifest, "plan": plan})
    store = with_trainjob()
    followed = follow(directory, scene)

    def said(rank: int, problem: str | None) -> bool:
        followed.ranks.take(rank, messages.read({"kind": "cached", "problem": problem}), 0)
        followed.update(store)
        return packagecache.has(bundle, followed.spec, plan)

    assert not said(1, None)
    assert said(0, None)
    assert not said(0, "No space left on device")
    assert any("No space left" in line for line in directory.events.read_text().splitlines())


@pytest.mark.parametrize(
    "change", [{"python": 3}, {"distributions": []}, {"glibc": None}, {"machine": {}}]
)
def test_an_odd_word_of_an_image_is_left_out(change):
    assert isinstance(messages.read({**IMAGE, **change}), messages.Odd)


def test_what_the_job_s_own_pod_says_counts(directory, spoken):
    store = Store()
    linked(store)
    store.put(ADDED, objects.Pod(pod(owned("Job", "j"))))
    followed_with(spoken, directory, store, "hello\nbye\n")
    eventually(lambda: state_of(directory)["results"] == [{"name": "x", "type": "int", "size": 1}])
    assert (directory.path / "result.parts").exists()
    assert directory.read_trainjob_uid() == "t"


@pytest.mark.parametrize(
    ("owners", "chain"),
    [
        ([], "t"),
        (owned("Job", "another"), "t"),
        (owned("Job", "j"), "t-2"),
        (owned("TrainJob", "t"), "t"),
    ],
)
def test_a_pod_with_copied_labels_variables_and_key_is_nobody(directory, spoken, owners, chain):
    store = Store()
    linked(store, chain)
    store.put(ADDED, objects.Pod(pod(owners)))
    followed_with(spoken, directory, store, "")
    assert not state_of(directory)["results"] and not (directory.path / "result.parts").exists()
    assert spoken.asked == [], "not even its log is read"


def test_without_the_right_to_look_at_owners_logs_are_shown_and_nothing_is_believed(
    directory, spoken
):
    store = Store()
    store.lineage.blind = True
    store.put(ADDED, objects.Pod(pod(owned("Job", "j"))))
    followed_with(spoken, directory, store, "hello\nbye\n")
    state = state_of(directory)
    assert not state["results"] and state["ranks"][0]["pod"] == POD
    assert not (directory.path / "result.parts").exists() and directory.metrics.exists() is False


def test_a_trainjob_that_was_made_anew_is_not_the_job_s(directory, scene):
    identity.note(directory, "t")
    scene.answers["/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs/fit"] = {
        "metadata": {"name": "fit", "uid": "t-2", "annotations": {trainjob.UID: UID}},
    }
    store = Store()
    store.put(
        ADDED,
        objects.TrainJob(
            {
                "metadata": {"name": "fit", "uid": "t-2", "annotations": {trainjob.UID: UID}},
                "spec": {},
                "status": {"conditions": [{"type": "Complete", "status": "True"}]},
            }
        ),
    )
    followed = follow(directory, scene)
    eventually(lambda: followed.update(store))
    assert state_of(directory)["state"] == "Cancelled", "its own is gone"


@pytest.mark.parametrize(("origin", "deleted"), [({}, 1), ({"attached": 1.0}, 0)])
def test_only_a_job_of_this_store_ends_with_its_directory(
    directory, scene, monkeypatch, origin, deleted
):
    files.write_json(directory.manifest, {**directory.read_manifest(), "origin": origin})
    acted: list[Any] = []
    monkeypatch.setattr(steering.Steering, "delete", lambda _, found: acted.append(found))
    store = with_trainjob()
    followed = follow(directory, scene)
    directory.remove()
    assert followed.update(store) is not bool(deleted) and len(acted) == deleted


def test_a_runtime_that_can_t_be_deleted_now_is_deleted_later(scene, monkeypatch):
    monkeypatch.setattr(steering, "_PAUSE", 0.0)
    problems: list[str] = []
    path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainingruntimes/fit-u"
    steers = steering.Steering(PlainClient(scene.url), "fit", lambda found: True, problems.append)
    for status in (503, 429, 500):
        scene.answers[path] = status
        assert not steers.drop_runtime("fit-u", UID, None)
    assert problems == []
    scene.answers[path] = 403
    assert steers.drop_runtime("fit-u", UID, None)
    assert [getattr(problem, "id", None) for problem in problems] == ["submit.runtime-stays"]


def test_the_end_waits_for_pods_whose_owners_are_not_known_yet(directory, scene, monkeypatch):
    monkeypatch.setattr(steering, "_PAUSE", 0.0)
    monkeypatch.setenv(timeouts.DRAIN.variable, "600")
    late = pod(owned("Job", "unheard of"))
    scene.answers["/api/v1/namespaces/ns/pods"] = {"items": [late]}
    store = Store()
    store.put(
        ADDED,
        objects.TrainJob(
            {
                "metadata": {"name": "fit", "uid": "t", "annotations": {trainjob.UID: UID}},
                "spec": {},
                "status": {"conditions": [{"type": "Complete", "status": "True"}]},
            }
        ),
    )
    followed = follow(directory, scene)
    for _ in range(3):
        assert not followed.update(store)
    monkeypatch.setenv(timeouts.DRAIN.variable, "0.1")
    eventually(lambda: followed.update(store))
    assert "left out" in directory.events.read_text()


@pytest.mark.parametrize(
    ("exit", "joined", "kind"), [(69, False, "start"), (69, True, "exit"), (1, False, "exit")]
)
def test_a_pod_that_says_itself_why_it_did_not_start_is_told_by_its_exit_code(
    home, exit, joined, kind
):
    said = "the disk is on fire"
    directory = make_job("a", "Running", logs={0: [f"{payload.SAID}{said}"]})
    ends = [RankEnd(rank=0, exit=exit, joined=joined)]
    failure = failure_of(directory, ends, {}, Verdict(state="Failed"), ())
    assert payload.NOT_STARTED == 69
    assert (failure.kind, failure.message == said) == (kind, kind == "start")


def error_of(**fields: Any) -> ErrorRecord:
    return {
        "type": "ModuleNotFoundError",
        "message": "",
        "traceback": "",
        "cell_line": 2,
        "secondary": False,
        "hint": None,
        **fields,  # type: ignore[typeddict-item]
    }


def hint_for(directory: JobDir, error: ErrorRecord) -> str | None:
    ends = [RankEnd(rank=0, exit=1, error=error)]
    return failure_of(directory, ends, {}, Verdict(state="Failed"), ()).hint


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("yaml.nodes", "pyyaml"),  # not called like its module
        ("hypothesis", "hypothesis"),
        ("no_such_module", "no_such_module"),
        ("../x", None),
    ],
)
def test_a_missing_module_is_told_by_the_package_that_has_it_here(directory, module, package):
    words = f"No module named '{module}'"
    expected = package and follow_words.NO_MODULE(package=package)
    assert hint_for(directory, error_of(message=words)) == expected
    # A library may raise another error from it.
    traceback = f"ModuleNotFoundError: {words}\n\nThe above …\n\nImportError: Use pip or conda"
    error = error_of(type="ImportError", message="Use pip or conda", traceback=traceback)
    assert hint_for(directory, error) == expected
    assert hint_for(directory, {**error, "type": "ValueError"}) is None


def test_of_a_namespace_the_part_is_named_that_has_the_module(directory, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path / "lib" / "site-packages")
    for part in ("one", "two"):
        for file, text in {
            f"space/{part}/__init__.py": "",
            f"space_{part}-1.0.dist-info/METADATA": f"Name: space-{part}\nVersion: 1.0\n",
            f"space_{part}-1.0.dist-info/RECORD": f"space/{part}/__init__.py,,\n",
        }.items():
            path = tmp_path / "lib" / "site-packages" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    hint = hint_for(directory, error_of(message="No module named 'space.two'"))
    assert hint == follow_words.NO_MODULE(package="space-two")


def test_an_own_module_that_nothing_imports_by_name_is_no_package(directory, tmp_path):
    (tmp_path / "helpers.py").touch()
    files.write_json(
        directory.manifest, {**directory.read_manifest(), "origin": {"cwd": str(tmp_path)}}
    )
    hint = hint_for(directory, error_of(message="No module named 'helpers'"))
    assert hint == follow_words.OWN_MODULE_NOT_SENT(module="helpers")


def test_an_import_of_a_computed_name_fails_as_one_that_is_written(directory):
    """As the worker describes it."""
    try:
        importlib.import_module("no_such_" + "module.of_it")
    except ImportError as error:
        record = exceptions.describe(error, "<Cell>", {})
    assert hint_for(directory, record) == follow_words.NO_MODULE(package="no_such_module")


@pytest.mark.parametrize(
    ("message", "file", "pattern"),
    [
        ("[Errno 2] No such file or directory: 'data/x.csv'", "data/x.csv", "data/x.csv"),
        ("[Errno 2] No such file or directory: './data'", "data", "data"),
        ('[Errno 2] No such file or directory: "it\'s, here"', "it's, here", "'it'\"'\"'s? here'"),
        ("data/x.csv not found.", "data/x.csv", "data/x.csv"),  # numpy.loadtxt
        ("[Errno 2] No such file or directory: 'data/x.csv' -> 'y'", "data/x.csv", "data/x.csv"),
        ("[Errno 2] No such file or directory: 'data/y.csv'", None, None),
        ("[Errno 2] No such file or directory: '../outside'", None, None),
        ("[Errno 2] No such file or directory: '/etc/passwd'", None, None),
        ("[Errno 2] No such file or directory: ''", None, None),
        ("[Errno 2] No such file or directory: '\\N{no such}'", None, None),
        ("[Errno 2] No such file or directory: 'a\\x00b'", None, None),
        (f"[Errno 2] No such file or directory: '{'a' * 3000}'", None, None),
        ("[Errno 2] No such file or directory", None, None),
        ("", None, None),
    ],
)
def test_a_file_beside_the_notebook_is_named_where_the_job_lacks_it(
    directory, tmp_path, message, file, pattern
):
    folder = tmp_path / "notebooks"
    (folder / "data").mkdir(parents=True)
    for name in ("data/x.csv", "it's, here", "../outside"):
        (folder / name).write_text("1")
    error: ErrorRecord = {
        "type": "FileNotFoundError",
        "message": message,
        "traceback": "",
        "cell_line": 2,
        "secondary": False,
        "hint": None,
    }
    manifest = directory.read_manifest()

    def hint(kind: str = "FileNotFoundError", **origin: object) -> str | None:
        files.write_json(directory.manifest, {**manifest, "origin": origin})
        ends = [RankEnd(rank=0, exit=1, error={**error, "type": kind})]
        return failure_of(directory, ends, {}, Verdict(state="Failed"), ()).hint

    expected = file and follow_words.FILE_NOT_SENT(file=file, pattern=pattern)
    assert hint(cwd=str(folder)) == expected
    assert hint("OSError", cwd=str(folder)) is None
    assert hint(attached=1.0) is None  # submitted elsewhere
    if pattern:
        given = parse_cell_line(f"--files {pattern}").files
        assert list(gather(given, folder).paths)
