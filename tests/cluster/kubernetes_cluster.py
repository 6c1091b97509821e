"""A cluster, and a namespace of it, as the tests speak to them."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pace import Deadline

_PAUSE = 0.5
_asked: dict[tuple[str, ...], float] = {}


@dataclass(frozen=True)
class Cluster:
    """A cluster, spoken to by kubectl."""

    kubectl: tuple[str, ...]
    kubeconfig: Path
    own: bool  # started by `make cluster`

    def __call__(self, *arguments: str, stdin: Any = None, check: bool = True) -> str:
        """Run kubectl and return its output; ``stdin`` is an object that it gets as JSON."""
        done = subprocess.run(
            [*self.kubectl, *arguments],
            input=None if stdin is None else json.dumps(stdin),
            capture_output=True,
            text=True,
            timeout=90,
        )
        if check and done.returncode:
            pytest.fail(f"kubectl {' '.join(arguments)}:\n{done.stderr}", pytrace=False)
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """Return what `kubectl get` says, as objects.

        Who waits asks the same again and again, and kubectl takes a seventh of a second of a core:
        the same is asked twice a second at most.
        """
        time.sleep(max(0.0, _asked.get(arguments, 0.0) + _PAUSE - time.monotonic()))
        found = json.loads(self("get", *arguments, "--output=json"))
        _asked[arguments] = time.monotonic()
        return found


@dataclass(frozen=True)
class Namespace:
    """A namespace of the test's own."""

    cluster: Cluster
    name: str

    def __call__(self, *arguments: str, stdin: Any = None) -> str:
        return self.cluster("--namespace", self.name, *arguments, stdin=stdin)

    def get(self, *arguments: str) -> Any:
        return self.cluster.get("--namespace", self.name, *arguments)

    def pods(self, job: str) -> list[Any]:
        """Return the pods of a job, by rank."""
        found = self.get("pods", "--selector", f"jobset.sigs.k8s.io/jobset-name={job}")["items"]
        index = "batch.kubernetes.io/job-completion-index"
        return sorted(found, key=lambda pod: int(pod["metadata"]["labels"][index]))

    def until_condition(self, job: str, wanted: str, within_s: float) -> Any:
        """Wait until the job has a condition, and return the job."""
        deadline = Deadline(within_s)
        while True:
            found = self.get("trainjob", job)
            conditions = found.get("status", {}).get("conditions", [])
            if any(c["type"] == wanted and c["status"] == "True" for c in conditions):
                return found
            if deadline.passed or any(c["type"] == "Failed" for c in conditions):
                pods = [(p["metadata"]["name"], p["status"]) for p in self.pods(job)]
                pytest.fail(f"{job} is not {wanted}: {conditions}\n{json.dumps(pods, indent=1)}")
