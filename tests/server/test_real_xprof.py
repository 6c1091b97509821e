"""The real XProf, as `pip install xprof` brings it, with the profile of a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import run

from server.servers import Server
from server.test_xprof import fetch, opened

pytestmark = [pytest.mark.slow, pytest.mark.release]

CELL = """
import jax, jax.numpy as jnp

@jax.jit
def step(x):
    return jnp.tanh(x @ x)

x = jnp.ones((256, 256))
for _ in range(30):
    x = step(x).block_until_ready()
"""
LINE = "fit -n 2 --profile"
RUN = "fit-cell"  # what XProf calls the profile


def with_real(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Install it into a folder, where servers that are started now find it."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", folder]
    subprocess.run([*pip, "xprof"], check=True)
    paths = [*filter(None, [os.environ.get("PYTHONPATH")]), str(folder)]
    patch.setenv("PYTHONPATH", os.pathsep.join(paths))
    patch.setenv("JAXTRAIN_XPROF_TIMEOUT", "120")


@pytest.fixture
def with_xprof(store: Path, tmp_path: Path) -> Iterator[Server]:
    """Give a server that finds it."""
    with pytest.MonkeyPatch.context() as patch:
        with_real(patch, tmp_path / "packages")
        server = Server(tmp_path, store)
    yield server
    server.stop()


def test_it_shows_the_profile_of_a_job(with_xprof):
    job = run(CELL, line=LINE)
    path = opened(with_xprof, job.name, profile="cell")
    status, headers, page = fetch(with_xprof, path)
    assert status == 200 and b"localStorage" in page and b"<script" in page
    assert "sandbox" in headers["Content-Security-Policy"]
    assert json.loads(fetch(with_xprof, f"{path}runs")[2]) == [RUN]
    tools = json.loads(fetch(with_xprof, f"{path}run_tools?run={RUN}")[2])
    assert {"overview_page", "trace_viewer@"} <= {*tools}
    hosts = json.loads(fetch(with_xprof, f"{path}hosts?run={RUN}&tag=trace_viewer@")[2])
    assert [one["hostname"] for one in hosts] == ["rank-0", "rank-1"]
    for tool, shown in (("overview_page", "Time (%)"), ("trace_viewer@", "PjitFunction(step)")):
        asked = f"{path}data?run={RUN}&tag={tool}&host=rank-1"
        status, headers, body = fetch(with_xprof, asked)
        assert (status, headers["Content-Type"]) == (200, "application/json")
        assert shown in json.dumps(json.loads(body)), tool
