"""An API server over real HTTP that answers as a healthy cluster does, but for what a test changes."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TRAINER = "/apis/trainer.kubeflow.org/v1alpha1"
VERSION = "/api/v1/namespaces/kubeflow-system/configmaps/kubeflow-trainer-public"
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2"
RUNTIMES = f"{TRAINER}/clustertrainingruntimes"


def runtime(name: str = "jax-cpu", *, once: bool = True) -> dict[str, Any]:
    """Give a runtime; with `once` it never runs a cell again."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "node", "image": "jax:1"}]}
    job = {"backoffLimit": 0 if once else 3, "template": {"spec": pod}}
    jobs = [{"name": "node", "template": {"spec": job}}]
    return {
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "jax"}},
        "spec": {"mlPolicy": {"jax": {}}, "template": {"spec": {"replicatedJobs": jobs}}},
    }


class Scene:
    """Serves until it is closed.

    Attributes
    ----------
    answers
        By path: an object, or a status code that refuses. Else lists of the namespace are empty,
        and the rest is not there.
    date
        The clock that answers show; None for the right one.
    """

    def __init__(self) -> None:
        self.date: str | None = None
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

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_args: object) -> None:
                pass

            def date_time_string(self, timestamp: float | None = None) -> str:
                return scene.date or super().date_time_string(timestamp)

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = self.path.partition("?")[0]
                nothing = {"items": []} if "/namespaces/default/" in path else 404
                answer = scene.answers.get(path, nothing)
                status = answer if isinstance(answer, int) else 200
                data = json.dumps({"message": "no"} if isinstance(answer, int) else answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig that leads here."""
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "one",
            "clusters": [{"name": "one", "cluster": {"server": self.url}}],
            "users": [{"name": "one", "user": {"token": "t"}}],
            "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        }))  # fmt: skip
        return path
