"""Which ranks of a session have which variables."""

from __future__ import annotations

from typing import Any

import pytest
from test_ledger import variable

from jupyter_jax_trainer.backends.holdings import Holdings


class Ranks:
    """Two ranks of a session, and what they have said."""

    def __init__(self) -> None:
        self.holdings = Holdings(2)
        self.number = 0

    def cell(self, *bound: str, chosen: list[int] | None = None, gone: tuple[str, ...] = ()) -> Any:
        """Run a cell: words such as ``x`` or, on rank 1 only, ``x1``."""
        self.number += 1
        for rank in (1, 0):
            names = [one[0] for one in bound if one[1:] in ("", str(rank))]
            shown = {name: {**variable(None), "cell": self.number} for name in names}
            said = {"cell": self.number, "bound": names, "gone": gone, "variables": shown}
            self.holdings.take(rank, said, chosen)
        return self.holdings.variables()


@pytest.fixture
def ranks():
    return Ranks()


def test_a_variable_that_all_ranks_have_says_nothing_of_ranks(ranks):
    assert set(ranks.cell("x")) == {"x"} and set(ranks.cell("x")["x"]) == set(variable(None))


def test_one_that_some_have_says_which(ranks):
    assert ranks.cell("x1", chosen=[1])["x"]["ranks"] == [1]
    found = ranks.cell("x")["x"]
    assert "ranks" not in found and "bound_on" not in found and found["cell"] == 2


def test_one_that_was_bound_anew_on_some_says_which(ranks):
    ranks.cell("x")
    assert ranks.cell("x0", chosen=[0])["x"]["bound_on"] == [0]
    assert ranks.cell("y")["x"]["bound_on"] == [0]
    assert "bound_on" not in ranks.cell("x1")["x"]  # of a cell on all ranks: as equal as ever


def test_a_cell_whose_output_is_shown_of_all_ranks_runs_on_all(ranks):
    ranks.cell("x")
    assert "bound_on" not in ranks.cell("x0", chosen=[0, 1])["x"]


def test_one_that_is_deleted_is_no_more(ranks):
    ranks.cell("x", "y")
    assert set(ranks.cell(gone=("x",))) == {"y"}
