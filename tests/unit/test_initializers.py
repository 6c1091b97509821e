"""A job gets a runtime with just the initializers that it asks for: Trainer starts them all."""

from __future__ import annotations

import copy
from itertools import permutations
from pathlib import Path

import pytest
import yaml

from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError
from jupyter_jax_trainer.backends.kubernetes.jaxjob import convert, read
from jupyter_jax_trainer.backends.kubernetes.submit import choosing, manifests
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.spec import parse_cell_line

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = list(yaml.safe_load_all((DOCS / "examples" / "jax-with-data.yaml").read_text()))
JAXJOBS = list(yaml.safe_load_all((DOCS / "examples" / "jaxjobs.yaml").read_text()))
DATASET, MODEL, BOTH = EXAMPLES
CPU, GPU = (manifests.manifest(device).json for device in ("cpu", "gpu"))
FOUR = {"metadata": {"name": "n"}, "status": {"allocatable": {"nvidia.com/gpu": "4"}}}


class Cluster:
    """A cluster with a node with four GPUs; the namespace's runtimes come before the cluster's."""

    namespace = "team"

    def __init__(self, *items: dict) -> None:
        self._items = items

    def trainer(self, plural: str) -> str:
        return f"/namespaced/{plural}"

    def request(self, verb: str, path: str) -> dict:
        if path.endswith("/nodes"):
            return {"items": [FOUR]}
        kind = "TrainingRuntime" if path.startswith("/namespaced/") else "ClusterTrainingRuntime"
        found = [item for item in self._items if item["kind"] == kind]
        *_, name = path.split("/")
        if name.endswith("runtimes"):
            return {"items": found}
        for item in found:
            if item["metadata"]["name"] == name:
                return item
        raise ApiError(404, "NotFound", "no")


def named(name: str, like: dict, **metadata: object) -> dict:
    """Return a copy of a runtime, under a name."""
    made = copy.deepcopy(like)
    made["metadata"] = {**made["metadata"], "name": name, **metadata}
    return made


def initializer_of(item: dict) -> tuple[dict, dict]:
    """Return the replicated job of the first initializer, and its container."""
    job = item["spec"]["template"]["spec"]["replicatedJobs"][0]
    (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
    return job, container


def choose(line: str, *items: dict) -> str:
    found, _ = choosing.runtime(Cluster(*items), parse_cell_line(line))
    return found.name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("", "jax-cpu"),
        ("--dataset hf://a/b", "jax-with-dataset"),
        ("--model s3://a/b", "jax-with-model"),
        ("--dataset hf://a/b --model s3://a/b", "jax-with-both"),
    ],
)
def test_a_job_gets_the_runtime_with_just_what_it_asks_for(line, name):
    for order in permutations(EXAMPLES):
        assert choose(f"-d cpu {line}", *order, CPU) == name
    old = named("old", CPU, labels={"trainer.kubeflow.org/support": "deprecated"})
    # An old one does what the job needs, one with initializers doesn't.
    assert choose("-d cpu", BOTH, old) == "old"


@pytest.mark.parametrize(
    ("line", "there", "said", "hint"),
    [
        (
            "",
            [BOTH],
            say.INITIALIZER_FAILS(
                runtime="jax-with-both",
                initializers="dataset-initializer and model-initializer",
                options="--dataset and --model",
            ),
            say.ADD_OR_INSTALL(options="--dataset and --model"),
        ),
        (
            "--dataset hf://a/b",
            [BOTH, CPU],
            say.INITIALIZER_FAILS(
                runtime="jax-with-both", initializers="model-initializer", options="--model"
            ),
            say.ADD_OR_INSTALL(options="--model"),
        ),
        (
            "--dataset hf://a/b",
            [CPU, MODEL],
            say.NO_INITIALIZER(
                option="dataset", initializer="dataset-initializer", runtime="jax-…"
            ).partition("…")[0],
            say.INSTALL_INITIALIZER(),
        ),
        (
            "-r jax-with-both",
            [BOTH, CPU],
            "fails without --dataset and --model",
            say.ADD_OR_CHOOSE(options="--dataset and --model", names="jax-cpu"),
        ),
        (
            "-r jax-with-both --model s3://a/b",
            [*EXAMPLES, CPU],
            "fails without --dataset.",
            say.ADD_OR_CHOOSE(options="--dataset", names="jax-with-model"),
        ),
        (
            "-r jax-cpu --model s3://a/b",
            [*EXAMPLES, CPU],
            say.NO_INITIALIZER(option="model", initializer="model-initializer", runtime="jax-cpu"),
            say.OTHER_RUNTIMES(names="jax-with-model"),
        ),
    ],
)
def test_where_there_is_none_the_job_is_refused_with_what_to_do(line, there, said, hint):
    with pytest.raises(UsageError) as refused:
        choose(line if "-r" in line else f"-d cpu {line}", *there)
    assert said in refused.value.message and refused.value.hint == hint


