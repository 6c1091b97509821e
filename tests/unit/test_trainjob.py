"""From options to a TrainJob and its Secrets, without a cluster."""

from __future__ import annotations

import base64
import hashlib
import marshal
import os
import random
import subprocess
import sys
import uuid
import zipfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    ApiObject,
    TrainingRuntime,
    TrainJob,
)
from jupyter_jax_trainer.backends.kubernetes.submit import launch, payload, runtimes, trainjob
from jupyter_jax_trainer.bundle import write_bundle
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.errors import CaptureError
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import options
from jupyter_jax_trainer.options.spec import parse_cell_line
from jupyter_jax_trainer.worker import main

NOTHING = {"scratch": False, "mesh": False, "restricted": False}
MANY = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def _own_store(tmp_path, monkeypatch):
    """Keep the keys that these tests make out of the developer's own store."""
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path / "store"))


def plan(**changes):
    return {
        "runtime": "jax-cpu",
        "runtime_kind": "ClusterTrainingRuntime",
        "runs_once": True,
        "device": "cpu",
        "devices_per_node": 1,
        "note": "",
        "namespace": "me",
        "pip": [],
        "secret_keys": {},
        "patches": NOTHING,
        **changes,
    }


def objects(path: Path, line: str = "", **changes):
    """Return the payload of a job, its TrainJob and its Secrets."""
    manifest = manifest_of(line, **changes)
    return launch.manifests(path, manifest, parse_cell_line(line), manifest["plan"])


def manifest_of(line: str, **changes):
    """Return the manifest of a job."""
    return {
        "name": "fit",
        "uid": uuid.uuid4().hex,
        "digest": "0" * 64,
        "format": 1,
        "created": 0.0,
        "sent": [],
        "returns": False,
        "python": "3.11.2",
        "package": "1",
        "plan": plan(**changes),
        "spec": parse_cell_line(line).to_json(),
    }


def documents(path: Path, line: str = "", **changes):
    """Return the payload of a job, and the JSON of its objects."""
    packed, job, secrets = objects(path, line, **changes)
    return packed, [one.json for one in (job, *secrets)]


def a_bundle(folder: Path, size: int) -> Path:
    path = folder / "bundle.pyz"
    path.write_bytes(random.Random(size).randbytes(size))
    return path


def a_zipped_bundle(folder: Path, size: int) -> Path:
    """Write a bundle that is larger than its worker by some bytes."""
    path = folder / "bundle.pyz"
    write_bundle(path, "large", capture_cell("print(1)", {}))
    path.write_bytes(random.Random(size).randbytes(size) + path.read_bytes())
    return path


def environment(job):
    return {item["name"]: item for item in job["spec"]["trainer"]["env"]}


# ---- the bundle


@pytest.mark.parametrize(("captured", "most"), [(0, 548 << 10), (300_000, 300_000 + (204 << 10))])
def test_the_worker_stays_within_the_room_that_is_left_for_it(tmp_path, captured, most):
    """A Secret has room for its byte code, too, where little is captured."""
    capture = capture_cell("data", {"data": random.Random(1).randbytes(captured)})
    write_bundle(tmp_path / "bundle.pyz", "small", capture)
    assert (tmp_path / "bundle.pyz").stat().st_size < most


@pytest.mark.parametrize("travels", [True, False])
def test_byte_code_that_travels_has_no_docstrings(tmp_path, travels):
    write_bundle(tmp_path / "bundle.pyz", "small", capture_cell("print(1)", {}), travels=travels)
    with zipfile.ZipFile(tmp_path / "bundle.pyz") as bundle:
        code = bundle.read("jupyter_jax_trainer/worker/main.pyc")
    assert (str(main.__doc__) in marshal.loads(code[16:]).co_consts) is not travels


