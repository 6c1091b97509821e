"""From a cell to its first line in pods, and the requests that this takes: against version 0.1."""

from __future__ import annotations

import statistics
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from common import WARM_UPS, Measured, sized
from kube import Place, place
from older import ROOT, Version, checkout, compared

NODES = sized(2, 1)


@dataclass
class Way:
    """A version in a namespace of its own, with its follower, and what its jobs took."""

    version: Version
    place: Place
    seconds: list[float] = field(default_factory=list)
    requests: list[list[str]] = field(default_factory=list)

    def run(self) -> None:
        name, taken, requests = self.version.run(f"-n {NODES} {self.place.options}")
        self.seconds.append(taken)
        self.requests.append(requests)
        self.version.delete(name)
        self.place.delete(name)


def measure(runs: int) -> list[Measured]:
    """Run jobs of both in turn; the requests are those of kernel and follower until the end."""
    with ExitStack() as stack:
        ways = []
        for root in (ROOT, stack.enter_context(checkout())):
            there = stack.enter_context(place())
            counted = Path(stack.enter_context(TemporaryDirectory(prefix="jaxtrain-")), "requests")
            ways.append(Way(stack.enter_context(closing(Version(root, counted))), there))
        for _ in range(WARM_UPS + runs):
            for way in ways:
                way.run()
    ours, theirs = ways
    counts = [statistics.median(map(len, way.requests[WARM_UPS:])) for way in ways]
    return [
        compared(
            f"cell to its first line, {NODES} nodes, against 0.1",
            ours.seconds[WARM_UPS:],
            theirs.seconds[WARM_UPS:],
        ),
        Measured(
            "... requests to the API, from the cell to its end",
            counts[0],
            f"<= {counts[1]:g}",
            f"now {_kinds(ours)}; 0.1 {_kinds(theirs)}",
            counts[0] <= counts[1],
        ),
    ]


def _kinds(way: Way) -> str:
    """Say how many requests of each kind the jobs took, by the median."""
    counts = [Counter(found) for found in way.requests[WARM_UPS:]]
    kinds = sorted({kind for found in counts for kind in found})
    middle = {kind: statistics.median(found[kind] for found in counts) for kind in kinds}
    return ", ".join(f"{number:g} {kind}" for kind, number in middle.items() if number)
