"""What is wrong before a job starts: said in a sentence, and nothing is started or written."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import policy
import pytest
from harness import LONG_S, submit, wait_for

from jupyter_jax_trainer import api
from jupyter_jax_trainer.backends.local import submission
from jupyter_jax_trainer.errors import BackendError, CaptureError, JaxTrainError, UsageError
from jupyter_jax_trainer.jobdir import store
from jupyter_jax_trainer.messages import api as say_of_api
from jupyter_jax_trainer.messages import local as say_of_local
from jupyter_jax_trainer.messages import options as say

ENDLESS = "import time\nwhile True: time.sleep(0.05)\n"


def refused(cell: str, namespace: dict | None = None, line: str = "-n 2") -> JaxTrainError:
    """Submit what must be refused; check that no trace of it is left."""
    with pytest.raises(JaxTrainError) as raised:
        submit(cell, namespace, line)
    found = [path for path in store.home().rglob("*") if path.is_file()]
    assert not found
    return raised.value


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        (
            "--runtime local-cpo",
            say_of_local.UNKNOWN_RUNTIME(name="'local-cpo'"),
            say.DID_YOU_MEAN(name="local-cpu"),
        ),
        ("--noodles 2", "--noodles", "--nodes"),
        ("-n 0", "0", None),
        ("-n -1", "-1", None),
        ("-n 1000000", "1000000", None),
        ("-n two", "two", None),
        ("Bad_Name", "job name", "bad-name"),
        ("-d gpu -n 4000", "4000 GPUs", "--device cpu"),
        ("-d tpu", say.DEVICE_NEEDS_KUBERNETES(device="tpu"), None),
    ],
)
def test_a_wrong_option_is_refused_in_a_sentence(home, line, said, hint):
    error = refused("x = 1", line=line)
    assert isinstance(error, UsageError)
    assert said in error.message
    assert error.message.rstrip().endswith((".", ":"))
    if hint:
        assert hint in str(error)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("JAXTRAIN_CORES", "many"),
        ("JAXTRAIN_CORES", "0"),
        ("JAXTRAIN_RENDEZVOUS_TIMEOUT", "soon"),
        ("JAXTRAIN_RENDEZVOUS_TIMEOUT", "nan"),
        ("JAXTRAIN_CANCEL_TIMEOUT", "0"),
        ("JAXTRAIN_FOLLOWER_IDLE", "inf"),
    ],
)
def test_a_setting_that_makes_no_sense_is_said(home, monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    error = refused("x = 1")
    assert isinstance(error, UsageError)
    assert error.id in ("local.cores-not-a-number", "worker.invalid-timeout")
    assert error.message.startswith(f"{variable} ")
    assert repr(value) in error.message


def test_a_working_directory_that_is_gone_is_said(home, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    error = refused("x = 1")
    assert error.id == "local.directory-gone"


def test_a_syntax_error_is_found_before_submission(home):
    with pytest.raises((SyntaxError, UsageError)) as raised:
        submit("x = 1\nfor in range(3): pass\n")
    assert "line 3" in str(raised.value) or raised.value.lineno == 3  # below the magic's line
    assert not list(home.rglob("jobs/*"))


def test_an_undefined_name_is_said_with_the_nearest_one(home):
    error = refused("y = lerning_rate * 2", {"__name__": "__main__", "learning_rate": 0.1})
    assert error.id == "cell.misspelt" and "Line 2 of the cell" in error.message
    assert "Did you mean 'learning_rate'?" in error.message


def test_the_path_to_what_cannot_travel_is_named(home):
    config = {"model": {"layers": [1, {"guard": threading.Lock()}]}}
    error = refused("print(config['model'])", {"__name__": "__main__", "config": config})
    assert isinstance(error, CaptureError)
    assert "config['model']['layers'][1]['guard']: a thread lock" in error.message
    assert error.hint


def test_a_variable_larger_than_memory_is_refused(home, monkeypatch):
    monkeypatch.setattr(
        submission.shutil, "disk_usage", lambda path: type("U", (), {"free": 1 << 60})
    )
    data = np.broadcast_to(np.float32(1), (1 << 24, 1 << 18))  # 16 TiB that are not there
    error = refused("print(data.shape)", {"__name__": "__main__", "data": data})
    assert isinstance(error, CaptureError)
    assert error.id == "local.too-large-for-memory"
    assert error.hint


def test_a_variable_larger_than_the_disk_is_refused(home, tmp_path):
    file = tmp_path / "sparse"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 43)
    data = np.memmap(file, np.uint8, "r")
    error = refused("print(data.shape)", {"__name__": "__main__", "data": data})
    assert isinstance(error, CaptureError)
    assert error.id == "local.too-large-for-disk"
    assert str(home) in error.message
    assert "JAXTRAIN_HOME" in error.hint


# ---------------------------------------------------------------------------- names


@pytest.mark.slow
def test_the_name_of_an_active_job_is_refused(home):
    job = wait_for(submit(ENDLESS, line="taken"), "Running")
    with pytest.raises(UsageError, match="'taken'") as raised:
        submit("x = 1", line="taken")
    assert raised.value.id == "api.name-active"
    assert "%jaxtrain cancel taken" in raised.value.hint
    job.cancel()

    again = submit("x = 1", line="taken").wait(LONG_S)  # that one has ended
    assert again.name == "taken-2"
    assert [found.name for found in api.jobs()] == ["taken-2", "taken"]


PAIR = """
import sys
sys.path[:0] = {path!r}
from harness import submit
from jupyter_jax_trainer.errors import UsageError
sys.stdin.readline()
try:
    job = submit({cell!r}, line="same")
    print("got", job.name, flush=True)
    sys.stdin.readline()
    job.cancel()
except UsageError as error:
    print("refused", error.message)
"""


def test_of_two_kernels_that_submit_one_name_at_once_one_gets_it(home):
    path = [str(Path(__file__).parents[1]), str(Path(api.__file__).parents[1])]
    program = PAIR.format(path=path, cell=ENDLESS)
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            text=True,
            bufsize=1,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    for one in both:
        one.stdin.write("go\n")
    said = sorted(one.stdout.readline() for one in both)
    assert said[0] == "got same\n"
    assert said[1] == f"refused {say_of_api.NAME_ACTIVE(name='same')}\n"
    assert [job.name for job in api.jobs()] == ["same"]
    for one in both:
        one.communicate("end\n", timeout=LONG_S)


# ---------------------------------------------------------------------------- no space


@pytest.fixture
def small_disk(tmp_path):
    """Mount a file system of 4 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "none", path],
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        policy.skip_or_fail("mount", f"a small file system can't be mounted: {mounted.stderr}")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def test_a_full_disk_at_submission_is_said(home, small_disk, monkeypatch):
    monkeypatch.setenv("JAXTRAIN_HOME", str(small_disk / "home"))
    monkeypatch.setattr(submission.LocalSubmission, "check_size", lambda *args: None)
    (small_disk / "filler").write_bytes(bytes((4 << 20) - (64 << 10)))
    words = say_of_api.CANNOT_WRITE(error="No space left on device", path="PATH")
    with pytest.raises(BackendError, match=re.escape(words.partition("PATH")[0])) as raised:
        submit("x = 1")
    assert raised.value.id == "api.cannot-write" and "jaxtrain delete" in raised.value.hint
    assert not list(small_disk.glob("home/jobs/*")) and not list(small_disk.glob("home/jobs/.*"))
