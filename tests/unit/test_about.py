"""What a TrainJob's annotations say is taken field by field, or not at all."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_jobs import make_job

from jupyter_jax_trainer.backends.kubernetes.api import claims, identity
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client
from jupyter_jax_trainer.backends.kubernetes.api.marks import uid_of
from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainJob
from jupyter_jax_trainer.backends.kubernetes.follow import attach
from jupyter_jax_trainer.backends.kubernetes.submit import trainjob
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.jobdir import files, layout
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.options import spec
from jupyter_jax_trainer.options.spec import JobSpec, parse_cell_line
from jupyter_jax_trainer.options.table import MAX_NODES

UID = "ab" * 16
SAID: dict[str, Any] = {
    "format": 1,
    "created": 1.5,
    "sent": [{"name": "x", "kind": "value", "type": "int", "size": 8}],
    "returns": False,
    "digest": "0" * 64,
    "python": "3.11.2",
    "package": "0.1.0.dev1+g1",
    "maker": "jo@laptop",
    "spec": {"nodes": 2, "store": "/data", "env": {"A": "b"}, "out": ["loss"], "timeout": 60.0},
    "plan": {
        "runtime": "jax-cpu",
        "runtime_kind": "TrainingRuntime",
        "runs_once": True,
        "device": "cpu",
        "devices_per_node": 1,
        "note": "on Kubernetes",
    },
}
FIELDS = {name: value for name, value in SAID.items() if name != "format"}
KEY = "MDAw" * 21 + "MA=="  # 64 zeros
FUZZ = settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from([10**400, -1, 1 << 70, "..", "/", "a\x1b]52;c;x\x07", "\ud800", "x/../y"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


def made(said: Any = SAID, uid: Any = UID, k8s: str = "k8s-1", name: str = "fit") -> dict[str, Any]:
    text = said if isinstance(said, str) else json.dumps(said)
    return {
        "metadata": {
            "name": name,
            "uid": k8s,
            "annotations": {trainjob.UID: uid, trainjob.ABOUT: text},
        },
        "spec": {},
        "status": {},
    }


def changed(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    said = copy.deepcopy(SAID)
    place = said
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return said


def test_what_we_write_is_taken():
    told = claims.read(TrainJob(made()))
    assert told.uid == UID and told.spec.nodes == 2 and told.spec.env == (("A", "b"),)
    assert told.to_manifest()["spec"] == told.spec.to_json()
    assert {**told.to_manifest(), "spec": 0} == {**FIELDS, "uid": UID, "spec": 0}


def test_what_a_submission_writes_is_read_back():
    line = (
        "fit -n 2 -d tpu --topology 2x4 --devices-per-node 4 --env A=1 --env C= -o a,b --use c "
        "--volume c:/data --store s3://b/x --package 'optax>=0.2' --timeout 1h30m --max-restarts 3 "
        "--queue q --priority p --cpu 500m --memory 4Gi --image a/b:c --detach --dataset hf://a/b"
    )
    given = parse_cell_line(line)
    manifest = {**SAID, "spec": given.to_json(), "plan": {**SAID["plan"], "own_runtime": {"x": 1}}}
    told = claims.read(TrainJob(made(trainjob._about(manifest))))
    assert told.spec == given and "own_runtime" not in told.to_manifest()["plan"]


@pytest.mark.parametrize(
    "uid",
    [
        None,
        "",
        "Documents",
        "..",
        "../../x",
        "AB" * 16,
        "ab" * 15,
        "ab" * 17,
        f"{UID}\n",
        f"{UID}/..",
    ],
)
def test_a_uid_that_is_none_is_refused(uid):
    with pytest.raises(BackendError):
        claims.read(TrainJob(made(uid=uid)))
    assert uid_of(TrainJob(made(uid=uid))) is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "nodes"), MAX_NODES + 1),
        (("spec", "nodes"), 10**9),
        (("spec", "nodes"), 0),
        (("spec", "nodes"), "2 "),
        (("spec", "topology"), "9999x9999x9999"),
        (("spec", "store"), "etc"),
        (("spec", "out"), ["a.b"]),
        (("spec", "env"), {"A=B": "x"}),
        (("spec", "volume"), ["c:/a/../b"]),
        (("spec", "timeout"), float("nan")),
        (("spec", "image"), "-x"),
        (("spec",), []),
        (("created",), float("inf")),
        (("created",), 10**400),
        (("created",), -1),
        (("created",), True),
        (("digest",), "x"),
        (("digest",), "../" * 20),
        (("python",), "3.11\n"),
        (("package",), "$(x)"),
        (("returns",), 1),
        (("maker",), 5),
        (("maker",), ["x"]),
        (("sent",), {}),
        (("sent",), [1]),
        (("sent",), [{"name": "x"}]),
        (("plan",), None),
        (("plan", "runtime"), "../x"),
        (("plan", "runtime_kind"), "Secret"),
        (("plan", "runs_once"), "no"),
        (("plan", "device"), "abacus"),
        (("plan", "devices_per_node"), 10**6),
    ],
)
def test_a_field_that_is_wrong_is_refused(path, value):
    with pytest.raises(BackendError) as told:
        claims.read(TrainJob(made(changed(path, value))))
    assert told.value.hint


@pytest.mark.parametrize("text", ["", "[]", "null", "1", "{", '{"format": 2}', "[" * 100_000])
def test_what_is_none_of_ours_is_refused(text):
    with pytest.raises(BackendError) as refused:
        claims.read(TrainJob(made(text)))
    assert refused.value.id == "cluster.not-ours"


def test_what_is_unknown_is_dropped():
    said = {**changed(("plan", "own_runtime"), {"template": {}}), "origin": {}, "frame_key": "x"}
    said["plan"] |= {"kubeconfig": "/tmp/evil", "shared": "/"}
    said["spec"]["of_tomorrow"] = 1
    manifest = claims.read(TrainJob(made(said))).to_manifest()
    assert manifest.keys() == {*FIELDS, "uid"} and manifest["plan"].keys() == SAID["plan"].keys()
    assert manifest["spec"].keys() == JobSpec().to_json().keys()


PATHS = [(key,) for key in SAID] + [
    (k, n) for k in ("spec", "plan") for n in (*SAID[k], *JobSpec().to_json())
]


@pytest.mark.slow
@FUZZ
@given(path=st.sampled_from(PATHS), value=JSON)
def test_whatever_a_field_holds_is_checked_or_refused(path, value):
    try:
        told = claims.read(TrainJob(made(changed(path, value))))
    except BackendError as error:
        assert error.message.isprintable() and len(error.message) < 1000
        return
    assert 1 <= told.spec.nodes <= MAX_NODES and trainjob.UID_FORM.fullmatch(told.uid)
    text = json.dumps(told.to_manifest(), allow_nan=False)
    assert JobSpec.from_json(json.loads(text)["spec"]) == told.spec
    for one in (told.plan.note or "", *(f"{s.name}{s.kind}{s.type}" for s in told.sent)):
        assert not one or one.isprintable()


@FUZZ
@given(data=st.dictionaries(st.sampled_from([*JobSpec().to_json(), "x"]), JSON, max_size=4))
def test_options_of_others_pass_the_checks_of_a_line_or_are_refused(data):
    try:
        found = spec.checked(data)
    except UsageError:
        return
    assert spec.checked(found.to_json()) == found


# ---------------------------------------------------------------------------- attach


class Cluster:
    """A cluster with these objects, by the ends of their paths."""

    server, context, namespace, identity = "https://c", "ctx", "ns", "f" * 16
    core, trainer = Client.core, Client.trainer

    def __init__(self, **objects: dict[str, Any]) -> None:
        self.objects = objects
        self.asked: list[tuple[str, str]] = []

    def request(self, method: str, path: str, **_: Any) -> dict[str, Any]:
        self.asked.append((method, path))
        name = path.rsplit("/", 1)[-1]
        if name not in self.objects:
            raise ApiError(404, "NotFound", "no", method.lower(), path.rsplit("/", 2)[-2])
        return self.objects[name]


@pytest.fixture
def cluster(home, monkeypatch):
    found = Cluster()
    monkeypatch.setattr(attach, "get_client", lambda *_: found)
    monkeypatch.setattr(attach.launch, "start_follower", lambda plan: None)
    return found


def ended(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}


def test_what_is_refused_touches_nothing(cluster):
    cluster.objects["fit"] = made(changed(("spec", "nodes"), 10**9))
    with pytest.raises(BackendError):
        attach.attach("fit", None, None)
    assert [method for method, _ in cluster.asked] == ["GET"] and layout.list_all() == []


def test_the_store_that_an_annotation_names_is_not_read(cluster, monkeypatch):
    def read(*_: Any) -> bytes:
        raise AssertionError("this is somebody else's choice")

    monkeypatch.setattr(attach.payload, "read", read)
    cluster.objects["fit"] = ended(made())
    cluster.objects[f"fit-{UID[:8]}"] = {
        "metadata": {"labels": {trainjob.UID: UID}},
        "data": {"frame-key": KEY},
    }
    job = Job(attach.attach("fit", None, None))
    assert job.spec.store == "/data" and job.code.startswith("#")


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"frame-key": "!"},
        {"frame-key": "YWJj"},
        {"frame-key": "/////w=="},
    ],
)
def test_a_secret_that_holds_something_else_is_not_used(cluster, data):
    cluster.objects["fit"] = ended(made())
    cluster.objects[f"fit-{UID[:8]}"] = {"metadata": {"labels": {trainjob.UID: UID}}, "data": data}
    directory = attach.attach("fit", None, None)
    assert "frame_key" not in directory.read_manifest() and not directory.bundle.exists()


def forged_bundle(path: Path, code: bytes, method: int, said: int | None = None) -> str:
    """Write a bundle that says another size of its cell than it unpacks to; give its digest."""
    shown = code if said is None else code[:said]
    manifest = json.dumps(
        {"format": 1, "members": {"cell.py": hashlib.sha256(shown).hexdigest()}}
    ).encode()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", manifest)
        archive.writestr("cell.py", code, method)
    whole = struct.pack("<L", zlib.crc32(code)), struct.pack("<L", len(code))
    data = bytearray(path.read_bytes())
    for old, new in zip(whole, (zlib.crc32(shown), len(shown)), strict=True):
        data = data.replace(old, struct.pack("<L", new))
    path.write_bytes(data)
    return hashlib.sha256(manifest).hexdigest()


@pytest.mark.parametrize(
    ("method", "said", "code"),
    [
        (zipfile.ZIP_DEFLATED, None, "# The bundle"),
        (zipfile.ZIP_DEFLATED, 10, "#" * 10),
        (zipfile.ZIP_LZMA, 10, "# The bundle"),
        (zipfile.ZIP_BZIP2, None, "# The bundle"),
    ],
)
def test_a_bundle_that_unpacks_to_more_than_it_says_fills_no_memory(
    cluster, tmp_path, method, said, code
):
    digest = forged_bundle(tmp_path / "bomb", b"#" * (100 << 20), method, said)
    data = base64.b64encode(base64.b64encode((tmp_path / "bomb").read_bytes())).decode()
    cluster.objects["fit"] = ended(made(changed(("digest",), digest)))
    cluster.objects[f"fit-{UID[:8]}"] = {
        "metadata": {"labels": {trainjob.UID: UID}},
        "data": {"frame-key": KEY, "bundle-0": data},
    }
    tracemalloc.start()
    try:
        job = Job(attach.attach("fit", None, None))
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()
    assert job.code.startswith(code)


def test_a_busy_api_does_not_count_as_a_missing_right(cluster, monkeypatch):
    cluster.objects["fit"] = ended(made())
    answer = cluster.request

    def busy(method: str, path: str, **more: Any) -> dict[str, Any]:
        if "/secrets/" in path:
            raise ApiError(503, "ServiceUnavailable", "busy", "get", "secrets")
        return answer(method, path, **more)

    monkeypatch.setattr(cluster, "request", busy)
    with pytest.raises(BackendError):
        attach.attach("fit", None, None)
    assert layout.list_all() == []


def test_a_secret_of_somebody_else_is_not_used(cluster):
    cluster.objects["fit"] = ended(made())
    key = {"frame-key": KEY}
    for metadata in (
        {},
        {"labels": {trainjob.UID: "cd" * 16}},
        {"ownerReferences": [{"uid": "k8s-2"}]},
        {"labels": {trainjob.UID: UID}, "ownerReferences": [{"uid": "k8s-2"}]},
    ):
        cluster.objects[f"fit-{UID[:8]}"] = {"metadata": metadata, "data": key}
        directory = attach.attach("fit", None, None)
        assert "frame_key" not in directory.read_manifest()
        directory.remove()
    cluster.objects[f"fit-{UID[:8]}"] = {
        "metadata": {"ownerReferences": [{"uid": "k8s-1"}]},
        "data": key,
    }
    assert attach.attach("fit", None, None).read_manifest()["frame_key"] == "0" * 64


def test_a_job_is_attached_once_and_its_trainjob_is_noted(cluster):
    cluster.objects["fit"] = ended(made())
    directory = attach.attach("fit", None, None)
    assert directory.read_trainjob_uid() == "k8s-1"
    assert attach.attach("fit", None, None).path == directory.path


def test_when_a_job_was_made_is_the_word_of_the_cluster(cluster):
    cluster.objects["fit"] = ended(made())
    cluster.objects["fit"]["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert Job(attach.attach("fit", None, None)).created == 1767225600.0


def test_a_trainjob_with_copied_annotations_is_not_taken_for_a_known_job(cluster):
    cluster.objects["fit"] = ended(made())
    attach.attach("fit", None, None)
    cluster.objects["other"] = made(name="other", k8s="k8s-2")
    cluster.objects["fit"] = made(k8s="k8s-3")
    for name in ("other", "fit"):
        with pytest.raises(BackendError, match="job fit") as refused:
            attach.attach(name, None, None)
        assert refused.value.id == "follow.another-trainjob"


def test_a_job_of_this_machine_is_not_what_a_trainjob_says_it_is(cluster):
    local = make_job("mine")
    files.write_json(local.manifest, {**local.read_manifest(), "uid": UID})
    cluster.objects["fit"] = made()
    with pytest.raises(BackendError, match="job mine") as refused:
        attach.attach("fit", None, None)
    assert refused.value.id == "follow.another-trainjob"
    assert not local.trainjob.exists()


def test_a_job_of_version_0_1_is_noted_at_first_sight(home):
    directory = make_job("fit")
    manifest = {**directory.read_manifest(), "uid": UID, "backend": "kubernetes"}
    assert (
        not identity.is_jobs(directory, manifest, TrainJob(made(uid="cd" * 16)))
        and not directory.trainjob.exists()
    )
    assert identity.is_jobs(directory, manifest, TrainJob(made()))
    assert directory.read_trainjob_uid() == "k8s-1"
    assert not identity.is_jobs(directory, manifest, TrainJob(made(k8s="k8s-2"))), (
        "the annotation is a copy"
    )
