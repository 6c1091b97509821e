"""From a cell to its first line on two nodes: against kubectl (the same objects) and the SDK."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from common import WARM_UPS, Measured, ratio_of, run_job, sized, spread
from kube import Place, Sdk, objects_of, place, sdk_python

NODES = sized(2, 1)
CELL = "import time; print('began', time.time())\n"
COLD = """
import sys
sys.path[:0] = sys.argv[1:3]
from common import run_job
job, _ = run_job(sys.argv[3], sys.argv[4])
print(job.name)
"""
HERE = Path(__file__).resolve().parent


def measure(runs: int) -> list[Measured]:
    """Compare all in turn: warm clients in each round, cold ones in every second."""
    with place() as there, closing(Sdk(there, NODES)) as sdk:
        ways: dict[str, Callable[[], float]] = {
            "ours": lambda: _ours(there),
            "kubectl": lambda: _kubectl(there),
            "the SDK": lambda: _sdk(there, sdk),
        }
        cold: dict[str, Callable[[], float]] = {
            "ours": lambda: _ours_cold(there),
            "the SDK": lambda: _sdk_cold(there),
        }
        there.start_follower()
        for way in [*ways.values()] * WARM_UPS:
            way()
        taken: dict[str, list[float]] = {way: [] for way in ways}
        taken_cold: dict[str, list[float]] = {way: [] for way in cold}
        for number in range(runs):
            for way, run in ways.items():
                taken[way].append(run())
            if number % 2 == 0:
                for way, run in cold.items():
                    taken_cold[way].append(run())
    seconds = {way: spread(values) for way, values in taken.items()}
    found = []
    for other, bound in (("kubectl", 1.05), ("the SDK", 1.0)):
        ratio = ratio_of(taken["ours"], taken[other])
        found.append(
            Measured(
                f"cell to its first line, {NODES} nodes, against {other}",
                ratio,
                f"<= {bound}" if bound > 1 else "< 1",
                f"ours {seconds['ours']}, {other} {seconds[other]}",
                ratio <= bound if bound > 1 else ratio < 1,
            )
        )
    ratio = ratio_of(taken_cold["ours"], taken_cold["the SDK"])
    found.append(
        Measured(
            "... from new processes, against the SDK",
            ratio,
            "none",
            f"ours {spread(taken_cold['ours'])}, the SDK {spread(taken_cold['the SDK'])}",
            True,
        )
    )
    return found


def _line(there: Place) -> str:
    return f"-n {NODES} {there.options}"


def _ours(there: Place) -> float:
    there.start_follower()
    job, began = run_job(CELL, _line(there))
    taken = there.began(job.name, NODES) - began
    job.wait(60)
    there.delete(job.name)
    return taken


def _ours_cold(there: Place) -> float:
    """Measure from the start of a new process, without a follower."""
    there.stop_follower()
    began = time.time()
    done = subprocess.run(
        [sys.executable, "-c", COLD, str(HERE), str(HERE.parent), CELL, _line(there)],
        check=True,
        capture_output=True,
        text=True,
    )
    name = done.stdout.strip()
    taken = there.began(name, NODES) - began
    there.delete(name)
    return taken


def _kubectl(there: Place) -> float:
    """Measure `kubectl create` of what ours would create; the follower looks on as with ours."""
    name, text = objects_of(CELL, _line(there))
    there.start_follower()
    began = time.time()
    there.create(text)
    taken = there.began(name, NODES) - began
    there.delete(name)
    return taken


def _sdk(there: Place, sdk: Sdk) -> float:
    name, began = sdk.call("train")
    taken = there.began(name, NODES) - float(began)
    there.delete(name)
    return taken


def _sdk_cold(there: Place) -> float:
    began = time.time()
    done = subprocess.run(
        [str(sdk_python()), str(HERE / "sdk.py"), there.name, str(NODES), "once"],
        check=True,
        capture_output=True,
        text=True,
    )
    name = json.loads(done.stdout)
    taken = there.began(name, NODES) - began
    there.delete(name)
    return taken
