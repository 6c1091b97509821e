"""The logs of our own processes, and the numbers that a follower writes."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from harness import eventually
from made_jobs import make_job
from prometheus_client.parser import text_string_to_metric_families

import jupyter_jax_trainer
from jupyter_jax_trainer import log as ownlog
from jupyter_jax_trainer.backends.kubernetes.api.counts import FILE, Counts
from jupyter_jax_trainer.backends.local import keeper, warm, workers
from jupyter_jax_trainer.jobdir.layout import JobDir


@pytest.mark.parametrize(
    "level, seen",
    [
        (None, ["warning", "error"]),
        ("debug", list(ownlog.LEVELS)),
        ("ERROR", ["error"]),
        ("nonsense", ["warning", "error"]),
    ],
)
def test_levels(level, seen, monkeypatch, capsys):
    monkeypatch.delenv(ownlog.LEVEL_VARIABLE, raising=False)
    if level:
        monkeypatch.setenv(ownlog.LEVEL_VARIABLE, level)
    for one in ownlog.LEVELS:
        ownlog.log(one, f"this is {one}")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[-1] for line in lines] == seen
    assert all(line.split()[1] == line.split()[-1].upper() for line in lines)


@pytest.mark.parametrize(
    "text, secret",
    [
        ("refused: Bearer abc.DEF-123 at /x", "abc.DEF-123"),
        ("token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2ln here", "c2ln"),
        ("https://jo:hunter2@example.org/api", "hunter2"),
        ("https://jo:hunt@er2@example.org/api", "er2"),
        ("GET /x?token=s3cr3t&a=1", "s3cr3t"),
        ("https://store/a?sig=s3cr3t%3D&x=1", "s3cr3t"),
        ('{"token": "s3cr3t"}', "s3cr3t"),
        ("{'password': 's3cr3t', 'user': 'jo'}", "s3cr3t"),
        ("AWS_SECRET_ACCESS_KEY=s3cr3t", "s3cr3t"),
        ("Authorization: Basic s3cr3t==", "s3cr3t"),
    ],
)
def test_secrets_are_left_out(text, secret, capsys):
    ownlog.log("error", text)
    said = capsys.readouterr().err
    assert secret not in said and "…" in said


NOWHERE = "/nowhere?token=s3cr3t"


def start_job(path: str, log: int) -> None:
    request = {"path": path, "cwd": NOWHERE, "environment": {}}
    warm._fork_job(request, os.dup(log), log, warm=True)
    os.wait()


def keep_job(path: str, log: int) -> None:
    os.dup2(log, 2)
    keeper.supervise(path, workers.start_cold, os.dup(log))


def start_rank(path: str, log: int) -> None:
    channel, _ = socket.socketpair()
    workers.start_warm(JobDir(path), {}, NOWHERE, channel, log)
    os.wait()


@pytest.mark.parametrize("start", [start_job, keep_job, start_rank])
def test_what_breaks_a_process_is_written_without_secrets(start, home, tmp_path, monkeypatch):
    monkeypatch.setattr(keeper, "_supervisor_of", lambda *_: os.chdir(NOWHERE))
    path = str(make_job("fit", "Running").path)
    with (tmp_path / "supervisor.log").open("w") as log, open(2, "w", closefd=False) as stderr:
        child = os.fork()
        if not child:
            try:
                with contextlib.redirect_stderr(stderr):  # not pytest's
                    start(path, log.fileno())
            finally:
                os._exit(1)
        os.waitpid(child, 0)
    said = (tmp_path / "supervisor.log").read_text()
    assert "ERROR Traceback" in said and "/nowhere?token=…" in said and "s3cr3t" not in said


def test_a_log_that_grows_is_put_aside_with_all_that_comes_from_below(tmp_path):
    code = (
        "import os, sys, pathlib; from jupyter_jax_trainer import log as ownlog\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "for turn in range(40):\n"
        "    os.write(2, b'x' * 99_999 + b'\\n')\n"  # as C code prints
        "    ownlog.bound(path)\n"
        "ownlog.log('error', 'the last')"
    )
    path = tmp_path / "follower.log"
    with path.open("ab") as log:
        subprocess.run([sys.executable, "-c", code, str(path)], stderr=log, check=True)
    assert sorted(os.listdir(tmp_path)) == ["follower.log", "follower.log.1"]
    assert path.stat().st_size <= ownlog.MAX_LOG and path.read_text().endswith("the last\n")
    older = path.with_name("follower.log.1").stat().st_size
    assert ownlog.MAX_LOG < older <= ownlog.MAX_LOG + 100_000


def numbers(directory):
    text = (directory / FILE).read_text()
    return {
        (sample.name, sample.labels.get("what")): (sample.value, sample.labels["namespace"])
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_counts_of_many_threads_are_exact_and_in_prometheus_form(tmp_path):
    counts = Counts()

    def work():
        for _ in range(5000):
            counts.add("log_bytes_total", 2)
            counts.add("reconnects_total", 1, 'what="log"')

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts.stretch("log_lag_seconds", 3.0)
    counts.stretch("log_lag_seconds", 1.0)
    counts.save(tmp_path, 'namespace="a"')
    found = numbers(tmp_path)
    assert found["jaxtrain_follower_log_bytes_total", None] == (40000, "a")
    assert found["jaxtrain_follower_reconnects_total", "log"] == (20000, "a")
    assert found["jaxtrain_follower_log_lag_seconds", None] == (3.0, "a")
    assert found["jaxtrain_follower_errors_total", None] == (0, "a")
    counts.save(tmp_path, 'namespace="b"')
    assert numbers(tmp_path) == found  # not again so soon
    counts.save(tmp_path, 'namespace="b"', now=True)
    again = numbers(tmp_path)
    assert again["jaxtrain_follower_log_lag_seconds", None] == (0, "b")
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_the_page_lists_what_is_counted(tmp_path):
    Counts().save(tmp_path, "", now=True)
    counted = set(re.findall(r"^# TYPE (\S+) ", (tmp_path / FILE).read_text(), re.MULTILINE))
    page = (Path(__file__).parents[2] / "docs/reference/server.md").read_text()
    assert (
        counted == set(re.findall(r"^\| `(jaxtrain_follower_\w+)", page, re.MULTILINE))
        and len(counted) == 7
    )


@pytest.mark.parametrize("start", ["0", "1"], ids=["cold", "warm"])
def test_a_supervisor_is_silent_unless_it_is_asked(start, home, monkeypatch):
    monkeypatch.setenv("JAXTRAIN_WARM", start)
    first = jupyter_jax_trainer.train(int, name="silent").wait(60)
    assert (first.directory / "supervisor.log").read_text() == ""
    monkeypatch.setenv(ownlog.LEVEL_VARIABLE, "info")
    second = jupyter_jax_trainer.train(int, name="asked").wait(60)
    log = second.directory / "supervisor.log"
    eventually(
        lambda: "INFO asked: Succeeded" in log.read_text()
    )  # said after the state is written
    said = log.read_text()
    assert "INFO asked: Running" in said
