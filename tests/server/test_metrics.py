"""What Prometheus is told."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time

import pytest
from harness import eventually
from made_jobs import make_job
from pace import within

from jupyter_jax_trainer import log
from jupyter_jax_trainer.backends.kubernetes.api.client import Client
from jupyter_jax_trainer.backends.kubernetes.api.counts import Counts
from jupyter_jax_trainer.backends.kubernetes.submit import launch
from jupyter_jax_trainer.jobdir import store
from jupyter_jax_trainer.server.metrics import Numbers
from server.silent import Silent


def tells(server, wanted):
    """Wait until these numbers are told: a server that is slow to find them gives those of last time."""
    eventually(lambda: {name: server.numbers().get(name) for name in wanted} == wanted)


@pytest.mark.slow
def test_jobs_by_state_and_pages(server):
    make_job("one")
    make_job("two")
    make_job("three", "Failed")
    tells(
        server,
        {
            ("jaxtrain_jobs", "Succeeded", "local"): 2,
            ("jaxtrain_jobs", "Failed", "local"): 1,
            ("jaxtrain_jobs", "Running", "kubernetes"): 0,
        },
    )
    before = server.numbers()["jaxtrain_pages",]
    with server.page(), server.page():
        eventually(lambda: server.numbers()["jaxtrain_pages",] == before + 2)
    eventually(lambda: server.numbers()["jaxtrain_pages",] == before)


def test_only_who_may_use_the_server_is_told(server):
    status, _ = server.ask("GET", "metrics", headers={}, url=server.base)
    assert status == 403


def follower(name, **numbers):
    """Be a follower, as far as others can see; give its lock."""
    directory = store.private_directory(launch.follower_directory(name))
    counts = Counts()
    for key, value in numbers.items():
        counts.put(key, value)
    counts.add("reconnects_total", 3, 'what="log"')
    counts.save(directory, f'cluster="{name}",namespace="team"')
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def test_what_living_followers_have_counted(server, store):
    locks = [follower("aa", log_bytes_total=123456789), follower("bb", jobs=4)]
    try:
        tells(
            server,
            {
                ("jaxtrain_followers",): 2,
                ("jaxtrain_follower_log_bytes_total", "aa", "team"): 123456789,
                ("jaxtrain_follower_jobs", "bb", "team"): 4,
                ("jaxtrain_follower_reconnects_total", "aa", "log", "team"): 3,
            },
        )
    finally:
        for lock in locks:
            os.close(lock)
    tells(
        server, {("jaxtrain_followers",): 0, ("jaxtrain_follower_jobs", "bb", "team"): None}
    )  # they have left


@pytest.mark.slow
def test_a_real_follower_whose_cluster_is_gone(server, store, tmp_path, monkeypatch):
    gone = Silent()
    gone.kubeconfig(tmp_path / "kubeconfig", "team", "one")
    gone.close()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv(log.LEVEL_VARIABLE, "info")
    cluster = Client("one", "team").identity
    began = time.time()
    launch.start_follower({"cluster": cluster, "context": "one", "namespace": "team"})
    lock = launch.follower_directory(cluster) / "lock"
    eventually(lambda: lock.exists() and lock.read_text())
    pid = int(lock.read_text())
    try:
        silent = ("jaxtrain_follower_cluster_silent", cluster, "team")
        eventually(lambda: server.numbers().get(silent) == 1, 40)
        found = server.numbers()
        assert found["jaxtrain_followers",] == 1
        assert found["jaxtrain_follower_jobs", cluster, "team"] == 0
        started = found["jaxtrain_follower_start_time_seconds", cluster, "team"]
        assert began - 1 <= started <= time.time()
        assert "INFO follows team of " in (lock.parent / "follower.log").read_text()
    finally:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: server.numbers()["jaxtrain_followers",] == 0)


def test_a_damaged_file_costs_nothing_else(server, store):
    make_job("one")
    lock = follower("cc")
    try:
        (launch.follower_directory("cc") / "metrics.prom").write_bytes(b"\xff{ nonsense {{{ 1 2 3")
        tells(server, {("jaxtrain_jobs", "Succeeded", "local"): 1, ("jaxtrain_followers",): 1})
    finally:
        os.close(lock)


def test_the_loop_does_not_wait_for_what_takes_long():
    go_on = threading.Event()

    class Slow:
        def rows(self):
            go_on.wait(60)
            return 1, [{"backend": "local", "state": "Failed"}]

    numbers = Numbers(Slow(), [])
    began = time.monotonic()
    assert [*numbers.collect()] == [] and within(time.monotonic() - began, 10)
    go_on.set()
    eventually(lambda: "jaxtrain_jobs" in [metric.name for metric in numbers.collect()])
