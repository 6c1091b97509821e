"""From a cell to its first line, on this machine, in a kernel: against version 0.1."""

from __future__ import annotations

from contextlib import ExitStack, closing

from common import Measured, in_turn, job_home, sized
from older import ROOT, Version, checkout, compared

NODES = 2


def measure(runs: int) -> list[Measured]:
    """Compare cold and warm starts."""
    return [_start(runs, warm) for warm in sized((False, True), (True,))]


def _start(runs: int, warm: bool) -> Measured:
    with ExitStack() as stack:
        versions = []
        for root in (ROOT, stack.enter_context(checkout())):
            stack.enter_context(job_home(warm=warm))
            versions.append(stack.enter_context(closing(Version(root))))
        ours, theirs = in_turn(runs, *[lambda one=one: _first_line(one) for one in versions])
    kind = "warm" if warm else "cold"
    return compared(f"cell to its first line, {kind}, {NODES} processes, against 0.1", ours, theirs)


def _first_line(version: Version) -> float:
    name, taken, _ = version.run(f"-n {NODES} --backend local")
    version.delete(name)
    return taken
