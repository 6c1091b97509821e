"""What XLA has compiled for one job is there for the next, where the platform says so, or in a
store; and such a job runs again from its export, without this package."""

from __future__ import annotations

import re

import pytest
from harness import eventually

from cluster import made_runtimes
from cluster.faults import LONG_S
from cluster.jobs import PATIENCE, submit
from jupyter_jax_trainer import export_job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.views.card import Facts, text

pytestmark = [pytest.mark.cluster, pytest.mark.release]  # jobs one after the other

CELL = """
import jax, jax.numpy as jnp
total = jax.jit(lambda x: (x @ x.T).sum())(jnp.asarray(weights))
print("rank", jax.process_index(), "of", jax.process_count(), float(total), flush=True)
"""


def test_what_is_compiled_is_shared_where_the_platform_says_so_and_the_export_runs(
    place, namespace, shared, tmp_path
):
    made_runtimes.make(namespace, "trusting")
    annotation = "jupyter-jax-trainer/compile-cache=shared"
    namespace("annotate", "trainingruntime", "trusting", annotation)
    kept = shared.path / ".jaxtrain-compiled"

    def start(runtime):
        line = f"-n 2 -r {runtime} --volume {shared.claim}:{shared.path}"
        return submit(CELL, place, line, {"__name__": "__main__", "weights": [[1.0, 2.0]]})

    def compiled(job):
        found = job.wait(PATIENCE).compiled
        assert [one for one in job.events() if one["kind"] == "warning"] == []
        return found.hits, found.misses

    alone, first = start("jax-cpu"), start("trusting")
    hits, misses = compiled(alone)
    assert hits == 0 and misses > 0, "others can write to the volume"
    assert compiled(first) == (0, misses) and kept.exists()
    job = start("trusting")
    assert compiled(job) == (misses, 0) and job.compiled.saved > 0
    card = text(Facts.of(job), job.snapshot())
    assert "compile cache" in card and f"{misses} program" in card

    folder = export_job(job, tmp_path / "again")
    JobDir(job.directory).bundle.unlink()
    (command,) = re.findall(r"kubectl (apply .*)", (folder / "README.md").read_text())
    namespace(*command.replace("kubernetes.yaml", str(folder / "kubernetes.yaml")).split())
    ranks = eventually(lambda: printed(namespace, f"{job.name}-again"), LONG_S)
    assert ranks == ["rank 0 of 2 5.0", "rank 1 of 2 5.0"]


def test_what_is_compiled_is_kept_in_a_store_for_this_user_alone(place, namespace, shared):
    store = f"file://{shared.path}/objects"
    line = f"-n 2 -r jax-cpu --volume {shared.claim}:{shared.path} --store {store}"

    def compiled():
        job = submit(CELL, place, line, {"__name__": "__main__", "weights": [[1.0, 2.0]]})
        found = job.wait(PATIENCE).compiled
        assert [one for one in job.events() if one["kind"] == "warning"] == []
        return found.hits, found.misses

    hits, misses = compiled()
    assert hits == 0 < misses
    assert compiled() == (misses, 0)
    (folder,) = (shared.path / "objects" / ".jaxtrain-compiled").iterdir()
    for file in folder.iterdir():  # as somebody else would write it
        data = file.read_bytes()
        file.write_bytes(data[:16] + bytes(32) + data[48:])
    assert compiled() == (0, misses)
    assert compiled() == (misses, 0)


def printed(namespace, job):
    """Return what the pods of a plain Job have printed, once it is complete."""
    status = namespace.get("job.batch", job).get("status", {})
    assert not status.get("failed"), namespace("logs", "-l", f"job-name={job}", "--prefix")
    if status.get("succeeded") != 2:
        return None
    lines = namespace("logs", "-l", f"job-name={job}").splitlines()
    return sorted(line for line in lines if line.startswith("rank"))
