"""``--dataset`` and ``--model``: Trainer's initializers, with the example of docs/ and an image of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from harness import eventually, text

from cluster import made_runtimes
from cluster.jobs import PATIENCE, failure_of, run, submit
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import submit as say

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "jax-with-data.yaml"
# What Trainer's images do, without the internet: take STORAGE_URI, and write below /workspace.
FETCH = """
import os, pathlib, time
kind = "{kind}"
folder = pathlib.Path("/workspace", kind)
folder.mkdir()
print("fetching", os.environ["STORAGE_URI"], flush=True)
while "{kind}" == "dataset" and not pathlib.Path("/workspace/go").exists():
    time.sleep(0.1)
folder.joinpath("from").write_text(os.environ["STORAGE_URI"])
print("fetched", flush=True)
"""
LACKS = """
import pathlib, time
print("no such data", flush=True)
while not pathlib.Path("/workspace/go").exists():
    time.sleep(0.1)
raise SystemExit(1)
"""
CELL = """
from pathlib import Path
found = [Path("/workspace", kind, "from").read_text() for kind in ("dataset", "model")]
"""


def install(namespace, cluster, shared, code, again=0):
    """Install the examples of the docs, with the images and the claim that there are here."""
    for runtime in yaml.safe_load_all(EXAMPLE.read_text()):
        job_set = runtime["spec"]["template"]["spec"]
        job_set["failurePolicy"]["maxRestarts"] = again
        for job in job_set["replicatedJobs"]:
            pod = made_runtimes.pod_of(job)
            (container,) = pod["containers"]
            kind, _, initializer = container["name"].partition("-")
            container["image"] = made_runtimes.image(cluster)
            if initializer:  # no command: one that has its own may need no URI, and Trainer's do
                container["args"] = ["python3", "-c", code.format(kind=kind)]
            pod["volumes"][0]["persistentVolumeClaim"]["claimName"] = shared.claim
        namespace("create", "-f", "-", stdin=runtime)


@pytest.fixture
def examples(namespace, cluster, shared):
    install(namespace, cluster, shared, FETCH)


def by_name(job):
    return {step.name: step for step in job.initializers}


def test_data_and_model_are_fetched_first_and_shown_like_ranks(place, examples, shared):
    uris = "--dataset hf://people/digits --model s3://bucket/net"
    job = submit(CELL, place, f"-n 2 -o found {uris}")  # the runtime is found by what it has
    assert job.manifest["plan"]["runtime"] == "jax-with-both"
    eventually(
        lambda: (step := by_name(job).get("dataset-initializer")) and step.state == "Running"
    )
    eventually(lambda: job.reason == "waits for its dataset initializer")
    assert all(rank.state == "Waiting" for rank in job.ranks)
    (shared.path / "go").touch()
    job.wait(PATIENCE)
    assert job.result("found") == ["hf://people/digits", "s3://bucket/net"]
    steps = by_name(job)
    assert set(steps) == {"dataset-initializer", "model-initializer"}
    assert all((s.state, s.exit, s.restarts) == ("Finished", 0, 0) for s in steps.values())
    assert all(step.pod and step.host for step in steps.values())
    lines = [line.text for line in job.logs(container="model-initializer")]
    assert lines == ["fetching s3://bucket/net", "fetched"]
    assert text(job, 0) == ""
    shown = subprocess.run(
        [sys.executable, "-m", "jupyter_jax_trainer", "show", job.name],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "BEFORE" in shown and "dataset-initializer" in shown


def test_a_data_set_alone_is_fetched_and_a_plain_job_gets_the_plain_runtime(
    place, examples, shared
):
    (shared.path / "go").touch()
    cell = "from pathlib import Path\nfound = Path('/workspace/dataset/from').read_text()"
    job = run(cell, place, "-n 1 -o found --dataset hf://people/digits")
    assert job.result("found") == "hf://people/digits"
    assert job.manifest["plan"]["runtime"] == "jax-with-dataset"
    assert set(by_name(job)) == {"dataset-initializer"}
    plain = run("print('ran')", place)
    assert plain.manifest["plan"]["runtime"] == "jax-cpu" and not plain.initializers
    assert text(plain, 0) == "ran"


def test_a_runtime_with_other_initializers_is_refused(place, examples):
    with pytest.raises(UsageError) as raised:
        run("x = 1", place, "--runtime jax-cpu --model hf://people/net")
    assert raised.value.id == "submit.no-initializer"
    assert raised.value.hint == say.OTHER_RUNTIMES(names="jax-with-model")
    with pytest.raises(UsageError) as raised:
        run("x = 1", place, "--runtime jax-with-both --model hf://people/net")
    assert raised.value.id == "submit.initializer-fails"
    assert raised.value.hint == say.ADD_OR_CHOOSE(options="--dataset", names="jax-with-model")


@pytest.mark.release
def test_an_initializer_that_fails_is_not_run_again_unseen(place, namespace, cluster, shared):
    """A runtime that starts failed Jobs again would train while nobody looks."""
    install(namespace, cluster, shared, LACKS, again=50)
    job = submit("x = 1", place, "-n 1 --dataset hf://people/digits")
    # JobSet deletes the pod as soon as it has failed: what it printed last may be gone by then.
    eventually(lambda: "dataset-initializer" in job.containers, PATIENCE)
    eventually(
        lambda: any("no such" in line.text for line in job.logs(container="dataset-initializer"))
    )
    (shared.path / "go").touch()
    failure = failure_of(job)
    assert "dataset" in failure.message and "no such data" in failure.log[-1]
    assert namespace.get("trainjob", job.name)["spec"]["suspend"] is True
    eventually(lambda: not namespace.pods(job.name))
