"""Run a cell the way a notebook does, as ``__main__`` of a worker."""

from __future__ import annotations

import ast
import asyncio
import inspect
import linecache
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from jupyter_jax_trainer.datatypes import Namespace


def main_module() -> Namespace:
    """Make a fresh ``__main__`` and give its namespace."""
    module = types.ModuleType("__main__", "The namespace of the cell.")
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    return module.__dict__


def remember_sources(sources: Mapping[str, str]) -> None:
    """Let tracebacks and ``inspect`` find the text of code that has no file here.

    Parameters
    ----------
    sources
        File name (as in the code objects) → text.
    """
    for filename, text in sources.items():
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)


def run_cell(code: str, filename: str, namespace: Namespace, show: Callable[[Any], None]) -> None:
    """Execute the code of a cell; give the value of a last expression to `show`.

    Top-level ``await`` works, and a last expression that ends with a semicolon is not shown, both
    as in a notebook.

    Parameters
    ----------
    code
        Python source.
    filename
        The name for tracebacks.
    namespace
        Where it runs.
    show
        Gets the value of the last expression.
    """
    tree = ast.parse(code, filename)
    body = tree.body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    with asyncio.Runner() as runner:
        _execute(ast.Module(body, tree.type_ignores), filename, namespace, "exec", runner)
        if isinstance(last, ast.Expr):
            value = _execute(ast.Expression(last.value), filename, namespace, "eval", runner)
            if not _is_quiet(code, last):
                show(value)


def _execute(
    tree: ast.Module | ast.Expression,
    filename: str,
    namespace: Namespace,
    mode: str,
    runner: asyncio.Runner,
) -> Any:
    code = compile(tree, filename, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    value = eval(code, namespace)
    return runner.run(value) if code.co_flags & inspect.CO_COROUTINE else value


def _is_quiet(code: str, last: ast.Expr) -> bool:
    """Return whether the last expression is followed by a semicolon."""
    lines = code.splitlines()
    assert last.end_lineno is not None and last.end_col_offset is not None
    rest = lines[last.end_lineno - 1].encode()[last.end_col_offset :].decode()
    return rest.lstrip().startswith(";")
