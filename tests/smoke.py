"""A benchmark run once, with its smallest input: does it still run, and does it leave nothing?"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from pace import Deadline
from policy import skip_or_fail

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
LIMIT_S, TIDY_S = 180, 40
GRACE_S = 5.0  # in which the processes of a benchmark must be gone


def smoke(name: str, part: str, folder: Path) -> None:
    """Run a benchmark; where it lacks something, the test is skipped or fails (policy.py).

    Parameters
    ----------
    part
        What the benchmark needs that may be missing.
    folder
        Holds its temporary files.
    """
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--smoke", name]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            said = _said(process)
        finally:
            left = _ended(folder)
    if process.returncode == os.EX_UNAVAILABLE:
        skip_or_fail(part, said.splitlines()[-1])
    assert process.returncode == 0, said
    assert re.search("^ran  ", said, re.MULTILINE), said
    assert not left, f"processes outlived the benchmark: {left}"
    assert not list(folder.glob("jaxtrain-*"))


def _said(process: subprocess.Popen[str]) -> str:
    """Return what a process prints; one that takes too long is interrupted, so that it tidies up."""
    try:
        return process.communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=TIDY_S)[0]


def _ended(folder: Path) -> dict[int, str]:
    """Kill what runs on after a moment's grace, and return it: the process ids and commands."""
    deadline = Deadline(GRACE_S)
    while (left := _processes(folder)) and not deadline.passed:
        time.sleep(0.1)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return left


def _processes(folder: Path) -> dict[int, str]:
    """Return the processes whose temporary files are in a folder."""
    wanted, found = os.fsencode(f"TMPDIR={folder}"), {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone, or not ours
            if wanted in entry.joinpath("environ").read_bytes().split(b"\0"):
                command = entry.joinpath("cmdline").read_bytes().replace(b"\0", b" ")
                found[int(entry.name)] = command.decode(errors="replace").strip()
    return found
