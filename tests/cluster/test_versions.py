"""The same with the oldest version of the official client that is supported."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import other_python
import pytest
from policy import skip_or_fail

from cluster.kubernetes_cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]
TESTS = Path(__file__).parents[1]
OLDEST = "35"
# Submission, watches, logs, results by the log and by port-forward; rights; credentials; errors.
CHOSEN = (
    "cluster/test_jobs.py::test_a_cell_runs_on_two_nodes_and_brings_back_what_it_made",
    "cluster/test_rights.py::test_these_rights_are_enough_for_everything[minimal]",
    "cluster/test_identity.py::test_a_job_outlives_the_token_of_an_exec_plugin",
    "unit/test_client.py",
)


@pytest.fixture(scope="session")
def old_client() -> Path:
    """Return the folder with the old official client, and nothing of what is installed here."""
    folder = other_python.VENVS / f"kubernetes-{OLDEST}"
    stamp = folder / "installed"
    other_python.VENVS.mkdir(exist_ok=True)
    if not stamp.exists():
        wanted = f"kubernetes=={OLDEST}.*"
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--target",
            str(folder),
            wanted,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            skip_or_fail("kubernetes-35", f"{wanted} can't be installed: {done.stderr[-300:]}")
        stamp.touch()
    return folder


@pytest.mark.release
def test_the_oldest_client_passes(cluster: Cluster, old_client: Path, tmp_path: Path) -> None:
    assert not version("kubernetes").startswith(OLDEST)  # what all other tests ran with
    path = os.pathsep.join(map(str, (old_client, TESTS.parent)))
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "KUBECONFIG": str(cluster.kubeconfig),
        "JAXTRAIN_TURN": "held",
    }
    code = "from importlib.metadata import version; print(version('kubernetes'))"
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert told.stdout.startswith(f"{OLDEST}."), told.stderr
    if cluster.own:
        del environment["KUBECONFIG"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--basetemp={tmp_path}/b",
            *(str(TESTS / name) for name in CHOSEN),
        ],
        env=environment,
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
