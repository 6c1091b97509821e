"""Where a command runs, and what carries it out."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from jupyter_jax_trainer.text import plain


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
    defaults: MutableMapping[str, Any] | None = None
    namespace: MutableMapping[str, Any] | None = None
    width: int = 100
    failed: bool = False

    def __post_init__(self) -> None:
        show = self.print
        self.print = lambda text: show(plain(text))

    def place(self, values: dict[str, Any]) -> dict[str, str | None]:
        """Return the cluster's context and namespace that are meant: given, or set by ``use``."""
        known = {**(self.defaults or {}), **values}
        return {name: known.get(name) for name in ("context", "namespace")}


Handler = Callable[[Context, dict[str, Any], list[str]], None]
