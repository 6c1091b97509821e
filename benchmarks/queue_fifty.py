"""Fifty jobs of two pods through one queue of a real Kueue: all end, in order, none is lost."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from common import Measured, run_job, sized
from kube import ROOT, Place, layout, place
from needs import Missing

from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.jobdir.job import Job

COUNT = sized(50, 2)
CELL = "import time\nprint('began', time.time())"
OPTIONS = "-n 2 --cpu 100m --queue team"
QUOTA = "400m"  # two jobs at a time
API = "kueue.x-k8s.io/v1beta2"
_PATIENCE = sized(1800.0, 120.0)
KUEUE = ROOT / "tests/cluster/harness/kueue.py"


def measure(runs: int) -> list[Measured]:
    """Submit them one after another, and wait for all; once, for it takes minutes."""
    if not layout.KUBECONFIG.exists():
        raise Missing("Kueue is installed on the cluster of `make cluster` only")
    with place() as there, _kueue(there):
        began = time.time()
        jobs = [
            run_job(CELL, f"job-{number} {OPTIONS} {there.options}")[0] for number in range(COUNT)
        ]
        submitted = time.time() - began
        for job in jobs:
            try:
                job.wait(_PATIENCE)
            except JaxTrainError as error:
                print(f"{job.name}: {error}", flush=True)
        took = time.time() - began
        turns = sorted(_turn(there, job) for job in jobs)
        ended = sum(job.state == "Succeeded" for job in jobs)
        ran = sum(len(_lines(job)) for job in jobs)
    # Kueue knows the second only in which a job came.
    late = sum(a[0] < b[0] and a[1] > b[1] for a, b in itertools.combinations(turns, 2))
    return [
        Measured(
            f"{COUNT} jobs of 2 pods in a queue that have ended well",
            ended,
            f">= {COUNT}",
            f"{took:.0f} s in all, {submitted:.0f} s of them to submit",
            ended == COUNT,
        ),
        Measured(
            "... runs of their cell, one for each rank", ran, f"{2 * COUNT}", "", ran == 2 * COUNT
        ),
        Measured("... pairs of jobs of which the later was let in first", late, "0", "", late == 0),
    ]


def _lines(job: Job) -> list[str]:
    return [line.text for line in job.logs() if line.text.startswith("began ")]


def _turn(there: Place, job: Job) -> tuple[str, str]:
    """Return when a job came into its queue, and when Kueue let it in."""
    path = f"/apis/{API}/namespaces/{there.name}/workloads"
    uid = there.client.request("GET", there.trainjob(job.name))["metadata"]["uid"]
    query = {"labelSelector": f"kueue.x-k8s.io/job-uid={uid}"}
    (found,) = there.client.request("GET", path, query=query)["items"]
    admitted = next(one for one in found["status"]["conditions"] if one["type"] == "Admitted")
    return found["metadata"]["creationTimestamp"], admitted["lastTransitionTime"]


@contextmanager
def _kueue(there: Place) -> Iterator[None]:
    """Install Kueue, unless it is there, with a queue for these jobs; leave it as it was."""
    client, name = there.client, there.name
    ours = not _installed(client)
    if ours:
        subprocess.run([sys.executable, KUEUE, "up"], check=True)
    cpu = {"name": "cpu", "nominalQuota": QUOTA}
    memory = {"name": "memory", "nominalQuota": "64Gi"}  # of which the runtime asks for some
    flavors = [{"name": name, "resources": [cpu, memory]}]
    bodies = {
        "resourceflavors": {"kind": "ResourceFlavor", "metadata": {"name": name}},
        "clusterqueues": {
            "kind": "ClusterQueue",
            "metadata": {"name": name},
            "spec": {
                "namespaceSelector": {},
                "queueingStrategy": "StrictFIFO",
                "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": flavors}],
            },
        },
        f"namespaces/{name}/localqueues": {
            "kind": "LocalQueue",
            "metadata": {"name": "team"},
            "spec": {"clusterQueue": name},
        },
    }
    try:
        for path, body in bodies.items():
            client.request("POST", f"/apis/{API}/{path}", body={"apiVersion": API, **body})
        yield
    finally:
        for path in (client.trainer("trainjobs"), f"/apis/{API}/namespaces/{name}/localqueues"):
            client.request("DELETE", path)
        if ours:
            subprocess.run([sys.executable, KUEUE, "down"], check=True)
        else:
            for kind in ("clusterqueues", "resourceflavors"):
                client.request("DELETE", f"/apis/{API}/{kind}/{name}")


def _installed(client: Client) -> bool:
    try:
        client.request("GET", f"/apis/{API}")
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return False
    return True
