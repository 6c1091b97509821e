"""The watch over skips and left-over processes does what it promises."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import conftest
import other_python
import pytest

TESTS = Path(__file__).resolve().parent.parent

MISSING_PART = """
from policy import skip_or_fail

def test_it():
    skip_or_fail("other-python", "there is none here")
"""
MISSING_GPU = MISSING_PART.replace("other-python", "gpu")
PLAIN_SKIP = """
import pytest

@pytest.mark.skip(reason="not today")
def test_it(): ...
"""
MODULE_SKIP = "import pytest; pytest.skip('no such thing', allow_module_level=True)"
XFAIL = """
import pytest

@pytest.mark.xfail(reason="known")
def test_it(): assert False
"""
SLOW = """
import pytest

@pytest.mark.slow
def test_it(): ...
"""
LEAK = """
import subprocess

def test_it(home):
    # It has to say so: right after its start /proc may not have its environment yet.
    command = ["sh", "-c", "echo begun; sleep 60; :"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    child.stdout.readline()
    globals()["keep"] = child
"""
WARM = """
import socket, subprocess, sys

LISTEN = '''
import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print("up", flush=True)
time.sleep(60)
'''

def test_it(home):
    (home / "run").mkdir()
    command = [sys.executable, "-c", LISTEN, str(home / "run" / "warm.sock")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    child.stdout.readline()
    globals()["keep"] = child
"""


def run(tmp_path: Path, text: str, *options: str, **variables: str) -> tuple[int, str]:
    for name in ("conftest.py", "policy.py", "procfs.py", "other_python.py", "pace.py"):
        shutil.copy(TESTS / name, tmp_path)
    (tmp_path / "test_it.py").write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow: slow\n")
    environment = {k: v for k, v in os.environ.items() if k not in ("CI", "JAXTRAIN_REQUIRE")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # they would take most of the time
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(tmp_path)],
        env=environment | variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "variables", "code"),
    [
        (MISSING_PART, {}, 0),
        (MISSING_PART, {"CI": "false"}, 0),
        (MISSING_PART, {"CI": "true"}, 1),
        (MISSING_PART, {"JAXTRAIN_REQUIRE": "docker, other-python"}, 1),
        (MISSING_PART, {"JAXTRAIN_REQUIRE": "docker"}, 0),
        (MISSING_GPU, {"CI": "true"}, 0),
        (MISSING_GPU, {"CI": "true", "JAXTRAIN_REQUIRE": "gpu"}, 1),
        (PLAIN_SKIP, {}, 0),
        (PLAIN_SKIP, {"CI": "true"}, 1),
        (PLAIN_SKIP, {"JAXTRAIN_REQUIRE": "all"}, 1),
        (MODULE_SKIP, {"CI": "true"}, 2),
        (XFAIL, {"CI": "true"}, 0),
    ],
)
def test_a_skip_that_hides_a_required_part_fails(tmp_path, text, variables, code):
    status, output = run(tmp_path, text, **variables)
    assert status == code, output


def test_the_summary_says_what_did_not_run_and_why(tmp_path):
    assert "1 skipped: [other-python] there is none here" in run(tmp_path, MISSING_PART)[1]
    status, output = run(tmp_path, SLOW + "\ndef test_fast(): ...", "-m", "not slow")
    assert status == 0
    assert "1 left out: slow" in output


@pytest.mark.skipif(not Path("/proc/net/unix").exists(), reason="[macos] looks into /proc")
def test_a_process_that_outlives_its_test_is_found_and_killed(tmp_path):
    fast = LEAK + "\nimport conftest; conftest.GRACE_S = 0.2\n"
    status, output = run(tmp_path, fast, "--basetemp", str(tmp_path / "base"))
    assert status == 1
    assert "processes outlived the test" in output and "sleep 60" in output
    assert not left_in(tmp_path / "base")


@pytest.mark.skipif(not Path("/proc/net/unix").exists(), reason="[macos] looks into /proc")
def test_the_warm_start_is_ended_without_a_complaint(tmp_path):
    status, output = run(tmp_path, WARM, "--basetemp", str(tmp_path / "base"))
    assert status == 0, output
    assert not left_in(tmp_path / "base")


def left_in(base: Path) -> dict[int, str]:
    deadline = time.monotonic() + 2
    left: dict[int, str] = {}
    while time.monotonic() < deadline:
        left = {}
        for home in base.glob("home*"):
            left |= conftest.processes_of(home)
        if not left:
            break
        time.sleep(0.05)
    return left


def test_a_python_that_does_not_run_is_not_taken_for_one(tmp_path):
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    assert other_python._minor(shim) is None
    assert other_python._minor(Path(sys.executable)) == sys.version_info.minor
