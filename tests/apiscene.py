"""An API server over real HTTP that answers as a healthy cluster does, but for what a test changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from webserver import Quiet, WebServer

from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.layout import JobDir

TRAINER = "/apis/trainer.kubeflow.org/v1alpha1"
VERSION = "/api/v1/namespaces/kubeflow-system/configmaps/kubeflow-trainer-public"
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2"
RUNTIMES = f"{TRAINER}/clustertrainingruntimes"
EMPTY = {"metadata": {"resourceVersion": "1"}, "items": []}


def runtime(name: str = "jax-cpu", *, once: bool = True) -> dict[str, Any]:
    """Return a runtime; with `once` it never runs a cell again."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "node", "image": "jax:1"}]}
    job = {"backoffLimit": 0 if once else 3, "template": {"spec": pod}}
    jobs = [{"name": "node", "template": {"spec": job}}]
    return {
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "jax"}},
        "spec": {"mlPolicy": {"jax": {}}, "template": {"spec": {"replicatedJobs": jobs}}},
    }


class Scene(WebServer):
    """Serves until it is closed.

    Attributes
    ----------
    answers
        By path: an object, or a status code that refuses. Else lists of the namespace are empty,
        and the rest is not there.
    date
        The clock that answers show; None for the right one.
    upgrades
        Whether WebSockets get through; they are closed at once.
    """

    def __init__(self) -> None:
        self.date: str | None = None
        self.upgrades = True
        self.answers: dict[str, Any] = {
            "/version": {"gitVersion": "v1.36.0"},
            "/api/v1/namespaces/default": {"metadata": {"name": "default"}},
            VERSION: {"data": {"kubeflow_trainer_version": "v2.3.0"}},
            JOB_SETS: {"resources": []},
            RUNTIMES: {"items": [runtime()]},
            f"{TRAINER}/namespaces/default/trainjobs": {"metadata": {"name": "trial"}},
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": {"status": {"allowed": True}},
        }
        scene = self

        class Handler(Quiet):
            def date_time_string(self, timestamp: float | None = None) -> str:
                return scene.date or super().date_time_string(timestamp)

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if scene.upgrades and self.headers.get("Upgrade") == "websocket":
                    self.upgrade()
                    return
                path = self.path.partition("?")[0]
                nothing = EMPTY if "/namespaces/default/" in path else 404
                answer = scene.answers.get(path, nothing)
                status = answer if isinstance(answer, int) else 200
                data = json.dumps({"message": "no"} if isinstance(answer, int) else answer).encode()
                self.give(status, {"Content-Type": "application/json"}, data)

            do_POST = do_PATCH = do_DELETE = do_GET

        super().__init__(Handler)

    def kubeconfig(self, path: Path, **about: Any) -> Path:
        """Write a kubeconfig that leads here; with more `about` the cluster."""
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "one",
                    "clusters": [{"name": "one", "cluster": {"server": self.url, **about}}],
                    "users": [{"name": "one", "user": {"token": "t"}}],
                    "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
                }
            )
        )
        return path

    def adopt(self, job: JobDir, folder: Path) -> None:
        """Have a job be one of this cluster that runs once; `folder` gets the kubeconfig."""
        manifest = job.read_manifest()
        there = {
            "runs_once": True,
            "own_runtime": None,
            "context": "one",
            "namespace": "default",
            "server": self.url,
            "cluster": hashlib.sha256(f"{self.url}\ndefault".encode()).hexdigest()[:16],
            "kubeconfig": str(self.kubeconfig(folder / "kubeconfig")),
        }
        plan = {**manifest["plan"], **there}
        files.write_json(job.manifest, {**manifest, "backend": "kubernetes", "plan": plan})


@contextmanager
def submission_scene(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Serve a cluster in which the name ``fit`` is free, and have it be the kubeconfig's."""
    found = Scene()
    found.answers[f"{TRAINER}/namespaces/default/trainjobs/fit"] = 404
    monkeypatch.setenv("KUBECONFIG", str(found.kubeconfig(folder / "config")))
    yield found
    connection._clients.clear()
    found.close()
