"""The standard streams of a worker, and processes that a cell forks."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, threading
from jupyter_jax_trainer.worker import output

output._FLUSH_INTERVAL = 0
output.set_up(counted=sys.argv[1] == "counted")
for _ in range(3):
    threading.Thread(target=output._flush_often, daemon=True).start()
for _ in range(100):
    print("a line")
    print("another", file=sys.stderr)
    child = os.fork()
    if not child:
        print("of the child")
        print("and its other", file=sys.stderr)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.parametrize("streams", ["plain", "counted"])
def test_a_forked_child_can_print_whatever_threads_write_out_meanwhile(streams):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, streams], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert done.stdout.split("\n") == ["a line", "of the child"] * 100 + [""]
    assert done.stderr.split("\n") == ["another", "and its other"] * 100 + [""]
