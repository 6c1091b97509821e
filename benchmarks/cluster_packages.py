"""From a cell that uses Flax to its first line: where the image lacks Flax, and where it has it."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from common import Measured, in_turn, run_job, sized, spread
from kube import ROOT, Place, place

sys.path.append(str(ROOT / "tests"))
from cluster.jobs import SLIM
from cluster.kubernetes_cluster import Cluster, Namespace
from cluster.made_runtimes import Shared

NODES = sized(2, 1)
CELL = """
from flax import nnx
import time
layer = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
print("began", time.time(), flush=True)
"""


def measure(runs: int) -> list[Measured]:
    """Compare in turn: the standard image, the slim one, and that with a volume for packages."""
    # What was imported once has byte code, which is sent, too.
    subprocess.run([sys.executable, "-c", "from flax import nnx"], check=True)
    with place() as there, _volume(there) as volume:
        there.start_follower()
        ways = ["", SLIM, f"{SLIM} {volume}"]
        taken = in_turn(runs, *[lambda way=way: _first_line(there, way) for way in ways])
    standard, *others = taken
    return [
        _more(f"first line of a Flax cell, {NODES} nodes, slim image", others[0], standard, 1.0),
        _more("... with a volume that pods share", others[1], standard, 0.2),
    ]


def _more(name: str, ours: list[float], standard: list[float], bound: float) -> Measured:
    more = statistics.median(a - b for a, b in zip(ours, standard, strict=True))
    return Measured(
        f"{name}: seconds over the standard one",
        more,
        f"<= {bound}",
        f"slim {spread(ours)}, standard {spread(standard)}",
        more <= bound,
    )


def _first_line(there: Place, options: str) -> float:
    job, began = run_job(CELL, f"-n {NODES} {there.options} {options}")
    taken = there.began(job.name, NODES) - began
    job.wait(60)
    there.delete(job.name)
    return taken


@contextmanager
def _volume(there: Place) -> Iterator[str]:
    """Give the option for a volume that all pods share."""
    cluster = Cluster(there.cluster.kubectl, there.cluster.kubeconfig, own=True)
    with TemporaryDirectory(prefix="jaxtrain-") as name:
        shared = Shared(Namespace(cluster, there.name), Path(name))
        try:
            yield f"--volume {shared.claim}:/data"
        finally:
            shared.remove()
