"""Whoever copies labels, variables, annotations and the key has no say in a job."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest
from harness import eventually, text, wait_for, wait_for_text

from cluster import people
from cluster.jobs import PATIENCE, submit
from jupyter_jax_trainer.backends.kubernetes.api.cache import JOB_SET
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.worker.pod.frames import encode

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
FORGED = {"kind": "reports", "reports": [[1.0, 7, 9, {"loss": 666.0}]]}
CELL = """
from pathlib import Path
import time
from jupyter_jax_trainer import report
report(1, 2, loss=0.5)
print("mine", flush=True)
time.sleep(12)
"""


def forged(pod: dict[str, Any], key: bytes, **metadata: Any) -> dict[str, Any]:
    """Make a pod that looks as one of the job's does, and says something with its key."""
    lines = b"forged\n" + b"".join(encode(key, 0, "0badcafe", 1, FORGED))
    script = f"echo {base64.b64encode(lines).decode()} | base64 -d; sleep 60"
    (container,) = copy.deepcopy(pod["spec"]["containers"])
    container |= {"command": ["sh", "-c", script], "args": []}
    container.pop("volumeMounts", None)
    kept = ("labels", "annotations")
    # By this label the Job's controller adopts pods, and so makes them the job's: docs/background/security.md.
    for label in ("batch.kubernetes.io/controller-uid", "controller-uid"):
        pod["metadata"]["labels"].pop(label, None)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "forged",
            **{k: pod["metadata"][k] for k in kept if k in pod["metadata"]},
            **metadata,
        },
        "spec": {
            "containers": [container],
            "restartPolicy": "Never",
            "securityContext": pod["spec"].get("securityContext", {}),
        },
    }


def test_a_pod_that_is_a_copy_is_nobody(place, namespace):
    job = submit(CELL, place, "copied")
    wait_for_text(job, "mine")
    trainjob = namespace.get("trainjob", "copied")
    assert JobDir(job.directory).read_trainjob_uid() == trainjob["metadata"]["uid"]
    (pod,) = namespace.get("pods", "--selector", f"{JOB_SET}=copied")["items"]
    secrets = namespace.get("secrets", "--selector", "jupyter-jax-trainer/job=copied")["items"]
    (secret,) = (one for one in secrets if "frame-key" in one["data"])
    assert secret["metadata"]["labels"]["jupyter-jax-trainer/uid"] == job.uid
    key = base64.b64decode(secret["data"]["frame-key"])
    namespace("create", "-f", "-", stdin=forged(pod, key))
    logs = ("--namespace", namespace.name, "logs", "forged")
    eventually(lambda: "forged" in namespace.cluster(*logs, check=False), PATIENCE)
    job.wait(PATIENCE)
    assert text(job).strip() == "mine"
    assert [m["values"]["loss"] for m in job.metrics()] == [0.5]
    assert job.ranks[0].pod == pod["metadata"]["name"]


def test_a_trainjob_that_is_made_anew_is_another_one(place, namespace):
    job = submit("import time; print('mine', flush=True); time.sleep(600)", place, "renewed")
    wait_for_text(job, "mine")
    trainjob = namespace.get("trainjob", "renewed")
    namespace("delete", "trainjob", "renewed")
    kept = ("name", "labels", "annotations")
    trainjob["metadata"] = {name: trainjob["metadata"][name] for name in kept}
    trainjob["spec"]["trainer"]["command"] = ["sh", "-c", "echo theirs; sleep 600"]
    trainjob.pop("status", None)
    eventually(lambda: not namespace.get("trainjobs")["items"], PATIENCE)
    namespace("create", "-f", "-", stdin=trainjob)
    wait_for(job, "Cancelled")
    assert "theirs" not in text(job)
    job.delete()
    assert namespace.get("trainjob", "renewed")["metadata"].get("deletionTimestamp") is None
    namespace("delete", "trainjob", "renewed", "--wait=false")


def test_the_role_can_forge_no_owners(namespace):
    people.create(namespace, people.objects(namespace.name, "minimal", *people.minimal()))
    account = f"system:serviceaccount:{namespace.name}:minimal"
    try:
        for resource in (
            "pods",
            "jobs.batch",
            "jobsets.jobset.x-k8s.io",
            "pods/ephemeralcontainers",
        ):
            for verb in ("create", "update", "patch"):
                told = namespace.cluster(
                    "auth",
                    "can-i",
                    verb,
                    resource,
                    "-n",
                    namespace.name,
                    "--as",
                    account,
                    check=False,
                )
                assert told.strip().endswith("no"), (verb, resource)
    finally:
        people.forget(namespace)
