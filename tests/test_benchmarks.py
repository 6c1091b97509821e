"""Every benchmark still runs: each one once, with its smallest input. Its figures are no test."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from typing import Any

import pytest
from smoke import BENCHMARKS, smoke

pytestmark = pytest.mark.timeout(240)

QUICK = ("loading", "capture", "follow_logs", "log_pages", "where_pods", "session_data")
LOCAL = (
    "profiles",
    "start",
    "step",
    "logs",
    "where",
    "stuck",
    "session",
    "session_many",
    "compile_cache",
    "sampling",
)
FACE = ("face_log", "face_live", "face_jobs")
CLUSTER = (
    "cluster_restart",
    "cluster_status",
    "cluster_channel",
    "cluster_session",
    "cluster_log",
    "cluster_list",
)
# Variations of others, and what needs a minute: tried before a release.
RARE = ("start_older", "session_edits", "session_hour")
RARE_FACE = ("face_start", "face_machine", "face_others")
RARE_ON_CLUSTER = ("cluster_start", "cluster_older", "cluster_packages")
# In tests/cluster/test_queues.py, which installs Kueue; and by hand, where there is a GPU.
ELSEWHERE = ("queue_fifty", "gpu")


def _params(names: tuple[str, ...], part: str, *marks: str) -> list[Any]:
    return [
        pytest.param(name, part, id=name, marks=[getattr(pytest.mark, mark) for mark in marks])
        for name in names
    ]


PARAMS = [
    *_params(QUICK, "nothing"),
    *_params(LOCAL, "nothing", "slow"),
    *_params(FACE, "browser", "slow", "browser"),
    *_params(CLUSTER, "cluster", "slow", "cluster"),
    *_params(RARE, "the history of git", "release"),
    *_params(RARE_FACE, "browser", "release", "browser"),
    *_params(RARE_ON_CLUSTER, "cluster", "release", "cluster"),
]


@pytest.mark.parametrize(("name", "part"), PARAMS)
def test_a_benchmark_runs(name, part, tmp_path_factory):
    # Not under tmp_path, which holds the test's name: a Unix socket's path has 107 bytes at most.
    smoke(name, part, tmp_path_factory.mktemp("bench"))


def test_what_a_benchmark_lacks_fails_its_smoke_run(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--smoke", "cluster_log"]
    environment = {**os.environ, "KUBECONFIG": str(tmp_path / "none")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == os.EX_UNAVAILABLE, done.stdout + done.stderr
    assert "left out cluster_log: " in done.stdout


def test_no_benchmark_is_forgotten(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    listed = importlib.import_module("run").ALL
    made = [path.stem for path in BENCHMARKS.glob("*.py") if "\ndef measure(" in path.read_text()]
    tried = [param.id for param in PARAMS]
    assert sorted(made) == sorted(listed) == sorted([*tried, *ELSEWHERE])
