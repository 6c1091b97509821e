"""Where a command runs, and what carries it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypedDict

from jupyter_jax_trainer.datatypes import Namespace
from jupyter_jax_trainer.options.table import Given, Value
from jupyter_jax_trainer.text import plain


class AllCells(Protocol):
    """Decides where the cells of a notebook run: `session`, or None for the kernel."""

    session: str | None


class Place(TypedDict):
    """The cluster and the namespace that a command is about; None for the usual one."""

    context: str | None
    namespace: str | None


@dataclass
class Context:
    """Where a command runs.

    Attributes
    ----------
    print
        Shows a text, made harmless: much of it comes from jobs and clusters.
    in_notebook
        A notebook, as opposed to a terminal.
    ask
        Puts a yes-or-no question; gives None where nobody can be asked.
    defaults
        The options of ``use``, changed by it; None where nothing would remember them.
    all_cells
        Where cells without a magic run, changed by ``use``; None where there are no cells.
    namespace
        The user's variables, to which ``result`` adds; None where there are none.
    width
        Columns of text that fit.
    failed
        Set by a command that ran, but found something wrong.
    """

    print: Callable[[str], object] = print
    in_notebook: bool = False
    ask: Callable[[str], bool | None] = lambda question: None
    defaults: Given | None = None
    all_cells: AllCells | None = None
    namespace: Namespace | None = None
    width: int = 100
    failed: bool = False

    def __post_init__(self) -> None:
        show = self.print
        self.print = lambda text: show(plain(text))

    def place(self, values: Mapping[str, Value]) -> Place:
        """Return the cluster's context and namespace that are meant: given, or set by ``use``."""
        known = Given({**(self.defaults or {}), **values})
        return {"context": known.text("context"), "namespace": known.text("namespace")}


Handler = Callable[[Context, Given, list[str]], None]
