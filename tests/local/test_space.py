"""No space, no memory, while a job runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import policy
import pytest
from harness import PROMISED_S, PSUM, eventually, submit, wait_failed

from jupyter_jax_trainer import api
from jupyter_jax_trainer.backends.local import submission
from jupyter_jax_trainer.jobdir.failure import failed
from jupyter_jax_trainer.messages import jobs
from jupyter_jax_trainer.messages import local as say

MEMORY = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def small_disk(home, tmp_path, monkeypatch):
    """Give jobs a home of 6 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m,mode=700", "none", path],
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        policy.skip_or_fail("mount", f"a small file system can't be mounted: {mounted.stderr}")
    monkeypatch.setattr(submission.LocalSubmission, "check_size", lambda *args: None)
    monkeypatch.setenv("JAXTRAIN_HOME", str(path / "home"))
    monkeypatch.setenv("JAXTRAIN_WARM", "0")  # a warm process would have its log there, too
    yield path
    subprocess.run(["umount", "-l", path], check=True)


FILL = """
import os, time
time.sleep(0.5)
with open({path!r}, "wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)) == 4096: pass
    except OSError:
        pass
"""


@pytest.mark.parametrize(
    ("then", "kind", "said"),
    [
        (
            "while True:\n    print('x' * 1000, flush=True)\n    time.sleep(0.001)\n",
            "disk",
            "No space left on device",
        ),
        (
            "from jupyter_jax_trainer import report\n"
            "while True:\n    report(loss=1.0)\n    time.sleep(0.01)\n",
            "disk",
            say.DISK_FULL(path=""),
        ),
        pytest.param(
            "while True: time.sleep(0.02)\n",
            "timeout",
            say.TIMED_OUT(timeout=5),
            marks=pytest.mark.slow,
        ),
        (
            "raise LookupError('another reason ' + 'x' * 20000)",
            "error",
            "LookupError: another reason",
        ),
    ],
    ids=["printing", "reporting", "silent", "raising"],
)
def test_a_disk_that_fills_up_is_said(small_disk, then, kind, said):
    cell = FILL.format(path=str(small_disk / "filler")) + then
    job = submit(cell, line=f"-n 1 --timeout {5 if kind == 'timeout' else 60}s")
    failure = wait_failed(job)
    assert failure.kind == kind
    assert said in failure.message
    # The last state was written all the same, for whoever looks later.
    assert json.loads((job.directory / "state.json").read_text())["state"] == "Failed"
    if kind == "disk":
        assert failure.hint == jobs.FREE_SPACE()


@pytest.fixture
def little_memory():
    """Make a memory cgroup of 1.2 GB; processes join it by writing their id into `tasks`."""
    group = MEMORY / f"jaxtrain-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(1200 << 20))
    except OSError as error:
        policy.skip_or_fail("memory-cgroup", f"no memory cgroup can be made: {error}")
    yield group
    eventually(lambda: not (group / "cgroup.procs").read_text().split(), PROMISED_S)
    group.rmdir()


SUBMITTER = """
import os, sys
open({procs!r}, "w").write(str(os.getpid()))
sys.path[:0] = {path!r}
from harness import submit
submit({cell!r}, line="hungry -n 2")
"""

HUNGRY = (
    PSUM
    + """
import os, time
if jax.process_index() == 1:
    time.sleep(0.5)
    kept = []
    while True:
        kept.append(bytearray(os.urandom(1 << 20)) * 16)
multihost_utils.sync_global_devices("never")
"""
)


@pytest.mark.slow
def test_a_rank_that_the_kernel_kills_for_lack_of_memory_is_told_so(
    home, little_memory, monkeypatch
):
    monkeypatch.setenv("JAXTRAIN_WARM", "0")
    path = [str(Path(__file__).parents[1]), str(Path(api.__file__).parents[1])]
    program = SUBMITTER.format(procs=str(little_memory / "cgroup.procs"), path=path, cell=HUNGRY)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    failure = wait_failed(api.job("hungry"))
    assert (failure.kind, failure.rank, failure.others) == ("memory", 1, [0])
    assert failure.message == jobs.OUT_OF_MEMORY()
    assert "smaller batches" in failure.hint
    words = jobs.LAST_MINUTE(rank=1, seconds="SECONDS", course="", limit="")
    assert words.partition("SECONDS")[0] in failure.usage[0]


def test_a_memory_error_of_python_is_told_so(home):
    cell = (
        "import jax.numpy as jnp\n"
        "def fill():\n    w = jnp.ones((512, 512))\n    return w, bytearray(1 << 60)\n"
        "fill()"
    )
    job = submit(cell)
    failure = wait_failed(job)
    assert failure.kind == "memory"
    assert "MemoryError" in failure.message
    course, arrays = failure.usage
    words = jobs.LAST_MINUTE(rank=failure.rank, seconds="SECONDS", course="", limit="")
    assert words.partition("SECONDS")[0] in course
    assert arrays == jobs.LARGEST_ARRAYS(arrays="w in fill() float32[512,512] 1 MiB")
    assert all(f"{line}\n" in str(failed(job.name, failure)) for line in failure.usage)
