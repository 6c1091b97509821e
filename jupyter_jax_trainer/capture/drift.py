"""Where a module in memory is not what its file says: the file is what is sent."""

from __future__ import annotations

import ast
import sys
import types
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.machinery import SourceFileLoader
from typing import Any

from jupyter_jax_trainer.capture.bindings import bound_by, global_bindings, scope_nodes

_SIMPLE = (int, float, complex, str, bytes, bool, type(None))
_SHOWN = 40


def differences(files: Mapping[str, bytes]) -> list[str]:
    """Compare files of modules with what was imported from them; give a sentence for each finding.

    Only what can be told without running the file: constants, and the code of plain functions and
    methods. What the module itself may rebind is passed over.

    Parameters
    ----------
    files
        Path from the root of the imports → content.
    """
    notes = []
    for path, source in files.items():
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        module = sys.modules.get(name)
        loader = getattr(getattr(module, "__spec__", None), "loader", None)
        # Other loaders (hooks that add checks of types, pytest's) change code on the way.
        if module is None or not path.endswith(".py") or type(loader) is not SourceFileLoader:
            continue
        try:
            tree = ast.parse(source)
            code = compile(tree, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        notes += [
            f"{name} is sent from its file, where {constant}"
            for constant in _constants(tree, vars(module))
        ]
        changed = list(_functions(tree, code, vars(module), ""))
        if changed:
            several = len(changed) > 1
            notes.append(
                f"{name} is sent from its file, where {_joined(changed)} "
                + ("are not what they are here" if several else "is not what it is here")
            )
    return notes


def _bound_once(tree: ast.Module | ast.ClassDef) -> set[str]:
    nodes = list(scope_nodes(tree.body))
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in nodes):
        return set()
    count = Counter(name for node in nodes for name in bound_by(node))
    return {name for name, times in count.items() if times == 1} - global_bindings(tree)


def _constants(tree: ast.Module, here: Mapping[str, Any]) -> Iterator[str]:
    once = _bound_once(tree)
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=expression):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as expression):
                pass
            case _:
                continue
        try:
            value = ast.literal_eval(expression)
        except (ValueError, TypeError, SyntaxError, RecursionError):
            continue
        if name in once and name in here and _is_simple(value) and not _same(value, here[name]):
            yield f"{name} is {_short(value)}; here it is {_short(here[name])}"


def _is_simple(value: Any) -> bool:
    return type(value) in _SIMPLE or (type(value) is tuple and all(map(_is_simple, value)))


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and repr(value) == repr(other)


def _short(value: Any) -> str:
    text = repr(value) if _is_simple(value) else f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _functions(
    tree: ast.Module | ast.ClassDef, code: types.CodeType, here: Mapping[str, Any], prefix: str
) -> Iterator[str]:
    """Give the functions whose code is another one; decorated ones may be anything."""
    once = _bound_once(tree)
    inner = {part.co_name: part for part in code.co_consts if isinstance(part, types.CodeType)}
    for node in tree.body:
        match node:
            case (
                ast.FunctionDef(name=name, decorator_list=[])
                | ast.AsyncFunctionDef(name=name, decorator_list=[])
            ):
                found = here.get(name)
                if (
                    name in once
                    and name in inner
                    and isinstance(found, types.FunctionType)
                    and (_facts(found.__code__) != _facts(inner[name]))
                ):
                    yield f"{prefix}{name}()"
            case ast.ClassDef(name=name, decorator_list=[]):
                found = here.get(name)
                if name in once and name in inner and isinstance(found, type):
                    yield from _functions(node, inner[name], vars(found), f"{prefix}{name}.")


def _facts(code: types.CodeType) -> tuple[Any, ...]:
    """Give what a function does, without where it stands."""
    constants = tuple(
        _facts(part)
        if isinstance(part, types.CodeType)
        else part
        if isinstance(part, frozenset)
        else (type(part), repr(part))
        for part in code.co_consts
    )
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _joined(names: list[str]) -> str:
    shown = names[:3] if len(names) > 4 else names
    if len(shown) < len(names):
        return f"{', '.join(shown)} and {len(names) - len(shown)} more"
    return " and ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part)
