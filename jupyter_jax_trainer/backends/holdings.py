"""Which rank of a session has which variable: cells with ``--rank`` bind some on a few only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypedDict

from jupyter_jax_trainer.jobdir.session import Variable

_UNKNOWN: Variable = {
    "kind": "value",
    "type": "",
    "size": None,
    "sharding": None,
    "device_size": None,
    "cell": 0,
    "token": None,
    "deleted": False,
}


class SavedHoldings(TypedDict):
    """What another process needs to go on."""

    held: dict[str, list[tuple[int, int]]]
    described: dict[str, Variable]
    partial: list[int]


class Holdings:
    """The variables of a session, as its ranks tell them after each cell.

    Parameters
    ----------
    nodes
        How many ranks there are.
    """

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._held: dict[str, dict[int, int]] = {}  # name → rank → the cell that bound it there
        self._described: dict[str, Variable] = {}
        self._partial: set[int] = set()  # cells that ran on some ranks only

    def take(self, rank: int, said: Any, chosen: Collection[int] | None) -> None:
        """Take what a rank says at the end of a cell.

        Parameters
        ----------
        rank
            The rank.
        said
            What it has sent.
        chosen
            The ranks that have run the cell; None for all.

        Raises
        ------
        KeyError, TypeError, AttributeError
            The message is malformed.
        """
        cell = said["cell"]
        if chosen is not None and len(chosen) < self._nodes:
            self._partial.add(cell)
        for name in said["bound"]:
            self._held.setdefault(name, {})[rank] = cell
        for name in said["gone"]:
            self._held.get(name, {}).pop(rank, None)
            self._described.pop(name, None)
        for name, one in said["variables"].items():
            if one["cell"] >= self._described.get(name, _UNKNOWN)["cell"]:
                self._described[name] = one

    def drop(self, rank: int) -> None:
        """Forget what a rank has."""
        for cells in self._held.values():
            cells.pop(rank, None)

    def saved(self) -> SavedHoldings:
        """Return what another process needs to go on."""
        return {
            "held": {name: [*cells.items()] for name, cells in self._held.items()},
            "described": self._described,
            "partial": sorted(self._partial),
        }

    def resume(self, saved: SavedHoldings) -> None:
        """Go on where another process was killed."""
        self._held = {name: dict(cells) for name, cells in saved["held"].items()}
        self._described, self._partial = saved["described"], set(saved["partial"])

    def variables(self) -> dict[str, Variable]:
        """Return the variables, with the ranks of each that some ranks lack or have differently."""
        self._held = {name: cells for name, cells in self._held.items() if cells}
        self._described = {n: one for n, one in self._described.items() if n in self._held}
        return {name: self._variable(name, cells) for name, cells in self._held.items()}

    def _variable(self, name: str, cells: dict[int, int]) -> Variable:
        newest = max(cells.values())
        found: Variable = {**self._described.get(name, _UNKNOWN), "cell": newest}
        if len(cells) < self._nodes:
            found["ranks"] = sorted(cells)
        latest = sorted(rank for rank, cell in cells.items() if cell == newest)
        if newest in self._partial and len(latest) < len(cells):
            found["bound_on"] = latest
        return found
