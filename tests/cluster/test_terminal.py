"""A job on the cluster in a terminal: the command line, in pipes and on a real pseudo-terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pexpect
import pytest

from jupyter_jax_trainer import api

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

WAITS = "import time\nprint('running', flush=True)\ntime.sleep(600)\n"


def jaxtrain(*words, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "jupyter_jax_trainer", *map(str, words)],
        cwd=cwd,
        text=True,
        capture_output=True,
        timeout=100,
        check=False,
    )


def spawn(*words, cwd):
    return pexpect.spawn(
        sys.executable,
        ["-m", "jupyter_jax_trainer", *words],
        cwd=str(cwd),
        timeout=60,
        encoding="utf-8",
        dimensions=(30, 100),
        env={**os.environ, "TERM": "xterm"},
    )


def state(store, name):
    return json.loads((store / "jobs" / name / "state.json").read_text())["state"]


def test_run_a_file_in_pipes(place, store, tmp_path):
    (tmp_path / "beside.py").write_text("factor = 3\n")
    (tmp_path / "fit.py").write_text(
        "import sys\nimport beside\nfrom jupyter_jax_trainer import report\n"
        "report(step=3, total=3, loss=0.25)\nprint('hello', sys.argv[1:])\nx = 5 * beside.factor\n"
    )
    done = jaxtrain(
        "run", "fit.py", "fit", *place.split(), "-n", 2, "-o", "x", "--", "--lr", 1, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "hello ['--lr', '1']\n"  # the log alone: fit for a pipe
    lines = done.stderr.splitlines()
    states = [m[1] for line in lines if (m := re.match(r"fit: (\w+) · 2 nodes", line))]
    assert len(states) > 1 and states[-1] == "Succeeded", lines
    assert api.job("fit").history[0][0] == "Queued"
    assert len(lines) < 20 and lines[-1] == "`jaxtrain result fit` prints x."
    assert jaxtrain("result", "fit").stdout == "x = 15\n"
    assert "POD" in jaxtrain("show", "fit").stdout


def test_reasons_hints_and_exit_codes(place, store, tmp_path):
    (tmp_path / "bad.py").write_text("raise ValueError('no')\n")
    failed = jaxtrain("run", "bad.py", "bad", *place.split(), cwd=tmp_path)
    assert failed.returncode == 1 and failed.stderr.count("Traceback") == 1, failed.stderr
    assert "ValueError: no" in failed.stderr and "Traceback" not in failed.stdout
    refused = jaxtrain("run", "bad.py", *place.split(), "--runtime", "nope", cwd=tmp_path)
    assert refused.returncode == 2 and "No runtime nope" in refused.stderr

    run = spawn("run", "bad.py", "never", *place.split(), "--cpu", "500", cwd=tmp_path)
    run.expect(r"the pod can't be scheduled: 0/\d+ nodes have 500 CPUs\r\n")
    run.expect("Ask for less")
    run.sendcontrol("c")
    run.expect("`jaxtrain cancel never` cancels it")
    run.expect(pexpect.EOF)
    assert state(store, "never") == "Pending"
    assert jaxtrain("cancel", "never", "--yes").returncode == 0


def test_leave_come_back_and_cancel_on_a_terminal(place, store, tmp_path):
    (tmp_path / "wait.py").write_text(WAITS)
    started = jaxtrain("run", "wait.py", "bg", *place.split(), "--detach", cwd=tmp_path)
    assert "`jaxtrain attach bg`" in started.stdout, started.stderr
    watch = spawn("attach", "bg", cwd=tmp_path)
    watch.expect("running\r\n")
    watch.expect(r"bg: Running · 1 node · [\d.]+ s")  # the moving status line
    watch.sendcontrol("c")
    watch.expect("Detached. Job bg ")
    watch.expect(pexpect.EOF)
    assert state(store, "bg") == "Running"
    for answer, after in (("n", "Running"), ("y", "Cancelled")):
        cancel = spawn("cancel", "bg", cwd=tmp_path)
        cancel.expect(r"Cancel it\?")
        cancel.sendline(answer)
        cancel.expect(pexpect.EOF)
        assert state(store, "bg") == after
