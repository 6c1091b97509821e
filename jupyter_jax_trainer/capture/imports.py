"""What a cell imports: by its statements, in functions that are sent, and in own modules."""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from types import CodeType

_IMPORTS = dis.opmap["IMPORT_NAME"]
_MISSING = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


@dataclass
class Imports:
    """Names of modules, with the names that are imported from them: ``a.b`` for both kinds.

    Attributes
    ----------
    certain
        What the job imports as soon as it runs: the cell does, or a module that it imports; or
        something that is sent stands for a name in such a module.
    possible
        What it may import: in a function, in a branch, or where an error is caught.
    objects
        Modules of which objects are sent. They are among the certain ones.
    """

    certain: set[str] = field(default_factory=set)
    possible: set[str] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)

    def add_code(self, tree: ast.Module, package: str = "") -> None:
        """Note what code imports."""
        for name, certain in _imported(tree.body, package, True):
            (self.certain if certain else self.possible).add(name)

    def add_function(self, code: CodeType) -> None:
        """Note what a function imports when it is called."""
        if _IMPORTS not in code.co_code[::2]:
            return
        base = ""
        for step in dis.get_instructions(code):
            if step.opname == "IMPORT_NAME":
                base = str(step.argval)
                self.possible.add(base)
            elif step.opname == "IMPORT_FROM":
                self.possible.add(f"{base}.{step.argval}")

    def without(self, names: Set[str]) -> Imports:
        """Return those imports that have other names; of objects nothing is said there."""
        return Imports(self.certain - names, self.possible - names)

    def __bool__(self) -> bool:
        return bool(self.certain or self.possible)

    def follow(self, modules: Mapping[str, bytes]) -> None:
        """Note what the modules behind these names import, recursively.

        Of a package that goes whole only what is reached counts: its tests, say, run nowhere.

        Parameters
        ----------
        modules
            The user's own: path from the root of the imports → content.
        """
        files = {_dotted(path): path for path in modules if path.endswith(".py")}
        sure = list(_and_parents(self.certain))
        maybe = list(_and_parents(self.possible))
        seen: set[str] = set()
        while sure or maybe:
            certain = bool(sure)
            name = (sure or maybe).pop()
            path = files.get(name)
            if name in seen or path is None:
                continue
            seen.add(name)
            found = Imports()
            package = name if path.endswith("/__init__.py") else name.rpartition(".")[0]
            try:
                found.add_code(ast.parse(modules[path]), package)
            except (SyntaxError, ValueError):
                continue
            (self.certain if certain else self.possible).update(found.certain)
            self.possible |= found.possible
            (sure if certain else maybe).extend(_and_parents(found.certain))
            maybe.extend(_and_parents(found.possible))


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _and_parents(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        while name:
            yield name
            name = name.rpartition(".")[0]


def _imported(body: Iterable[ast.AST], package: str, certain: bool) -> Iterator[tuple[str, bool]]:
    """Yield the names that statements import, and whether they surely do."""
    for node in body:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield alias.name, certain
            case ast.ImportFrom():
                for name in _from(node, package):
                    yield name, certain
            case ast.If(test=test, body=inner, orelse=other):
                if not _is_for_others(test):
                    yield from _imported(inner, package, False)
                yield from _imported(other, package, False)
            case ast.Try(body=inner, handlers=handlers):
                caught = any(_catches_missing(handler.type) for handler in handlers)
                yield from _imported(inner, package, certain and not caught)
                yield from _imported(handlers, package, False)
                yield from _imported([*node.orelse, *node.finalbody], package, certain)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                yield from _imported(ast.iter_child_nodes(node), package, False)
            case _:
                yield from _imported(ast.iter_child_nodes(node), package, certain)


def _from(node: ast.ImportFrom, package: str) -> Iterator[str]:
    base = node.module or ""
    if node.level:
        parts = package.split(".")
        parents = ".".join(parts[: len(parts) - node.level + 1])
        base = f"{parents}.{base}".strip(".")
    if base:
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")


def _is_for_others(test: ast.expr) -> bool:
    """Return whether a branch is for type checkers, or for a module that is run as a program."""
    match test:
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return True
        case ast.Compare(left=ast.Name(id="__name__")):
            return True
    return False


def _catches_missing(kind: ast.expr | None) -> bool:
    match kind:
        case None:
            return True
        case ast.Tuple(elts=kinds):
            return any(map(_catches_missing, kinds))
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _MISSING
    return False