@pytest.mark.parametrize(
    "change",
    [
        lambda job, container: container.update(env=[{"name": "STORAGE_URI", "value": "hf://a/b"}]),
        lambda job, container: container.update(envFrom=[{"configMapRef": {"name": "data"}}]),
        lambda job, container: container.update(command=["fetch"]),
        lambda job, container: container.update(name="fetch"),
        lambda job, container: job["template"]["metadata"].pop("labels"),
        lambda job, container: job["template"].pop("metadata"),
    ],
)
def test_an_initializer_that_needs_no_word_of_the_job_is_none_of_its_business(change):
    item = named("fetches", DATASET)
    change(*initializer_of(item))
    assert choose("-r fetches", item, CPU) == "fetches"
    assert choose("-d cpu", item) == "fetches"
    assert choose("-d cpu", item, CPU) == "jax-cpu"  # the plain one is nearer to what is asked


def test_gpus_are_not_taken_unasked_with_initializers_that_would_fail():
    with_gpu = named("gpu-with-data", BOTH, labels=GPU["metadata"]["labels"])
    found, said = choosing.runtime(Cluster(with_gpu, CPU), parse_cell_line(""))
    assert found.name == "jax-cpu" and say.NO_SUCH_INITIALIZERS() in said
    found, said = choosing.runtime(Cluster(with_gpu, CPU, GPU), parse_cell_line(""))
    assert found.name == "jax-gpu" and "on GPU" in said
    assert choose("--dataset hf://a/b --model s3://a/b", with_gpu, BOTH, GPU) == "gpu-with-data"


def test_a_runtime_of_a_converted_jaxjob_is_taken_by_name_only():
    made = convert(read(JAXJOBS[0])).documents[0].json
    name = made["metadata"]["name"]
    assert choose("-d cpu", made, CPU) == "jax-cpu"
    assert choose(f"-r {name}", made, CPU) == name
    with pytest.raises(UsageError, match=f"for cpu.*: {name}"):
        choose("-d cpu", made)
    with pytest.raises(UsageError) as refused:
        choose("-r jax-with-both", made, BOTH, CPU)
    assert refused.value.hint.endswith(": jax-cpu.")


def test_the_examples_differ_in_their_initializers_only():
    """What all have in common is written three times: an anchor is known in its document only."""
    jobs = {
        item["metadata"]["name"]: item["spec"]["template"]["spec"]["replicatedJobs"]
        for item in EXAMPLES
    }
    both = {job["name"]: job for job in jobs["jax-with-both"]}
    for name, fetched in {
        "jax-with-dataset": ["dataset"],
        "jax-with-model": ["model"],
        "jax-with-both": ["dataset", "model"],
    }.items():
        *first, node = jobs[name]
        assert first == [both[f"{what}-initializer"] for what in fetched]
        waits = [{"name": job["name"], "status": "Complete"} for job in first]
        assert node == {**both["node"], "dependsOn": waits}
    for item in EXAMPLES:
        item = copy.deepcopy(item)
        del item["metadata"]["name"], item["spec"]["template"]["spec"]["replicatedJobs"]
        rest = copy.deepcopy(BOTH)
        del rest["metadata"]["name"], rest["spec"]["template"]["spec"]["replicatedJobs"]
        assert item == rest
