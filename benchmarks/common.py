"""What the benchmarks share: a job home of their own, bare runs of the same program, ratios."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
# `run.py --smoke` sets it; the processes that benchmarks start have it, too.
SMOKE = os.environ.get("BENCHMARK_SMOKE") == "1"


def sized(full: T, smoke: T) -> T:
    """Return the size of an input: the full one, or that of a smoke run."""
    return smoke if SMOKE else full


WARM_UPS = sized(1, 0)  # rounds that don't count


@dataclass
class Measured:
    """A ratio with its bound and the medians behind it; a smoke run judges none."""

    name: str
    ratio: float
    bound: str
    detail: str
    ok: bool

    def __str__(self) -> str:
        mark = "ran " if SMOKE else "ok  " if self.ok else "OVER"
        return f"{mark} {self.name}: {self.ratio:.2f} (bound {self.bound})  {self.detail}"


@contextmanager
def job_home(*, warm: bool) -> Iterator[Path]:
    """Use a job home of its own, with the warm start on or off; delete it in the end."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="jaxtrain-bench-") as name:
        os.environ.update(
            JAXTRAIN_HOME=name,
            JAXTRAIN_WARM="1" if warm else "0",
            JAXTRAIN_WARM_IDLE=sized("20", "3"),
            JAXTRAIN_CORES="64",
        )
        try:
            yield Path(name)
        finally:
            delete_jobs()
            os.environ.clear()
            os.environ.update(before)


def delete_jobs() -> None:
    """Delete all jobs of this home."""
    from jupyter_jax_trainer import api

    for job in api.jobs():
        job.delete()


def run_job(cell: str, line: str, namespace: dict[str, Any] | None = None) -> tuple[Any, float]:
    """Submit a cell as the magic does; give the job and the time just before."""
    from jupyter_jax_trainer import api
    from jupyter_jax_trainer.capture import capture_cell
    from jupyter_jax_trainer.options.spec import parse_cell_line

    began = time.time()
    spec = parse_cell_line(line)
    backend, plan = api.prepare(spec)
    captured = capture_cell(cell, namespace or {}, out=spec.out, use=spec.use)
    api.check(spec, backend, plan, captured)
    return api.submit(spec, backend, plan, captured, cell=cell), began


BARE_START = """
import os, jax
jax.distributed.initialize(os.environ["ADDRESS"], int(os.environ["COUNT"]), int(os.environ["RANK"]),
                           cluster_detection_method="deactivate")
"""


def run_bare(program: str, count: int) -> float:
    """Run the same program as a shell script would, `count` processes; give the time just before.

    Returns
    -------
    float
        Seconds since the epoch at the start.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="jaxtrain-bare-") as name:
        script = Path(name, "program.py")
        script.write_text(BARE_START + program)
        lines = [
            f"RANK={rank} COUNT={count} ADDRESS=127.0.0.1:{port} JAX_PLATFORMS=cpu "
            f"JAX_NUM_CPU_DEVICES=1 {sys.executable} {script} >{name}/{rank}.log 2>&1 &"
            for rank in range(count)
        ]
        shell = Path(name, "start.sh")
        shell.write_text("\n".join([*lines, "wait"]))
        began = time.time()
        subprocess.run(["sh", str(shell)], check=True)
        return began


def in_turn(runs: int, *ways: Callable[[], float]) -> list[list[float]]:
    """Run measurements in turn, so that all see the same weather; one of each to warm up."""
    rounds = [[way() for way in ways] for _ in range(WARM_UPS + runs)]
    return [list(values) for values in zip(*rounds[WARM_UPS:], strict=True)]


def ratio_of(ours: list[float], theirs: list[float]) -> float:
    """Return the median of the ratios, pair by pair."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def spread(values: list[float], unit: str = "s", scale: float = 1) -> str:
    """Say the median and the range."""
    values = sorted(value * scale for value in values)
    middle = statistics.median(values)
    return f"{middle:.3g} {unit} ({values[0]:.3g}-{values[-1]:.3g})"
