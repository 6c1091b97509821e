"""What version 0.1 wrote can be opened for ever: its job directories, its bundles, its results.

`tests/recorded/0.1` was written by version 0.1, and is never made anew.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from jupyter_jax_trainer import api
from jupyter_jax_trainer.jobdir import layout, store
from jupyter_jax_trainer.worker.serialization.archive import Archive

WRITTEN = Path(__file__).parent.parent / "recorded/0.1"


@pytest.fixture(autouse=True)
def old_jobs(tmp_path, monkeypatch):
    """A store with the jobs of version 0.1."""
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path / "home"))
    jobs = store.private_directory(layout.jobs_directory())
    for job in WRITTEN.iterdir():
        shutil.copytree(job, jobs / job.name)


def test_a_job_that_has_ended_is_listed_and_shown():
    assert {job.name: job.state for job in api.jobs()} == {
        "recorded": "Succeeded",
        "stumbled": "Failed",
    }
    job = api.job("recorded")
    reported = [(event["rank"], event["step"]) for event in job.metrics()]
    assert sorted(reported) == [(rank, step) for rank in range(2) for step in range(5)]
    assert "step 4" in [line.text for line in job.logs(rank=0)]
    assert "KeyError" in str(api.job("stumbled").failure)


def test_its_results_are_loaded():
    jax = pytest.importorskip("jax")
    job = api.job("recorded")
    assert np.array_equal(job.result("w"), np.arange(600, dtype=np.float32))
    assert jax.random.key_data(job.result("key")).tolist() == [0, 7]
    assert job.result("model")(2).tolist() == [2, 2, 2]
    assert job.result("call")() == 42
    assert job.result("pair") == (1, [2, 3]) and job.result("pair").a == 1
    assert job.result("half")(3.0) == 1.5
    assert job.result("text") == "done"


def test_a_bundle_is_read():
    bundle = Archive(WRITTEN / "recorded/bundle.pyz")
    assert bundle.manifest["name"] == "recorded"
    assert set(bundle.manifest["names"]) >= {"Model", "triple", "Pair"}
    assert "report(step=step" in bundle.read("cell.py").decode()
