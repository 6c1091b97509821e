"""Do what goes wrong to jobs, pods and parts of the cluster, and look at what is said of it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pace
from harness import eventually, text
from policy import skip_or_fail

from cluster.jobs import submit
from cluster.kubernetes_cluster import Cluster, Namespace
from jupyter_jax_trainer.errors import JobFailed
from jupyter_jax_trainer.jobdir.failure import Failure
from jupyter_jax_trainer.jobdir.job import Job

PROMISED_S = 10.0  # from a fault in the cluster to its end in the notebook
LONG_S = 200.0  # for what has no bound of its own, on a busy machine
WAITS = "print('begins', flush=True)\nimport time\ntime.sleep(300)"
PARTS = Path(__file__).parent / "harness" / "parts.py"
SMALL = "--cpu 50m"
UNREACHABLE = "node.kubernetes.io/unreachable"

# Twelve steps, with a checkpoint after each third; the first time it waits at step 8 for what comes.
STEPS = """
import jax, time
import numpy as np
from jax.experimental import multihost_utils
from jupyter_jax_trainer import checkpoint_dir, report
path = checkpoint_dir() / "state.npz"
begun, w = 0, np.zeros(3)
if path.exists():
    saved = np.load(path)
    begun, w = int(saved["step"]), saved["w"]
multihost_utils.sync_global_devices("loaded")
for step in range(begun + 1, 13):
    w = w + step
    report(step=step, total=12)
    if step % 3 == 0:
        if jax.process_index() == 0:
            new = path.with_name("new.npz")
            np.savez(new, step=step, w=w)
            new.replace(path)
        multihost_utils.sync_global_devices(f"saved {step}")
    print("step", step, flush=True)
    if step == 8:
        time.sleep(5 if begun else 600)
w = float(w[0])
"""


def begin(place: str, line: str = "", cell: str = WAITS) -> Job:
    """Submit a cell, and wait until each rank runs it."""
    job = submit(cell, place, line)
    eventually(lambda: begun(job) == [1] * job.spec.nodes or not job.active, LONG_S)
    assert job.active, f"{job.reason}\n{text(job)}"
    return job


def begun(job: Job) -> list[int]:
    """Count how often each rank has begun with the cell."""
    return [text(job, rank).split("\n").count("begins") for rank in range(job.spec.nodes)]


def stepped(job: Job) -> None:
    """Check that a job of `STEPS` went on once from its last checkpoint, of step 6."""
    assert job.result() == {"begun": 6, "w": float(sum(range(1, 13)))}
    for rank in (0, 1):
        steps = [line["step"] for line in job.metrics() if line["rank"] == rank]
        assert steps == [*range(1, 9), *range(7, 13)]  # no more is lost than since the checkpoint


def evict(namespace: Namespace, pod: str) -> None:
    """Evict a pod, as somebody does who empties a node."""
    path = f"/api/v1/namespaces/{namespace.name}/pods/{pod}/eviction"
    namespace(
        "create",
        "--raw",
        path,
        "-f",
        "-",
        stdin={
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace.name},
        },
    )


def given_up_soon(pod: dict[str, Any]) -> None:
    """Have a pod given up 5 s after its node is known to be silent, as a change of `made_runtimes`."""
    pod["tolerations"] = [
        {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 5,
        }
        for key in ("node.kubernetes.io/not-ready", UNREACHABLE)
    ]


@contextlib.contextmanager
def lost_node(cluster: Cluster, namespace: Namespace, job: Job) -> Iterator[None]:
    """Lose the node until a job's pods are given up, and for as long as the caller likes.

    Where no node is left, Kubernetes may take back the taint that has pods given up, since the fault
    could be its own: then it is set here, as for one node among others.
    """
    (node,) = cluster.get("nodes")["items"]
    name, taint = node["metadata"]["name"], {"key": UNREACHABLE, "effect": "NoExecute"}

    def given_up() -> bool:
        found = cluster.get("node", name)
        (ready,) = (one for one in found["status"]["conditions"] if one["type"] == "Ready")
        there = any(taint.items() <= one.items() for one in found["spec"].get("taints", ()))
        if ready["status"] == "Unknown" and not there:
            cluster("taint", "node", name, f"{UNREACHABLE}:NoExecute", "--overwrite")
        return all("deletionTimestamp" in pod["metadata"] for pod in namespace.pods(job.name))

    try:
        with stopped("kubelet", cluster):
            eventually(given_up, 120)
            yield
    finally:  # nobody reaches the webhooks before
        cluster("taint", "node", name, f"{UNREACHABLE}:NoExecute-", check=False)
        available = ("--for=condition=Available", "deployments", "--all", "--all-namespaces")
        cluster("wait", *available, "--timeout=80s")


def end(job: Job, within: float = PROMISED_S) -> Job:
    """Wait for a job's end, which has to come in time; no rank may have run its cell twice."""
    began = time.monotonic()
    with contextlib.suppress(JobFailed):
        job.wait(LONG_S)
    took = time.monotonic() - began
    assert pace.within(took, within), f"{took:.1f} s: {job.state}: {job.reason}"
    assert begun(job) == [1] * job.spec.nodes, (begun(job), job.reason, job.events())
    return job


