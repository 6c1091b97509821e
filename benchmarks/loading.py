"""``%load_ext``: the time that it adds, and what it must not import."""

from __future__ import annotations

import statistics
import subprocess
import sys

from common import Measured, sized

PROGRAM = """
import sys, time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
before = time.perf_counter()
shell.run_line_magic("load_ext", "jupyter_jax_trainer")
print(time.perf_counter() - before)
heavy = {"jax", "kubernetes", "ipywidgets", "numpy", "pandas", "cloudpickle"} & set(sys.modules)
assert not heavy, heavy
"""


def measure(runs: int) -> list[Measured]:
    """Time it in fresh processes."""
    times = [
        float(
            subprocess.run(
                [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
            ).stdout.split()[-1]
        )
        * 1e3
        for _ in range(sized(max(5, runs), 1))
    ]
    middle = statistics.median(times)
    return [
        Measured(
            "%load_ext, ms", middle, "<= 60", f"({min(times):.0f}-{max(times):.0f})", middle <= 60
        )
    ]
