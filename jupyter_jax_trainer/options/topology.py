"""TPU slices: how many nodes the shape of one takes, and how many chips each node has.

The facts are those of Google's page "Plan TPUs in GKE": a slice of more than one machine has four
chips in each; 1x1, 2x2 and 2x2x1 are one machine; 2x4 is one of eight chips, or two of four.
"""

from __future__ import annotations

import math

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.text import joined

_CHIPS = 4  # of each machine, in slices of several
_LARGE = (2, 4)  # the one shape that is also had as one machine


def hosts(topology: str) -> list[tuple[int, int]]:
    """List what a slice can be made of, as nodes and chips of each; what is usual comes first."""
    sides = tuple(map(int, topology.split("x")))
    chips = math.prod(sides)
    if chips <= _CHIPS:
        return [(1, chips)]
    found = [(chips // _CHIPS, _CHIPS)] if chips % _CHIPS == 0 else []
    return [(1, chips), *found] if sides == _LARGE else found


def fit(topology: str, nodes: int | None, per_node: int | None) -> tuple[int, int]:
    """Return the nodes of a slice, and the chips of each.

    Parameters
    ----------
    topology
        The shape, as in ``4x4``.
    nodes, per_node
        What was asked for; None where it was not. Whoever says both knows the machines: they only
        have to make the slice together.

    Raises
    ------
    UsageError
        No slice of this shape has these nodes.
    """
    chips = math.prod(map(int, topology.split("x")))
    if nodes is not None and per_node is not None:
        if nodes * per_node == chips:
            return nodes, per_node
        asked = f"--nodes {nodes} with --devices-per-node {per_node} makes {nodes * per_node}"
    else:
        for count, each in hosts(topology):
            if nodes in (None, count) and per_node in (None, each):
                return count, each
        asked = (
            f"--nodes {nodes} does not fit"
            if nodes
            else (
                f"--devices-per-node {per_node} does not fit"
                if per_node
                else f"no machines of {_CHIPS} chips make that"
            )
        )
    ways = joined((f"-n {n} --devices-per-node {each}" for n, each in hosts(topology)), last="or")
    raise UsageError(
        f"--topology {topology} is a TPU slice of {chips} chips, and {asked}.",
        f"The topology says it all: leave the others out, or give {ways}."
        if ways
        else "4x4, 4x8 and 8x8 are shapes of v5e and v6e; 2x2x2, 2x2x4 and 4x4x4 of v4 and v5p.",
    )