def fail(job: Job, within: float = PROMISED_S) -> Failure:
    """Wait for a job's failure, as `end`."""
    end(job, within)
    assert job.state == "Failed", f"{job.state}: {job.reason}"
    assert job.failure is not None
    return job.failure


def says(job: Job, *wanted: str, within: float = PROMISED_S) -> str:
    """Wait until a job's reason says something, and give it with its hint."""

    def said() -> str:
        state = job.snapshot()
        words = f"{state['reason']}\n{state['hint']}"
        return words if all(part in words for part in wanted) else ""

    deadline = pace.Deadline(within)
    while not (found := said()):
        assert not deadline.passed, (job.state, job.reason, job.hint)
        time.sleep(0.02)
    return found


def process_of(job: Job, rank: int) -> int:
    """Find the first process of a rank's container, as this machine sees it."""
    uid, number = f"JAXTRAIN_JOB_UID={job.uid}".encode(), f"JAX_PROCESS_ID={rank}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            given = (folder / "environ").read_bytes().split(b"\0")
            if uid in given and number in given:
                status = (folder / "status").read_text()
                spaces = next(s for s in status.splitlines() if s.startswith("NSpid:"))
                if spaces.split()[-1] == "1":
                    return int(folder.name)
    raise LookupError(f"rank {rank} of {job.name} has no process on this machine")


# -- parts of the cluster


def require_own(cluster: Cluster) -> None:
    """Leave the test out on a cluster whose parts are not ours to stop."""
    if not cluster.own:
        skip_or_fail("own cluster", "only that of `make cluster` has parts that a test may stop")


def stop(part: str, how: str = "SIGKILL") -> None:
    subprocess.run([sys.executable, PARTS, "stop", part, how], check=True, timeout=90)


def start(part: str) -> None:
    subprocess.run([sys.executable, PARTS, "start", part], check=True, timeout=90)


@contextlib.contextmanager
def stopped(part: str, cluster: Cluster) -> Iterator[None]:
    """Stop a part for a while."""
    stop(part)
    try:
        yield
    finally:
        start(part)
        eventually(
            lambda: cluster("get", "--raw", "/readyz", "--request-timeout=5s", check=False) == "ok"
        )


@contextlib.contextmanager
def scaled_down(cluster: Cluster, namespace: str, deployment: str) -> Iterator[None]:
    """Take a controller away for a while, and with it its webhooks."""
    name = f"deployment/{deployment}"
    labels = cluster.get("-n", namespace, name)["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    cluster("-n", namespace, "scale", name, "--replicas=0")
    try:
        eventually(
            lambda: not cluster.get("-n", namespace, "pods", "--selector", selector)["items"]
        )
        yield
    finally:
        cluster("-n", namespace, "scale", name, "--replicas=1")
        cluster("-n", namespace, "rollout", "status", name, "--timeout=80s")
