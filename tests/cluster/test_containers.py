"""The logs of containers besides the ranks' own: initializers, init containers, sidecars."""

from __future__ import annotations

import copy
import subprocess
import sys
import time

import pytest
from harness import eventually, text

from cluster import made_runtimes
from cluster.jobs import fails, followers, stop_followers, submit
from jupyter_jax_trainer.backends.kubernetes.follow.attach import attach
from jupyter_jax_trainer.backends.kubernetes.submit import launch
from jupyter_jax_trainer.jobdir.job import Job

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
LINES = 3000
COUNTS = f"for n in range({LINES}): print('prepared', n, flush=True)"
WATCHES = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("told to end", flush=True)))
for number in range(10**6):
    print(f"looked {number}\\n", end="", flush=True)  # in one write: the signal comes at any time
    time.sleep(0.05)
"""
RETRIES = "print('tried once', flush=True)"


def like(pod, name, code, **more):
    """Make a container like the training one but for its code."""
    container = copy.deepcopy(pod["containers"][0])
    return {**container, "name": name, "command": ["python3", "-c", code], **more}


def printed(job, name):
    return "".join(f"{line.text}\n" for line in job.logs(container=name))


def test_all_containers_have_a_log(place, namespace, store, tmp_path, monkeypatch):
    def change(pod):
        pod["initContainers"] = [
            like(pod, "prepare", COUNTS),
            like(pod, "watch", WATCHES, restartPolicy="Always"),
        ]

    monkeypatch.setenv("JAXTRAIN_LOG_END_TIMEOUT", "60")  # a busy node takes its time
    runtime = made_runtimes.make(namespace, "crowded", change, initializer=True)
    job = submit("print('ran')\nimport time\ntime.sleep(10)", place, f"-n 2 --runtime {runtime}")
    for _ in range(4):  # the followers that come after go on
        launch.start_follower(job.manifest["plan"])
        eventually(lambda: followers(store))
        time.sleep(2)
        stop_followers(store)
        eventually(lambda: not launch.has_follower(job.manifest["plan"]["cluster"]))
    job.wait(120)
    assert text(job, 0) == "ran"
    ranks = [f"rank-{rank}" for rank in (0, 1)]
    assert job.containers == sorted(
        [
            "dataset-initializer",
            "dataset-initializer.prepare",
            "dataset-initializer.watch",
            *(f"{rank}.{name}" for rank in ranks for name in ("prepare", "watch")),
        ]
    )
    assert printed(job, "dataset-initializer") == "a data set\n"
    for rank in ranks:
        prepared = "".join(f"prepared {number}\n" for number in range(LINES))
        assert printed(job, f"{rank}.prepare") == prepared
        *looked, last = printed(job, f"{rank}.watch").splitlines()
        assert looked == [f"looked {number}" for number in range(len(looked))]
        assert len(looked) > 200 and last == "told to end"
    shown = subprocess.run(
        [sys.executable, "-m", "jupyter_jax_trainer", "show", job.name],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "OTHER CONTAINER" in shown and "rank-1.prepare" in shown
    with monkeypatch.context() as patched:  # another machine
        patched.setenv("JAXTRAIN_HOME", str(tmp_path / "other"))
        other = Job(attach(job.name, None, namespace.name)).wait(60)
        assert printed(other, "dataset-initializer") == "a data set\n"


def test_a_container_that_is_started_again(place, namespace):
    def change(pod):
        pod["initContainers"] = [like(pod, "retry", RETRIES, restartPolicy="Always")]

    runtime = made_runtimes.make(namespace, "retries", change)
    job = submit("import time\ntime.sleep(13)", place, f"--runtime {runtime}")
    job.wait(60)
    lines = printed(job, "rank-0.retry").splitlines()
    (pod,) = namespace.pods(job.name)
    # The node may have cleared away the first one before anybody could read it; then it says so.
    marks = [f"[jaxtrain: attempt {number}, pod {pod['metadata']['name']}]" for number in (2, 3)]
    assert lines.count(marks[0]) == lines.count(marks[1]) == 1
    for mark in marks:
        assert lines[lines.index(mark) + 1] == "tried once"
    told = [event["message"] for event in job.events()]
    assert lines[0] == "tried once" or any("unable to retrieve" in text for text in told), told
    assert job.state == "Succeeded"
    assert not any("not answer" in text for text in told), told


def test_an_initializer_that_fails(place, namespace):
    def change(pod):
        pod["initContainers"] = [
            like(pod, "fetch", "import sys\nprint('no such data set')\nsys.exit(3)")
        ]

    runtime = made_runtimes.make(namespace, "fetches", initializer=True, before=change)
    job, failure = fails("print('never')", place, f"--runtime {runtime}")
    assert failure.message == "the fetch of the dataset initializer failed with exit code 3"
    assert failure.log == ["no such data set"]
    assert failure.container == "dataset-initializer.fetch"
    assert text(job, 0) == ""


def test_an_init_container_of_a_rank_that_fails(place, namespace):
    def change(pod):
        pod["initContainers"] = [like(pod, "fetch", "import os\nprint('no')\nos._exit(4)")]

    runtime = made_runtimes.make(namespace, "fetches", change)
    _, failure = fails("print('never')", place, f"--runtime {runtime}")
    assert failure.message == "the init container fetch of rank 0 failed with exit code 4"
    assert failure.log == ["no"] and failure.container == "rank-0.fetch"
