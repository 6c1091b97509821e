"""The code of a cell: IPython's syntax put into Python's, and checked as far as syntax goes."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any, cast

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import cell as say
from jupyter_jax_trainer.worker.ipython import LINE_MAGICS

_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_INSTALLERS = ("pip", "conda", "mamba", "micromamba", "uv")


@dataclass(frozen=True)
class CellSource:
    """A cell, ready to be looked at.

    Attributes
    ----------
    code
        Python source; its line numbers are those of the notebook's cell, the magic being line 1.
    tree
        Its syntax tree.
    """

    code: str
    tree: ast.Module


def parse_cell(cell: str, shell: Any = None, first_line: int = 2) -> CellSource:
    """Turn the body of a cell, without the line of the magic, into Python.

    Parameters
    ----------
    cell
        The body.
    shell
        The IPython shell, if there is one.
    first_line
        The number of the body's first line: below a magic 2, in a file 1.

    Raises
    ------
    UsageError
        For a syntax error, and for IPython commands that mean nothing in a job.
    """
    body = cell.replace("\r\n", "\n")
    text = body.lstrip("\n")
    lead = len(body) - len(text)
    while (first := re.match(r"[ \t]*\n", text)) is not None:
        text, lead = text[first.end() :], lead + 1
    before = "\n" * (first_line - 1)
    transform = shell.transform_cell if shell is not None else _transformer()
    try:
        code = before + "\n" * lead + (transform(text) if text.strip() else "")
    except SyntaxError as error:
        raise _syntax_error(error, before + body) from None
    tree = parse(code, before + body)
    _check_commands(tree, (before + body).splitlines())
    return CellSource(code, tree)


def parse(code: str, shown: str | None = None) -> ast.Module:
    """Parse code as a cell, or raise a UsageError that shows the line and the place in it."""
    try:
        tree = compile(code, "<cell>", "exec", flags=_FLAGS, dont_inherit=True)
        # Some errors (return outside of a function) are only found by the compiler proper.
        compile(tree, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        raise _syntax_error(error, shown if shown is not None else code) from None
    except ValueError as error:  # NUL bytes
        raise UsageError(say.CANNOT_COMPILE(error=error)) from None
    assert isinstance(tree, ast.Module)
    return tree


def _transformer() -> Any:
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager().transform_cell


def _syntax_error(error: SyntaxError, shown: str) -> UsageError:
    line = error.lineno or 1
    lines = shown.splitlines()
    text = lines[line - 1] if 0 < line <= len(lines) else (error.text or "")
    indent = len(text) - len(text.lstrip())
    column = max((error.offset or 1) - 1 - indent, 0)
    caret = f"\n    {' ' * column}^" if error.offset else ""
    return UsageError(
        say.SYNTAX_ERROR(line=line, error=error.msg, source=text.strip(), caret=caret)
    )


def _commands(tree: ast.AST) -> Iterator[tuple[ast.Call, str, list[Any]]]:
    """Yield the calls that IPython's syntax became: the call, the method's name, its arguments."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr=name),
                args=args,
            ):
                yield node, name, [a.value if isinstance(a, ast.Constant) else None for a in args]


def _check_commands(tree: ast.Module, lines: list[str]) -> None:
    for node, method, args in _commands(tree):
        if method not in ("run_line_magic", "run_cell_magic") or not args:
            continue
        name = str(args[0])
        line = node.lineno
        shown = lines[line - 1].strip() if line <= len(lines) else f"%{name}"
        if method == "run_cell_magic":
            raise UsageError(say.CELL_MAGIC(line=line, name=name))
        if name in ("pinfo", "pinfo2", "psearch"):
            raise UsageError(say.ASKS_FOR_HELP(line=line, source=shown))
        if name in _INSTALLERS:
            raise UsageError(say.INSTALLS(line=line, source=shown))
        if name not in LINE_MAGICS:
            known = " and ".join(f"%{magic}" for magic in LINE_MAGICS)
            raise UsageError(say.LINE_MAGIC(line=line, source=shown, name=name, known=known))


def for_analysis(tree: ast.Module, variables: Container[str]) -> ast.Module:
    """Return a tree in which the text of IPython commands is code, so that its names are found."""
    expanded = _Expander(variables).visit(copy.deepcopy(tree))
    return cast(ast.Module, ast.fix_missing_locations(expanded))


class _Expander(ast.NodeTransformer):
    def __init__(self, variables: Container[str]) -> None:
        self.variables = variables

    def visit_Expr(self, node: ast.Expr) -> Any:
        self.generic_visit(node)
        for call, method, args in _commands(node.value):
            if call is node.value and method == "run_line_magic" and args[:1] == ["time"]:
                return [_moved(s, node) for s in _parsed(args[1])] or node
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        for call, method, args in _commands(node):
            if call is not node:
                continue
            if method == "run_line_magic" and args[:1] == ["time"]:
                body = _parsed(args[1])
                if len(body) == 1 and isinstance(body[0], ast.Expr):
                    return _moved(body[0].value, node)
            if method in ("system", "getoutput") and args and isinstance(args[0], str):
                node.args += [
                    _moved(ast.Name(name, ast.Load()), node)
                    for name in _names_in_command(args[0])
                    if name in self.variables
                ]
        return node


def _parsed(text: Any) -> list[ast.stmt]:
    try:
        return ast.parse(text).body if isinstance(text, str) else []
    except SyntaxError:
        return []


def _moved(node: Any, to: Any) -> Any:
    for child in ast.walk(node):
        if isinstance(child, ast.expr | ast.stmt):
            child.lineno = child.end_lineno = to.lineno
    return ast.copy_location(node, to)


def _names_in_command(command: str) -> set[str]:
    """Return the names in ``{expression}`` and ``$name`` of a command."""
    names = set(re.findall(r"(?<!\$)\$(\w+)", command))
    for expression in re.findall(r"\{([^{}]+)\}", command):
        names.update(
            n.id
            for s in _parsed(expression.partition("!")[0].strip())
            for n in ast.walk(s)
            if isinstance(n, ast.Name)
        )
    return names
