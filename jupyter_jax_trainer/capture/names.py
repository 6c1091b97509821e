"""Find the names that a cell reads before it certainly defines them."""

from __future__ import annotations

import ast
import builtins
import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from jupyter_jax_trainer.capture import bindings
from jupyter_jax_trainer.capture.definite import Outside, Walker


@dataclass(frozen=True)
class FreeNames:
    """What a piece of code wants from the namespace that it runs in.

    Attributes
    ----------
    lines
        Each name with the line where it is first read, in the order of reading.
    certain
        Names that nothing before the reading can have bound. The others may turn out not to be
        needed: ``for x in data: loss = f(x)`` binds ``loss`` unless ``data`` is empty.
    guarded
        Names that are only read where a NameError is caught.
    via
        For names that are read because something from outside is called: that one's name.
    """

    lines: dict[str, int]
    certain: frozenset[str]
    guarded: frozenset[str]
    via: dict[str, str]


def analyze(tree: ast.Module, outside: Outside | None = None) -> FreeNames:
    """Find the names that `tree` reads before it certainly defines them.

    Parameters
    ----------
    tree
        The code.
    outside
        Gives, for a name that the code doesn't define, the globals that its value reads when
        it is called.
    """
    walker = Walker(tree, outside)
    walker.block(tree.body)
    return FreeNames(
        walker.lines,
        frozenset(walker.certain),
        frozenset(walker.lines.keys() - walker.unguarded),
        walker.via,
    )


def free_names(tree: ast.Module) -> dict[str, int]:
    """Give the names that `tree` reads before it certainly defines them, with their first lines."""
    return analyze(tree).lines


def assigned_names(tree: ast.Module) -> set[str]:
    """Give all names that running `tree` may define at the top level."""
    return bindings.bound_names(tree.body) | bindings.global_bindings(tree)


def undefined_names(tree: ast.Module, known: Iterable[str]) -> list[tuple[str, int]]:
    """Find names that are read, but that neither `known`, the builtins nor the code define.

    It says nothing rather than something wrong: code that looks into namespaces by itself
    (``exec``, ``globals()``, a star import) gets no verdict.
    """
    free = analyze(tree)
    stars = any(
        isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names)
        for node in ast.walk(tree)
    )
    if stars or free.lines.keys() & {"exec", "eval", "globals", "locals", "vars"}:
        return []
    # The body of a class inside a function reads its own names as if they were global.
    in_classes = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for name in bindings.bound_names(node.body)
    }
    given = {*known, *dir(builtins), *assigned_names(tree), *in_classes}
    return [
        (name, line)
        for name, line in free.lines.items()
        if name not in given
        and name not in free.guarded
        and not (name.startswith("__") and name.endswith("__"))
    ]


def nearest_name(name: str, candidates: Iterable[str]) -> str | None:
    """Find the name that a misspelt `name` was probably meant to be."""
    pool = {c.lower(): c for c in candidates if not c.startswith("_") or name.startswith("_")}
    match = difflib.get_close_matches(name.lower(), pool, n=1, cutoff=0.7)
    return pool[match[0]] if match else None
