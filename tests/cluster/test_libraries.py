"""Notebooks run in pods whose image lacks what they import, with nothing changed but the backend."""

from __future__ import annotations

import libraries
import pytest

from cluster.jobs import SLIM

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore"),  # of the kernel's client, not of this package
]
# It runs with every change: what it needs is pure Python, and quickly sent.
QUICK = "rich"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name == QUICK else pytest.mark.release)
        for name in libraries.NEEDS
    ],
)
def test_a_notebook_runs_where_the_image_lacks_its_library(name, place, tmp_path, monkeypatch):
    jobs = libraries.run(name, tmp_path, monkeypatch, f"{place} {SLIM}")
    for job in jobs:
        sent = {one["name"] for one in job.sent if one["kind"] == "package"}
        assert libraries.NEEDS[name] <= sent and bool(sent) == bool(libraries.NEEDS[name])