@pytest.mark.parametrize(
    ("size", "mounts"),
    [
        *((size, False) for size in (1, 90_000, 779_999, 780_000)),
        *((size, True) for size in (1, 90_000, 779_999, 780_000, 780_001, 4_000_000, 8 << 20)),
    ],
)
def test_what_is_sent_is_put_together_again(tmp_path, size, mounts):
    path = a_bundle(tmp_path, size)
    packed, (job, *secrets) = documents(path, mounts=mounts)
    assert packed.mounted is mounts and TrainJob(job).mounts_bundle is mounts
    given = {s["metadata"]["name"]: s["data"] for s in secrets}
    for secret in secrets:
        assert sum(len(base64.b64decode(v)) for v in secret["data"].values()) <= 1 << 20
        assert secret["immutable"] and secret["metadata"]["namespace"] == "me"
    env = environment(job)
    if packed.mounted:
        (patch,) = job["spec"]["runtimePatches"]
        (node,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        (volume,) = node["template"]["spec"]["template"]["spec"]["volumes"]
        named = [s["secret"]["name"] for s in volume["projected"]["sources"]]
        parts = {k: v for name in named for k, v in given[name].items()}
        whole = b"".join(base64.b64decode(parts[name]) for name in sorted(parts))
        assert env["JAXTRAIN_BUNDLE_FILES"]["value"] == "/jaxtrain-bundle"
    else:
        assert "runtimePatches" not in job["spec"]
        texts = []
        for name in sorted(n for n in env if n.startswith("JAXTRAIN_BUNDLE_") and n[16:].isdigit()):
            source = env[name]["valueFrom"]["secretKeyRef"]
            texts.append(base64.b64decode(given[source["name"]][source["key"]]))
            assert len(f"{name}=") + len(texts[-1]) < 128 << 10  # Linux's bound of one variable
        whole = base64.b64decode(b"".join(texts))
    assert whole == path.read_bytes()
    assert env["JAXTRAIN_FILE_SHA256"]["value"] == hashlib.sha256(whole).hexdigest()


def test_a_larger_one_goes_into_a_store_or_follows_the_worker(tmp_path):
    path = a_zipped_bundle(tmp_path, (8 << 20) + 1)
    packed, (job, secret) = documents(path, "--store /data/store/")
    url = environment(job)["JAXTRAIN_BUNDLE_URL"]["value"]
    assert url == packed.upload and url.startswith("/data/store/") and url.endswith("/bundle.pyz")
    assert list(secret["data"]) == [payload.KEY]
    packed, (job, secret) = documents(path, mounts=False)
    env = environment(job)
    data, digests = path.read_bytes(), hashlib.blake2b(digest_size=32)
    for at in range(0, len(data), 1 << 20):
        digests.update(hashlib.blake2b(data[at : at + (1 << 20)], digest_size=32).digest())
    whole = digests.hexdigest()
    assert env["JAXTRAIN_AWAITED"]["value"] == f"{whole}:{path.stat().st_size}"
    assert packed.later == path.stat().st_size
    chunks = sorted(name for name in secret["data"] if name.startswith("bundle-"))
    texts = [base64.b64decode(secret["data"][name]) for name in chunks]
    worker = tmp_path / "worker.pyz"
    worker.write_bytes(base64.b64decode(b"".join(texts)))
    sha256 = hashlib.sha256(worker.read_bytes()).hexdigest()
    assert env["JAXTRAIN_FILE_SHA256"]["value"] == sha256
    with zipfile.ZipFile(path) as one, zipfile.ZipFile(worker) as other:
        there = set(other.namelist())
        assert {"__main__.py", "jupyter_jax_trainer/worker/main.py"} < there < set(one.namelist())
        assert "variables.pkl" not in there


def test_with_a_queue_nothing_is_mounted(tmp_path):
    path = a_zipped_bundle(tmp_path, 780_001)
    for line in ("--queue q", "--queue q --store s3://bucket/x"):
        packed, (job, *_) = documents(path, line)
        assert "runtimePatches" not in job["spec"]
        assert (packed.later > 0) is ("--store" not in line)
        assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "q"


def test_with_a_kueue_that_keeps_patches_a_queue_changes_nothing(tmp_path):
    packed, (job, *_) = documents(a_bundle(tmp_path, 780_001), "--queue q", mounts=True)
    assert packed.mounted and job["spec"]["runtimePatches"]


class Defaulting:
    """The part of an API in which jobs that name no queue get one."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def trainer(self, *names: str) -> str:
        return "/".join(names)

    core = trainer

    def request(self, method, path, query=None, body=None):
        self.asked.append(path + " dryRun" * ("dryRun" in (query or {})))
        labels = {"kueue.x-k8s.io/queue-name": "default", **body["metadata"]["labels"]}
        return {**body, "metadata": {**body["metadata"], "labels": labels}}


@pytest.mark.parametrize(
    ("line", "mounts", "queued"), [("", True, True), ("", False, False), ("--queue q", True, False)]
)
def test_in_a_queue_that_nobody_has_named_a_bundle_is_not_mounted(tmp_path, line, mounts, queued):
    _, job, secrets = objects(a_bundle(tmp_path, 1000), line, mounts=mounts)
    api = Defaulting()
    with pytest.raises(launch.QueuedError) if queued else nullcontext():
        launch.create(api, job, secrets, 1, tmp_path / "undo")  # type: ignore[arg-type]
    created = [] if queued else ["trainjobs", *["secrets"] * len(secrets)]
    assert api.asked == ["trainjobs dryRun", *created]
    assert not (tmp_path / "undo").exists()


def test_a_job_is_finished_as_it_was_begun(tmp_path, monkeypatch):
    directory = JobDir(tmp_path)
    a_bundle(tmp_path, 1000)
    made = []
    monkeypatch.setattr(launch, "add_secrets", lambda *args: made.append(args[2:4]))
    for mounts in (True, False):
        _, begun, _ = objects(directory.bundle, mounts=mounts)
        watched = TrainJob({**begun.json, "spec": {"trainer": {}}})
        api = SimpleNamespace(trainer=lambda *_: "", request=lambda *_, it=begun: it.json)
        launch.finish(api, directory, manifest_of("", mounts=True), watched)  # type: ignore[arg-type]
        job, secrets = made.pop()
        assert job.mounts_bundle is mounts and len(secrets) == 1 + mounts


def test_without_the_channel_what_no_secret_holds_is_refused():
    def no() -> bool:
        return False

    def nobody_asks() -> bool:
        raise AssertionError("a request for nothing")

    spec = parse_cell_line("--queue q")
    payload.check_size(780_001, spec, True, nobody_asks)
    with pytest.raises(CaptureError, match="carries 780 kB") as told:
        payload.check_size(780_001, spec, False, no)
    assert told.value.id == "submit.too-large-in-queue" and "--volume" not in told.value.hint
    with pytest.raises(CaptureError, match=r"takes 8\.4 MB.* carries 8\.4 MB") as told:
        payload.check_size((8 << 20) + 1, spec, True, no)
    assert told.value.id == "submit.too-large" and "--volume PVC:/path" in told.value.hint
    payload.check_size(1 << 40, spec, True, lambda: True)
    payload.check_size(1 << 40, parse_cell_line("--queue q --store /s"), False, nobody_asks)
    large, small = (payload.room(spec, mounts, no).most for mounts in (True, False))
    assert large > 7_500_000 > 780_000 > small


def test_nothing_of_a_job_in_a_queue_is_empty(tmp_path):
    """Kueue writes it back without what is empty, and the change of an immutable field is refused."""
    _, (job, *_) = documents(a_bundle(tmp_path, 1000), "--queue q --cpu 1 --env EMPTY=")

    def empty(value: object, path: str) -> list[str]:
        if isinstance(value, dict):
            return [path] * (not value) + [
                p for k, v in value.items() for p in empty(v, f"{path}.{k}")
            ]
        if isinstance(value, list):
            return [path] * (not value) + [p for v in value for p in empty(v, f"{path}[]")]
        return [path] if value in ("", None, False, 0) else []

    assert not empty(job["spec"], "spec")
    assert environment(job)["EMPTY"] == {"name": "EMPTY"}


@pytest.mark.parametrize("way", ["environment", "files", "store", "damaged"])
def test_the_bootstrap_runs_what_was_sent_and_nothing_else(tmp_path, way):
    bundle = tmp_path / "some.pyz"
    subprocess.run(
        [sys.executable, "-m", "zipapp", "-o", bundle, "-m", "say:hello", _application(tmp_path)],
        check=True,
    )
    env = {"JAXTRAIN_FILE_SHA256": hashlib.sha256(bundle.read_bytes()).hexdigest()}
    if way == "store":
        env["JAXTRAIN_BUNDLE_URL"] = str(bundle)
    elif way == "files":
        parts = tmp_path / "parts"
        parts.mkdir()
        for number, start in enumerate(range(0, bundle.stat().st_size, 100)):
            data = bundle.read_bytes()[start : start + 100]
            (parts / f"part-{number:03}").write_bytes(data)
        env["JAXTRAIN_BUNDLE_FILES"] = str(parts)
    else:
        text = base64.b64encode(bundle.read_bytes()).decode()
        if way == "damaged":
            text = text[:-8] + "AAAAAAA="
        for number, start in enumerate(range(0, len(text), 64)):
            env[f"JAXTRAIN_BUNDLE_{number:03}"] = text[start : start + 64]
    done = subprocess.run(
        [*payload.COMMAND],
        env={**env, "PATH": os.environ["PATH"], "JAXTRAIN_BOOT": payload.BOOTSTRAP},
        capture_output=True,
        text=True,
    )
    if way == "damaged":
        assert done.returncode == payload.NOT_STARTED
        assert done.stderr.startswith(payload.SAID) and "arrived" in done.stderr
    else:
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def _application(folder: Path) -> Path:
    app = folder / "app"
    app.mkdir()
    (app / "say.py").write_text("def hello(): print('hello')")
    return app


def test_without_python_the_command_says_so(tmp_path):
    # All words that name a place are led astray, as in an image that has no Python.
    sh, dash, command = payload.COMMAND
    for place in ("/opt/", "/usr/local/bin/", "/usr/bin/"):
        command = command.replace(place, f"{tmp_path}/")
    done = subprocess.run(
        ["/bin/sh", dash, command], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert sh == "sh" and done.returncode == payload.NOT_STARTED
    assert done.stdout.startswith(payload.SAID) and "no Python" in done.stdout


# ---- checkpoints


@pytest.mark.parametrize(
    ("line", "shared", "root"),
    [
        ("", None, None),
        ("", "/data", "/data/jaxtrain/me"),
        ("--volume claim:/mine", "/data", "/mine/jaxtrain"),
        ("--store /store/", "/data", "/store/jaxtrain/me"),
        ("--store s3://bucket", "/data", "/data/jaxtrain/me"),
        ("--queue team", "/data", "/data/jaxtrain/me"),
    ],
)
def test_checkpoints_are_on_what_the_job_names_else_on_what_the_runtime_has(
    tmp_path, line, shared, root
):
    _, (job, *_) = documents(a_bundle(tmp_path, 100), line, shared=shared)
    found = environment(job).get("JAXTRAIN_CHECKPOINT_DIR", {}).get("value")
    assert found == (root and f"{root}/fit/checkpoints")
    assert "--queue" not in line or "runtimePatches" not in job["spec"]


# ---- names


@MANY
@given(nodes=st.integers(1, 99_999), initializers=st.booleans())
def test_the_longest_pod_name_has_63_characters(nodes, initializers):
    jobs = ["dataset-initializer", "node"] if initializers else ["node"]
    name = "n" * trainjob.max_name(jobs, nodes)
    # JobSet: name-replicated job-number of the job; the Job: its number and five characters.
    pods = [f"{name}-{job}-0-{nodes - 1 if job == 'node' else 0}-abcde" for job in jobs]
    assert max(map(len, pods)) == 63


# ---- the TrainJob


SIGNS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@MANY
@given(values=st.lists(SIGNS, max_size=4), folder=st.just(None))
def test_yaml_gives_back_what_was_written(tmp_path, values, folder):
    path = a_bundle(tmp_path, 100)
    _, made = documents(path)
    made[0]["spec"]["trainer"]["env"] += [
        {"name": f"V{n}", "value": v} for n, v in enumerate(values)
    ]
    text = trainjob.to_yaml(map(ApiObject, made))
    assert list(yaml.safe_load_all(text)) == made
    assert "&id" not in text and "!!" not in text


def test_only_what_a_job_needs_is_patched(tmp_path):
    path = a_bundle(tmp_path, 100)
    line = "-n 3 --timeout 90s --cpu 2 --memory 1Gi --image a/b:1"
    _, (job, _) = documents(path, line, mounts=False)
    trainer = job["spec"]["trainer"]
    assert "runtimePatches" not in job["spec"] and job["spec"]["activeDeadlineSeconds"] == 90
    assert trainer["numNodes"] == 3 and trainer["image"] == "a/b:1"
    assert trainer["resourcesPerNode"] == {
        "requests": {"cpu": "2", "memory": "1Gi"},
        "limits": {"memory": "1Gi"},
    }
    every = dict.fromkeys(NOTHING, True)
    _, (job, *_) = documents(path, "--volume claim:/data --service-account me", patches=every)
    (patch,) = job["spec"]["runtimePatches"]
    (node,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    template = node["template"]["spec"]["template"]
    pod, (container,) = template["spec"], template["spec"]["containers"]
    assert template["metadata"]["labels"] == {"sidecar.istio.io/inject": "false"}
    assert pod["serviceAccountName"] == "me" and pod["securityContext"]["runAsNonRoot"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounts) == {volume["name"] for volume in pod["volumes"]}
    assert "/data" in mounts.values() and "/jaxtrain-bundle" in mounts.values()
    assert len(mounts) == 3
    env = environment(job)
    assert env["JAXTRAIN_SCRATCH"]["value"] in mounts.values()
    assert env["JAXTRAIN_CHECKPOINT_DIR"]["value"].startswith("/data/")


def test_the_time_for_the_rendezvous_goes_along_where_it_is_set(tmp_path, monkeypatch):
    bundle = a_bundle(tmp_path, 1000)
    name = timeouts.RENDEZVOUS.variable
    monkeypatch.delenv(name, raising=False)
    assert name not in environment(documents(bundle)[1][0]), "a runtime may say it"
    monkeypatch.setenv(name, "60")
    assert environment(documents(bundle)[1][0])[name]["value"] == "60.0"
    assert environment(documents(bundle, f"--env {name}=5")[1][0])[name]["value"] == "5"


def test_the_users_variables_have_the_last_word(tmp_path):
    path = a_bundle(tmp_path, 100)
    _, (job, *_) = documents(
        path, "--env A=own --env JAX_PLATFORMS=tpu", secret_keys={"s": ["A", "B"], "t": ["B", "C"]}
    )
    env = environment(job)
    assert env["A"]["value"] == "own" and env["JAX_PLATFORMS"]["value"] == "tpu"
    assert env["B"]["valueFrom"]["secretKeyRef"] == {"name": "s", "key": "B"}
    assert env["C"]["valueFrom"]["secretKeyRef"] == {"name": "t", "key": "C"}
    assert len(env) == len(job["spec"]["trainer"]["env"]), "no name comes twice"


@pytest.mark.parametrize("kind", ["stock", "ours"])
def test_what_a_runtime_lacks_is_seen(kind):
    if kind == "stock":
        pod = {"containers": [{"name": "node", "image": "i"}]}
        template, job_set = {"spec": pod}, {}
        spec = {"template": template}
    else:
        text = (Path(__file__).parents[2] / "runtimes" / "cpu" / "jax-cpu.yaml").read_text()
        item = TrainingRuntime(yaml.safe_load(text))
        assert runtimes.runs_once(item)
        assert runtimes.patches(item, restricted=True) == NOTHING
        return
    job_set["replicatedJobs"] = [{"name": "node", "template": {"spec": spec}}]
    item = TrainingRuntime({"metadata": {"name": "stock"}, "spec": {"template": {"spec": job_set}}})
    assert not runtimes.runs_once(item)
    assert runtimes.patches(item, restricted=True) == dict.fromkeys(NOTHING, True)
    assert not runtimes.patches(item, restricted=False)["restricted"]


def test_a_message_of_the_catalogue_is_written_as_the_string_that_it_is():
    written = trainjob.to_yaml([ApiObject({"note": options.HELP_REQUESTED()})])
    assert yaml.safe_load(written) == {"note": str(options.HELP_REQUESTED())}
