"""Where jobs can run, as a page is told: without secrets, in time, and not again and again."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes import backend as of_clusters
from jupyter_jax_trainer.backends.kubernetes import connection, control
from jupyter_jax_trainer.backends.kubernetes.api import kubeconfig
from jupyter_jax_trainer.backends.kubernetes.api.answers import ApiError
from jupyter_jax_trainer.backends.kubernetes.api.objects import ApiObject, TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.backend import KubernetesBackend
from jupyter_jax_trainer.backends.kubernetes.submit.runtimes import describe
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import shown_yaml
from jupyter_jax_trainer.backends.local import doctor as local
from jupyter_jax_trainer.backends.local import runtimes
from jupyter_jax_trainer.backends.local.backend import LocalBackend
from jupyter_jax_trainer.doctor import report
from jupyter_jax_trainer.doctor.finding import FAIL, OK, WARN, Finding
from jupyter_jax_trainer.errors import BackendError, JobNotFound, UsageError
from jupyter_jax_trainer.installation import install_command
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import cluster as say_of_cluster
from jupyter_jax_trainer.messages import kubernetes
from jupyter_jax_trainer.messages import local as say
from jupyter_jax_trainer.messages import local_doctor as say_doctor
from jupyter_jax_trainer.queries import asking, targets
from jupyter_jax_trainer.queries.allowed import Allowed

RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {
        "name": "jax-cpu",
        "labels": {
            "jupyter-jax-trainer/python": "3.11",
            "trainer.kubeflow.org/support": "deprecated",
        },
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": '{"env": "hunter2"}',
            "mine": "stays",
        },
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {
        "mlPolicy": {"jax": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "spec": {
                                "template": {
                                    "spec": {
                                        "initContainers": [
                                            {
                                                "name": "a",
                                                "env": [{"name": "HF_TOKEN", "value": "hunter2"}],
                                            }
                                        ],
                                        "containers": [
                                            {
                                                "name": "node",
                                                "image": "team/jax:1",
                                                "env": [
                                                    {"name": "NCCL_DEBUG", "value": "INFO"},
                                                    {"name": "DB", "value": "hunter2"},
                                                    {
                                                        "name": "KEY",
                                                        "valueFrom": {
                                                            "secretKeyRef": {
                                                                "name": "s",
                                                                "key": "k",
                                                            }
                                                        },
                                                    },
                                                ],
                                            }
                                        ],
                                    }
                                }
                            }
                        },
                    }
                ]
            }
        },
    },
}


def config(path: Path, current: str | None, **namespaces: str | None) -> Path:
    contexts = [
        {"name": name, "context": {"cluster": "c", "user": "u", **({"namespace": n} if n else {})}}
        for name, n in namespaces.items()
    ]
    path.write_text(
        json.dumps(
            {
                "current-context": current,
                "contexts": contexts,
                "clusters": [{"name": "c", "cluster": {"server": "https://me:hunter2@10.0.0.1"}}],
                "users": [{"name": "u", "user": {"token": "hunter2"}}],
            }
        )
    )
    return path


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the test no cluster but its own, and no answers of another test."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    asking._answers.clear()
    yield
    asking._answers.clear()


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = config(tmp_path / "first", None, gke="team-a", kind=None)
    second = config(tmp_path / "second", "kind", kind="other", third=None)
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path}/nowhere:{second}")


class Cluster:
    """Answers in place of a client."""

    server, namespace, identity = "https://me:hunter2@10.0.0.1", "team-a", "one"

    def __init__(self, **objects: Any) -> None:
        self.objects, self.asked = objects, []

    def request(self, _method: str, path: str) -> dict[str, Any]:
        self.asked.append(path)
        name = path.split("/")[-1]
        if name not in self.objects or path.startswith("/trainingruntimes"):
            raise ApiError(404, "NotFound", "not found", "get", "things")
        return self.objects[name]

    def trainer(self, resource: str, name: str = "") -> str:
        return f"/{resource}/{name}" if name else f"/{resource}"


# ---------------------------------------------------------------------------- the list


def test_without_a_cluster_there_is_this_machine():
    assert targets.places() == [
        {
            "id": "local",
            "backend": "local",
            "cluster": False,
            "runtime_prefix": "local-",
            "label": "this machine",
            "context": None,
            "namespace": None,
            "current": False,
            "problem": None,
            "hint": None,
        }
    ]


def test_the_contexts_of_all_files_are_places_and_nothing_secret_is_told(two):
    found = targets.places()
    assert [place["cluster"] for place in found[1:]] == [True] * len(found[1:])
    told = [(p["id"], p["context"], p["namespace"], p["label"], p["current"]) for p in found[1:]]
    assert told == [
        ("context:gke", "gke", "team-a", "team-a · gke", False),
        ("context:kind", "kind", "default", "default · kind", True),  # the first file has it first
        ("context:third", "third", "default", "default · third", False),
    ]
    assert not any(p["problem"] for p in found)
    assert "hunter2" not in json.dumps(found) and "10.0.0.1" not in json.dumps(found)


def test_the_list_is_that_of_the_official_client(two):
    from kubernetes.config.kube_config import KubeConfigMerger

    merged = KubeConfigMerger(":".join(name for name, *_ in kubeconfig.stamp()))
    contexts = {c.value["name"]: c.value["context"] for c in merged.config.value["contexts"]}
    # Of several files the client takes the last one's current context, kubectl the first one's.
    named = [file["current-context"] for file in merged.config_files.values()]
    current = next(filter(None, named))
    found = targets.places()[1:]
    assert [p["context"] for p in found] == list(contexts)
    assert [p["context"] for p in found if p["current"]] == [current]
    assert [p["namespace"] for p in found] == [
        c.get("namespace", "default") for c in contexts.values()
    ]


def test_a_changed_kubeconfig_is_read_again(two, tmp_path):
    assert len(targets.places()) == 4
    config(tmp_path / "new", "new", new="x").replace(tmp_path / "first")
    assert [p["id"] for p in targets.places()] == [
        "local",
        "context:new",
        "context:kind",
        "context:third",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("users: [hunter2", 1),
        ("hunter2", None),
        ("contexts: [{context: hunter2}]", None),
        ("\x00", None),
        ("contexts: [hunter2]", None),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_a_problem_and_no_exception(
    tmp_path, monkeypatch, text, line
):
    (tmp_path / "config").write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    _, found = targets.places()
    assert (found["id"], found["backend"]) == ("kubernetes", "kubernetes")
    path = tmp_path / "config"
    assert found["problem"] == (
        say_of_cluster.BAD_KUBECONFIG_LINE(path=path, line=line)
        if line
        else say_of_cluster.BAD_KUBECONFIG(path=path)
    )
    assert "hunter2" not in json.dumps(found)


def test_files_that_are_not_there_or_may_not_be_read(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    assert str(tmp_path / "nowhere") in targets.places()[1]["problem"]
    config(tmp_path / "config", "a", a=None)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))

    def refuse(_path: Path) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    assert targets.places()[1]["problem"] == say_of_cluster.UNREADABLE_KUBECONFIG(
        path=tmp_path / "config", error="Permission denied"
    )


def test_without_the_package_it_is_said_how_to_get_it(two, monkeypatch):
    monkeypatch.setattr(of_clusters, "find_spec", lambda name: None)
    _, found = targets.places()
    said = say_of_cluster.NOT_INSTALLED(command=install_command("kubernetes"))
    assert (found["problem"], found["hint"]) == (said, said.hint)


def test_in_a_pod_its_cluster_is_a_place_where_there_is_no_kubeconfig(two, tmp_path, monkeypatch):
    monkeypatch.setattr(kubeconfig, "in_cluster", lambda: True)
    monkeypatch.setattr(connection, "get_client", lambda: Cluster())
    assert "pod" not in [p["id"] for p in targets.places()]
    monkeypatch.delenv("KUBECONFIG")
    _, found = targets.places()
    assert (found["id"], found["context"], found["namespace"]) == ("pod", None, "team-a")
    assert found["label"] == f"team-a · {kubernetes.THIS_POD()}" and found["current"]


def test_listing_does_not_import_the_official_client(two):
    import subprocess

    code = (
        "import sys; from jupyter_jax_trainer.queries import targets as places\n"
        "assert len(places.places()) == 4; sys.exit('kubernetes' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_only_places_of_the_list_are_found(two):
    assert targets.find("local").backend == "local"
    assert targets.find("context:gke").namespace == "team-a"
    there = targets.find("context:gke", "team-b")
    assert (there.context, there.namespace, there.label) == ("gke", "team-b", "team-b · gke")
    with pytest.raises(UsageError, match="'context:other'"):
        targets.find("context:other")
    with pytest.raises(UsageError, match="namespace 'A/b'") as caught:
        targets.find("context:gke", "A/b")
    assert caught.value.id == "options.not-a-label"
    with pytest.raises(UsageError) as refused:
        targets.find("local", "team-b")
    assert refused.value.id == "local.no-namespaces"


def test_pages_may_ask_about_what_is_allowed(two):
    some = Allowed(["g*", "third"], ["team-?", "default"])
    assert [p["id"] for p in targets.places(some)] == ["local", "context:gke", "context:third"]
    assert targets.find("local", allowed=some).backend == "local"
    assert targets.find("context:gke", allowed=some).namespace == "team-a"
    assert targets.find("context:third", "team-b", some).namespace == "team-b"
    with pytest.raises(UsageError, match="'kube-system'") as refused:
        targets.find("context:gke", "kube-system", some)
    assert refused.value.id == "queries.namespace-forbidden"
    assert "c.JaxTrain.allowed_namespaces" in refused.value.hint
    with pytest.raises(UsageError, match="context 'kind'") as refused:
        targets.find("context:kind", "team-a", some)
    assert "allowed_contexts" in refused.value.hint
    with pytest.raises(
        UsageError, match="namespace 'team-a'"
    ):  # the context's own, which nobody named
        targets.find("context:gke", allowed=Allowed(namespaces=["default"]))
    with pytest.raises(UsageError, match="namespace 'team-a'"):
        targets.find("context:gke", allowed=Allowed(namespaces=[]))


def test_the_cluster_of_this_pod_is_no_context(monkeypatch):
    monkeypatch.setattr(kubeconfig, "in_cluster", lambda: True)
    monkeypatch.setattr(connection, "get_client", lambda: Cluster())
    assert targets.find("pod", allowed=Allowed(contexts=[])).namespace == "team-a"
    with pytest.raises(UsageError, match="namespace 'team-a'"):
        targets.find("pod", allowed=Allowed(namespaces=["team-b"]))


# ---------------------------------------------------------------------------- what is there


def test_the_health_of_this_machine_is_what_is_not_well_and_a_few_figures(home, monkeypatch):
    monkeypatch.setattr(runtimes, "local_gpus", lambda: [])
    found = targets.health(targets.find("local"))
    titles = [f["title"] for f in found]
    assert titles[:2] == ["Python", "jax"] and "Locks" not in titles
    assert found[0]["level"] == "ok" and found[0]["hint"] is None
    asking._answers.clear()
    monkeypatch.setattr(
        local, "_CHECKS", ((say_doctor.LOCKS, lambda: Finding(WARN, "Locks", "odd", "Do it.")),)
    )
    assert targets.health(targets.find("local")) == [
        {"level": "warning", "title": "Locks", "detail": "odd", "hint": "Do it."}
    ]


def test_the_health_of_a_cluster_is_what_doctor_says(two, monkeypatch):
    asked = []

    def examine(*args: Any) -> Iterator[Finding]:
        asked.append(args)
        yield Finding(OK, "Cluster", "https://me:hunter2@10.0.0.1, namespace team-a")
        yield Finding(FAIL, "Rights", "none", "Ask.")

    monkeypatch.setattr(report, "examine", examine)
    place = targets.find("context:gke", "team-b")
    expected = [
        {
            "level": "ok",
            "title": "Cluster",
            "detail": "https://…@10.0.0.1, namespace team-a",
            "hint": None,
        },
        {"level": "error", "title": "Rights", "detail": "none", "hint": "Ask."},
    ]
    assert targets.health(place) == expected == targets.health(place)
    assert asked == [("kubernetes", "gke", "team-b")]


def test_a_cluster_that_does_not_answer_is_not_waited_for(two, monkeypatch):
    end = threading.Event()

    def examine(*_args: Any) -> Iterator[Finding]:
        yield Finding(OK, "Package kubernetes", "37")
        end.wait(60)

    monkeypatch.setattr(report, "examine", examine)
    monkeypatch.setenv(timeouts.PLACES.variable, "0.1")
    began = time.monotonic()
    found = targets.health(targets.find("context:gke"))
    end.set()
    assert time.monotonic() - began < 30
    assert [(f["level"], f["title"]) for f in found] == [
        ("ok", "Package kubernetes"),
        ("error", "Cluster"),
    ]
    assert "timed out" in found[1]["detail"]


def test_a_place_with_a_problem_has_a_health(tmp_path, monkeypatch):
    (tmp_path / "config").write_text("users: [hunter2")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    place = targets.find("kubernetes")
    last = targets.health(place)[-1]
    said = say_of_cluster.BAD_KUBECONFIG_LINE(path=tmp_path / "config", line=1)
    assert last["level"] == "error" and said in last["detail"]
    with pytest.raises(BackendError) as error:
        targets.runtimes(place)
    assert error.value.message == said


def test_runtimes(two, monkeypatch):
    (here,) = targets.runtimes(targets.find("local"))
    assert (here["name"], here["nodes"], here["image"]) == ("local-cpu", [1, 4096], None)
    there = describe(TrainingRuntime(RUNTIME))
    asked = []

    def cluster_runtimes(_: KubernetesBackend, *args: Any) -> list[Any]:
        asked.append(args)
        return [there]

    monkeypatch.setattr(KubernetesBackend, "runtimes", cluster_runtimes)
    for _ in range(2):
        (found,) = targets.runtimes(targets.find("context:gke"))
    assert asked == [("gke", "team-a")]
    assert set(found) == {
        "name",
        "backend",
        "device",
        "nodes",
        "description",
        "python",
        "jax",
        "devices",
        "image",
        "deprecated",
        "problem",
    }
    assert (found["name"], found["image"], found["deprecated"]) == ("jax-cpu", "team/jax:1", True)


def test_a_runtime_without_an_image():
    item = {"kind": "TrainingRuntime", "metadata": {"name": "a"}, "spec": {}}
    found = describe(TrainingRuntime(item))
    assert (found.image, found.deprecated) == (None, False)
    assert found.description == "TrainingRuntime, no image"


def test_an_error_names_no_credentials(two, monkeypatch):
    def refuse(*_args: Any) -> list[Any]:
        raise BackendError("The cluster at https://me:hunter2@10.0.0.1 does not answer.", "Hint.")

    monkeypatch.setattr(KubernetesBackend, "runtimes", refuse)
    with pytest.raises(BackendError, match=r"at https://…@10\.0\.0\.1 does not answer") as error:
        targets.runtimes(targets.find("context:gke"))
    assert error.value.hint == "Hint."


def test_a_runtime_as_the_cluster_has_it(two, monkeypatch):
    cluster = Cluster(**{"jax-cpu": RUNTIME})
    monkeypatch.setattr(connection, "get_client", lambda *args: cluster)
    place = targets.find("context:gke")
    found = targets.runtime_yaml(place, "jax-cpu")
    assert yaml.safe_load(found)["metadata"]["name"] == "jax-cpu"
    assert targets.runtime_yaml(place, "jax-cpu") == found and len(cluster.asked) == 2  # two kinds
    with pytest.raises(UsageError, match="runtime other"):
        targets.runtime_yaml(place, "other")
    count = len(cluster.asked)
    with pytest.raises(UsageError, match="'../secrets'") as caught:
        targets.runtime_yaml(place, "../secrets")
    assert caught.value.id == "options.not-a-subdomain"
    with pytest.raises(UsageError) as refused:
        targets.runtime_yaml(targets.find("local"), "local-cpu")
    assert refused.value.message == say.RUNTIMES_HAVE_NO_YAML()
    assert len(cluster.asked) == count


def test_nothing_secret_is_in_a_yaml():
    before = json.dumps(RUNTIME)
    text = shown_yaml(TrainingRuntime(RUNTIME))
    assert json.dumps(RUNTIME) == before and "hunter2" not in text
    found = yaml.safe_load(text)
    assert list(found) == ["apiVersion", "kind", "metadata", "spec"]
    assert "managedFields" not in found["metadata"]
    assert text.startswith("# ") and "…" in text
    pod = found["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"][
        "spec"
    ]
    assert pod["containers"][0]["env"] == [
        {"name": "NCCL_DEBUG", "value": "INFO"},
        {"name": "DB", "value": "…"},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    assert shown_yaml(ApiObject({"kind": "A"})) == "kind: A\n"


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA_API_KEY",
        "LANGCHAIN_API_KEY",
        "LANGFUSE_SECRET",
        "JAX_TOKEN",
        "HOME_PASSWORD",
        "PATHS",
        "PYTHON_GITLAB",
        "TZX",
        "NCCL_auth",
        "nccl_debug",
        "",
    ],
)
def test_what_only_begins_like_a_harmless_variable_is_hidden(name):
    text = shown_yaml(ApiObject({"env": [{"name": name, "value": "hunter2"}]}))
    assert "hunter2" not in text and text.startswith("# ") and "…" in text


def test_harmless_variables_are_shown():
    names = ["JAX_PLATFORMS", "XLA_FLAGS", "NVIDIA_VISIBLE_DEVICES", "PYTHONPATH", "LANG", "LC_ALL"]
    text = shown_yaml(ApiObject({"env": [{"name": name, "value": "shown"} for name in names]}))
    assert text.count("shown") == len(names)


def manifest(**other: Any) -> dict[str, Any]:
    return {
        "backend": "kubernetes",
        "name": "fit",
        "uid": "0" * 32,
        "plan": {"context": "gke", "namespace": "team-a", "cluster": "c", "server": "s"},
        **other,
    }


def test_the_trainjob_of_a_job(two, monkeypatch, tmp_path):
    about = {"jupyter-jax-trainer/uid": "0" * 32, "jupyter-jax-trainer/job": '{"env": "hunter2"}'}
    item = {"kind": "TrainJob", "metadata": {"name": "fit", "uid": "t", "annotations": about}}
    monkeypatch.setattr(control, "get_client", lambda *args: Cluster(fit=item))
    here = JobDir(tmp_path)
    found = control.job_yaml(manifest(), here)
    assert "kind: TrainJob" in found and "hunter2" not in found
    (tmp_path / "new").mkdir()
    again = {**item, "metadata": {**item["metadata"], "uid": "of another one"}}
    monkeypatch.setattr(control, "get_client", lambda *args: Cluster(fit=again))
    for gone, where in (
        (manifest(), here),
        (manifest(uid="1" * 32), JobDir(tmp_path / "new")),
        (manifest(name="other"), here),
    ):
        with pytest.raises(JobNotFound, match="gke") as caught:
            control.job_yaml(gone, where)
        assert caught.value.id == "kubernetes.gone-from-context"
    with pytest.raises(JobNotFound) as refused:
        LocalBackend().job_yaml(here)
    assert refused.value.id == "local.job-has-no-trainjob"


# ---------------------------------------------------------------------------- asking


def test_an_answer_is_kept_for_a_while_an_error_as_well(monkeypatch):
    made = []

    def make() -> int:
        made.append(1)
        if len(made) == 2:
            raise UsageError("No.", "Hint.")
        return len(made)

    assert [asking.kept("a", make), asking.kept("a", make)] == [1, 1]
    for _ in range(2):
        with pytest.raises(UsageError, match="No"):
            asking.kept("b", make)
    assert len(made) == 2
    # Somebody has mended it meanwhile, and looks again.
    assert [asking.kept("b", make, fresh=True), asking.kept("b", make)] == [3, 3]
    monkeypatch.setattr(asking, "FRESH", -1.0)
    asking._answers.clear()
    assert [asking.kept("a", make), asking.kept("a", make)] == [4, 5]
    asking.kept("c", make)
    assert list(asking._answers) == ["c"]  # what is too old goes


def test_of_several_threads_one_asks():
    made = []

    def make() -> int:
        time.sleep(0.05)
        made.append(1)
        return 1

    threads = [threading.Thread(target=asking.kept, args=("a", make)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_what_is_no_error_of_ours_comes_through():
    def make() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError

    found = asking.in_time(make)
    assert next(found) == 1
    with pytest.raises(ZeroDivisionError):
        next(found)
