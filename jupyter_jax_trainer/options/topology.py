"""TPU slices: how many nodes the shape of one takes, and how many chips each node has.

The facts are those of Google's page "Plan TPUs in GKE": a slice of more than one machine has four
chips in each; 1x1, 2x2 and 2x2x1 are one machine; 2x4 is one of eight chips, or two of four.
"""

from __future__ import annotations

import math

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import options as say
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
        said = say.SLICE_OF_OTHER_PRODUCT(
            topology=topology, chips=chips, nodes=nodes, per_node=per_node, made=nodes * per_node
        )
    else:
        for count, each in hosts(topology):
            if nodes in (None, count) and per_node in (None, each):
                return count, each
        if nodes is None and per_node is None:
            said = say.SLICE_OF_NO_MACHINES(topology=topology, chips=chips, each=_CHIPS)
        else:
            said = say.SLICE_OF_OTHER_SHAPE(
                topology=topology,
                chips=chips,
                option="--nodes" if nodes is not None else "--devices-per-node",
                value=nodes if nodes is not None else per_node,
            )
    ways = joined((f"-n {n} --devices-per-node {each}" for n, each in hosts(topology)), last="or")
    raise UsageError(said, say.SLICE_WAYS(ways=ways) if ways else say.SLICE_SHAPES())
