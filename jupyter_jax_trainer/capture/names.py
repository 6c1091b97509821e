"""Find the names that a cell reads before it certainly defines them: definite assignment.

A name that is read where it is not certainly bound has to come from outside. `_Walker` visits the
code in the order of evaluation, `_Names` holds what is bound where the walk is and what was read.
"""

# The visit_ methods carry the names of the syntax nodes, and need no other explanation.
# ruff: noqa: N802, N815

from __future__ import annotations

import ast
import builtins
import copy
import difflib
import dis
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

Outside = Callable[[str], Mapping[str, None]]
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Try = ast.Try | ast.TryStar
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

# Context managers that are known to swallow what their block raises, by the last part of the name.
_SWALLOWING = {"suppress", "raises", "assertRaises", "ExitStack", "AsyncExitStack"}


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
    walker = _Walker(tree, outside)
    walker.block(tree.body)
    names = walker.names
    return FreeNames(
        names.lines,
        frozenset(names.certain),
        frozenset(names.lines.keys() - names.unguarded),
        names.via,
    )


def assigned_names(tree: ast.Module) -> set[str]:
    """Return all names that running `tree` may define at the top level."""
    return bound_names(tree.body) | global_bindings(tree)


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
        for name in bound_names(node.body)
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


# ---- the walk


@dataclass
class _State:
    """Names bound at one point of the program."""

    sure: set[str] = field(default_factory=set)
    maybe: set[str] = field(default_factory=set)

    def copy(self) -> _State:
        """Return an independent copy, for a branch."""
        return _State(set(self.sure), set(self.maybe))


def _merge(*states: _State | None) -> _State | None:
    """Join paths; None is a path that is never taken."""
    taken = [state for state in states if state is not None]
    if not taken:
        return None
    return _State(
        set.intersection(*(state.sure for state in taken)),
        set.union(*(state.maybe for state in taken)),
    )


@dataclass
class _Loop:
    breaks: list[_State | None] = field(default_factory=list)
    continues: list[_State | None] = field(default_factory=list)


class _Names:
    """The names that are bound where the walk is, and those that were read so far.

    Names in a class body are kept in the same two sets as globals, marked with the depth of the
    class, so branches and loops need no second set of rules. A function reads its globals when it
    is called, so they count where its name is loaded, or at once where it is a lambda or decorated.
    """

    def __init__(self, assigned: set[str], outside: Outside) -> None:
        self.lines: dict[str, int] = {}
        self.via: dict[str, str] = {}
        self.certain: set[str] = set()
        self.unguarded: set[str] = set()
        self.state: _State | None = _State()
        self.comprehensions: list[set[str]] = []
        self.type_params: list[set[str]] = []
        self.classes: list[tuple[str, set[str]]] = []  # name, names declared global in the body
        self.guards = 0
        self.star = False
        self._assigned, self._outside = assigned, outside
        self._deferred: dict[str, dict[str, None]] = {}

    def key(self, name: str) -> str:
        """Return what a name is called in `state`."""
        if self.classes and name not in self.classes[-1][1]:
            return f"{name}@{len(self.classes)}"
        return name

    def read(self, name: str, line: int, *, deferred: bool = False, surely: bool = True) -> None:
        """Note the reading of a global, and of what it would read if it is a function.

        Parameters
        ----------
        deferred
            It is read later than here.
        surely
            Else perhaps never: it goes along if it is there and can.
        """
        if self.state is None:
            return
        queue: list[tuple[str, bool, str | None]] = [(name, deferred, None)]
        seen = {name}
        while queue:
            name, deferred, via = queue.pop(0)
            inner = dict.fromkeys(self._deferred.get(name, ()), via)
            if name not in self.state.sure:
                inner.update(dict.fromkeys(self._outside(name), name))
                if via is None:
                    self.via.pop(name, None)
                elif name not in self.lines:
                    self.via[name] = via
                self.lines.setdefault(name, line)
                if surely and not self.guards:
                    self.unguarded.add(name)
                # A function may be called later than here, when more names are bound.
                bound = self._assigned if deferred else self.state.maybe
                if surely and not self.star and name not in bound:
                    self.certain.add(name)
            queue.extend((n, True, source) for n, source in inner.items() if n not in seen)
            seen.update(inner)

    def load(self, name: str, line: int) -> None:
        """Note the loading of a name in the scope where the walk is."""
        if self.state is None or name in set().union(*self.comprehensions, *self.type_params):
            return
        key = self.key(name)
        if key != name and not self.comprehensions:
            for inner in self._deferred.get(key, ()):
                self.read(inner, line, deferred=True)
            if key in self.state.sure:
                return
        self.read(name, line)

    def bind(self, name: str) -> None:
        """Note that a name is certainly bound from here on."""
        if self.state is not None:
            self.state.maybe.add(self.key(name))
            self.state.sure.add(self.key(name))

    def unbind(self, names: Iterable[str]) -> None:
        """Note that names may not be bound any more."""
        if self.state is not None:
            self.state.sure -= {self.key(name) for name in names}

    def defer(self, name: str, inner: dict[str, None]) -> None:
        """Note which globals will be read when `name` is called."""
        # Which of several definitions is called can depend on the path: keep what all of them read.
        self._deferred.setdefault(self.key(name), {}).update(inner)

    def deferred(self, name: str) -> list[str]:
        """Return which globals will be read when `name` is called."""
        return list(self._deferred.get(self.key(name), ()))

    def interrupted(self, start: _State, body: Iterable[ast.AST]) -> _State:
        """Return the state after a body that may have stopped anywhere."""
        return _State(
            start.sure - {self.key(name) for name in deleted_names(body)},
            start.maybe | {self.key(name) for name in bound_names(body)},
        )

    @contextmanager
    def class_body(self, name: str, declared: set[str]) -> Iterator[None]:
        """Enter the body of a class; `declared` are the names that it declares global."""
        self.classes.append((name, declared))
        comprehensions, self.comprehensions = self.comprehensions, []
        yield
        self.comprehensions = comprehensions
        marker = f"@{len(self.classes)}"
        self.classes.pop()
        for key in [key for key in self._deferred if key.endswith(marker)]:
            self.defer(name, self._deferred.pop(key))
        if self.state is not None:
            for names in (self.state.sure, self.state.maybe):
                names -= {bound for bound in names if bound.endswith(marker)}


class _Walker:
    """Visits a module in the order of evaluation, with the names that are bound on each path."""

    def __init__(self, tree: ast.Module, outside: Outside | None = None) -> None:
        self.names = _Names(assigned_names(tree), outside or (lambda name: {}))
        self._loops: list[_Loop] = []
        self._lazy_annotations = any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names)
            for node in tree.body
        )

    # ---- paths

    def block(self, body: Iterable[ast.AST]) -> None:
        """Visit statements until one of them never goes on."""
        for statement in body:
            if self.names.state is None:
                return
            self.visit(statement)

    def visit(self, node: ast.AST) -> None:
        """Visit one node in the order in which Python evaluates it."""
        method = getattr(self, f"visit_{type(node).__name__}", None)
        if method is not None:
            method(node)
        else:
            for child in ast.iter_child_nodes(node):
                self.visit(child)

    def _branch(self, *bodies: Iterable[ast.AST]) -> None:
        start, ends = self.names.state, []
        for body in bodies:
            self.names.state = start and start.copy()
            self.block(body)
            ends.append(self.names.state)
        self.names.state = _merge(*ends)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        truth = constant_truth(node.test)
        if truth is None:
            self._branch(node.body, node.orelse)
        else:
            self.block(node.body if truth else node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self._branch([node.body], [node.orelse])

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        if len(node.values) > 1:
            self._branch([ast.BoolOp(node.op, node.values[1:])], [])

    def visit_Compare(self, node: ast.Compare) -> None:
        self.visit(node.left)
        first, *rest = node.comparators
        if rest:
            self._branch([ast.Compare(first, node.ops[1:], rest)], [first])
        else:
            self.visit(first)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            self.block([part for part in (key, value) if part is not None])

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        if node.msg is not None:
            self._branch([node.msg], [])

    def _loop(self, head: list[ast.AST], body: list[ast.stmt]) -> tuple[_State | None, _Loop]:
        """Visit an arbitrary iteration; return the state at its head and how it exits."""
        assert self.names.state is not None
        self.names.unbind(deleted_names(body))
        self.names.state.maybe |= {self.names.key(name) for name in bound_names(body)}
        self.block(head)
        at_head = self.names.state and self.names.state.copy()
        loop = _Loop()
        self._loops.append(loop)
        self.block(body)
        self._loops.pop()
        return at_head, loop

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        if self.names.state is None:
            return
        before = self.names.state.copy()
        _, loop = self._loop([node.target], node.body)
        if can_be_empty(node.iter):
            loop.continues.append(before)
        self._after_loop(node, loop)

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        truth = constant_truth(node.test)
        if truth is False or self.names.state is None:
            self.block(node.orelse)
            return
        at_head, loop = self._loop([node.test], node.body)
        # Whatever an iteration binds, the loop ends at its test.
        self.names.state, loop.continues = (None, []) if truth else (at_head, [])
        self._after_loop(node, loop)

    def _after_loop(self, node: ast.For | ast.AsyncFor | ast.While, loop: _Loop) -> None:
        self.names.state = _merge(self.names.state, *loop.continues)
        self.block(node.orelse)
        self.names.state = _merge(self.names.state, *loop.breaks)

    def visit_Break(self, node: ast.Break) -> None:
        if self._loops:
            self._loops[-1].breaks.append(self.names.state)
        self.names.state = None

    def visit_Continue(self, node: ast.Continue) -> None:
        if self._loops:
            self._loops[-1].continues.append(self.names.state)
        self.names.state = None

    def visit_Raise(self, node: ast.Raise) -> None:
        self.block(ast.iter_child_nodes(node))
        self.names.state = None

    def visit_Try(self, node: Try) -> None:
        if self.names.state is None:
            return
        everything = [*node.body, *node.handlers, *node.orelse]
        start = self.names.state.copy()
        caught = catches_name_errors(node)
        self.names.guards += caught
        self.block(node.body)
        self.names.guards -= caught
        self.block(node.orelse)
        ends = [self.names.state]
        for handler in node.handlers:
            # The body can stop anywhere: before it bound anything, after it deleted something.
            self.names.state = self.names.interrupted(start, node.body)
            self.visit(handler)
            ends.append(self.names.state)
        normal = _merge(*ends)
        if node.finalbody:
            self.names.state = self.names.interrupted(start, everything)
            self.block(node.finalbody)
            for loop in self._loops:
                for left in [*loop.breaks, *loop.continues]:
                    if left is not None:
                        left.sure -= {self.names.key(n) for n in deleted_names(node.finalbody)}
        self.names.state = normal
        self.block(node.finalbody)

    visit_TryStar = visit_Try

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        if node.name:
            self.names.bind(node.name)
        self.block(node.body)
        if node.name:
            self.names.unbind([node.name])

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item)
        before = self.names.state and self.names.interrupted(self.names.state, node.body)
        self.block(node.body)
        if any(map(swallows_errors, node.items)):
            self.names.state = _merge(before, self.names.state)

    visit_AsyncWith = visit_With

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        ends: list[_State | None] = []
        for case in node.cases:
            start = self.names.state
            self.names.state = start and start.copy()
            self.visit(case.pattern)
            if case.guard is not None:
                self.visit(case.guard)
            refused = start and self.names.interrupted(start, [case.pattern])
            if case.guard is not None:
                refused = _merge(refused, self.names.state)
            self.block(case.body)
            ends.append(self.names.state)
            self.names.state = None if irrefutable(case) else refused
        self.names.state = _merge(self.names.state, *ends)

    def visit_MatchOr(self, node: ast.MatchOr) -> None:
        self._branch(*([pattern] for pattern in node.patterns))

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        for child in ast.iter_child_nodes(node):
            self.visit(child)
        if node.name is not None:
            self.names.bind(node.name)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.block([*node.keys, *node.patterns])
        if node.rest is not None:
            self.names.bind(node.rest)

    # ---- what binds names

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            if not any(node.id in targets for targets in self.names.comprehensions):
                self.names.bind(node.id)
            return
        self.names.load(node.id, node.lineno)
        if isinstance(node.ctx, ast.Del):
            self.names.unbind([node.id])

    def visit_Assign(self, node: ast.Assign) -> None:
        self.block([node.value, *node.targets])
        if isinstance(node.value, ast.Lambda):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self.names.defer(target.id, self._globals_of(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.names.load(node.target.id, node.lineno)
            self.block([node.value, node.target])
        else:
            self.block([node.target, node.value])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
        if node.value is not None or not isinstance(node.target, ast.Name):
            self.visit(node.target)
        if not self._lazy_annotations:
            self.visit(node.annotation)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.names.bind(node.target.id)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.names.star = True
            else:
                plain = alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name
                self.names.bind(alias.asname or plain)

    visit_ImportFrom = visit_Import

    def visit_Comprehension(self, node: Comprehension) -> None:
        first = node.generators[0]
        self.visit(first.iter)
        self.names.comprehensions.append(
            {
                name.id
                for generator in node.generators
                for name in ast.walk(generator.target)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            }
        )
        after = self.names.state and self.names.state.copy()
        for generator in node.generators:
            if generator is not first:
                self.visit(generator.iter)
            self.block([generator.target, *generator.ifs])
        self.block([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self.names.comprehensions.pop()
        if after is not None and self.names.state is not None:  # there may have been no iteration
            after.maybe |= self.names.state.maybe
        self.names.state = after

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Comprehension

    # ---- functions and classes

    def _globals_of(self, node: Function) -> dict[str, None]:
        inner = function_globals(node, self.names.classes[-1][0] if self.names.classes else None)
        hidden = set().union(*self.names.comprehensions, *self.names.type_params)
        return {name: None for name in inner if name not in hidden}

    def _open_type_params(self, node: ast.AST) -> None:
        """Begin the scope of ``[T]`` after a name (Python 3.12); every definition has one."""
        params = getattr(node, "type_params", [])
        self.names.type_params.append({param.name for param in params})
        self.block(child for param in params for child in ast.iter_child_nodes(param))

    def visit_TypeAlias(self, node: Any) -> None:
        self._open_type_params(node)
        self.visit(node.value)
        self.names.type_params.pop()
        self.visit(node.name)

    def _definition_time(self, arguments: ast.arguments) -> None:
        self.block([*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)])
        if not self._lazy_annotations:
            everyone = [
                *arguments.posonlyargs,
                *arguments.args,
                *arguments.kwonlyargs,
                arguments.vararg,
                arguments.kwarg,
            ]
            self.block([a.annotation for a in everyone if a is not None and a.annotation])

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._definition_time(node.args)
        for name in self._globals_of(node):
            self.names.read(name, node.lineno, deferred=True)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.block(node.decorator_list)
        self._open_type_params(node)
        self._definition_time(node.args)
        if node.returns is not None and not self._lazy_annotations:
            self.visit(node.returns)
        inner = self._globals_of(node)
        self.names.type_params.pop()
        if node.decorator_list:
            for name in inner:
                if name != node.name:
                    self.names.read(name, node.lineno, deferred=True)
        self.names.bind(node.name)
        self.names.defer(node.name, inner)
        for name in global_bindings(node):
            if self.names.state is not None:
                self.names.state.maybe.add(name)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.block(node.decorator_list)
        self._open_type_params(node)
        self.block([*node.bases, *node.keywords])
        declared = {
            name
            for inner in scope_nodes(node.body)
            if isinstance(inner, ast.Global)
            for name in inner.names
        }
        with self.names.class_body(node.name, declared):
            self.block(node.body)
        self.names.type_params.pop()
        if node.decorator_list or node.bases or node.keywords:
            # A registry may have it called, though nothing here names it.
            for name in self.names.deferred(node.name):
                if name != node.name:
                    self.names.read(name, node.lineno, deferred=True, surely=False)
        self.names.bind(node.name)


# ---- what a piece of syntax binds, deletes or may skip


def scope_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Walk all nodes that run in the same scope, functions and classes without their bodies."""
    queue = list(nodes)
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, _SCOPES):
            queue.extend(ast.iter_child_nodes(node))


def bound_by(node: ast.AST) -> Iterator[str]:
    """Return the names that one node binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names):
            yield from (a.asname or a.name.partition(".")[0] for a in names)
        case ast.ImportFrom(names=names):
            yield from (a.asname or a.name for a in names if a.name != "*")
        case ast.ExceptHandler(name=str(name)):
            yield name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name


def bound_names(body: Iterable[ast.AST]) -> set[str]:
    """Return the names that statements bind in their own scope, and a few bound in comprehensions.

    Targets of comprehensions are left out, walrus targets in them are not.
    """
    targets = {
        id(name)
        for node in scope_nodes(body)
        if isinstance(node, ast.comprehension)
        for name in ast.walk(node.target)
    }
    return {
        name for node in scope_nodes(body) if id(node) not in targets for name in bound_by(node)
    }


def deleted_names(body: Iterable[ast.AST]) -> set[str]:
    """Return the names that statements may delete; a handler deletes its own at its end."""
    return {
        node.id
        for node in scope_nodes(body)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)
    } | {
        node.name for node in scope_nodes(body) if isinstance(node, ast.ExceptHandler) and node.name
    }


def global_bindings(tree: ast.AST) -> set[str]:
    """Return names that functions and classes inside `tree` declare global."""
    return {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}


def constant_truth(test: ast.expr) -> bool | None:
    """Return whether a test is always true or always false; None if that depends."""
    return bool(test.value) if isinstance(test, ast.Constant) else None


def can_be_empty(iterable: ast.expr) -> bool:
    """Return whether a loop over `iterable` may be empty, which a literal with items is not."""
    match iterable:
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return all(isinstance(item, ast.Starred) for item in items)
        case ast.Constant(value=str() | bytes() as value):
            return not value
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(stop))], keywords=[]):
            return stop <= 0
    return True


def swallows_errors(item: ast.withitem) -> bool:
    """Return whether a context manager is known to swallow exceptions."""
    call = item.context_expr
    function = call.func if isinstance(call, ast.Call) else call
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    return name in _SWALLOWING


def catches_name_errors(statement: Try) -> bool:
    """Return whether a NameError in the body of `try` is caught there."""
    return any(
        handler.type is None
        or any(
            getattr(node, "id", getattr(node, "attr", None))
            in ("NameError", "Exception", "BaseException")
            for node in ast.walk(handler.type)
        )
        for handler in statement.handlers
    )


def irrefutable(case: ast.match_case) -> bool:
    """Return whether a case matches anything."""
    pattern: ast.pattern | None = case.pattern
    while isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        pattern = pattern.pattern
    if isinstance(pattern, ast.MatchOr):
        pattern = pattern.patterns[-1]
    return case.guard is None and isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def code_globals(code: CodeType) -> dict[str, None]:
    """Return the global names that a function's code, and code nested in it, may read.

    A dictionary without values: a set that keeps its order.
    """
    found: dict[str, None] = {}
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            found[instruction.argval] = None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.update(code_globals(constant))
    for implicit in ("__class__", "__classdict__", "__name__"):
        found.pop(implicit, None)
    return found


def function_globals(function: Function, class_name: str | None = None) -> dict[str, None]:
    """Compile a function without what is evaluated at its definition, and read its globals.

    The class around it matters for the mangling of private names and for ``super()``.
    """
    bare = copy.copy(function)
    bare.args = _without_expressions(function.args)
    holder: ast.stmt
    if isinstance(bare, ast.Lambda):
        holder = ast.Expr(bare)
    else:
        bare.decorator_list, bare.returns = [], None
        holder = bare
    if class_name is not None:
        holder = ast.parse(f"class {class_name}: pass").body[0]
        assert isinstance(holder, ast.ClassDef)
        holder.body = [ast.Expr(bare) if isinstance(bare, ast.Lambda) else bare]
    module = ast.fix_missing_locations(ast.Module([holder], []))
    code = compile(module, "<cell>", "exec", dont_inherit=True)
    name = "<lambda>" if isinstance(function, ast.Lambda) else function.name
    return {found: None for inner in _codes_named(code, name) for found in code_globals(inner)}


def _codes_named(code: CodeType, name: str) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_name == name:
                yield constant
            else:
                yield from _codes_named(constant, name)


def _without_expressions(arguments: ast.arguments) -> ast.arguments:
    """Copy a parameter list with neither annotations nor default values."""
    bare = copy.deepcopy(arguments)
    for argument in [*bare.posonlyargs, *bare.args, *bare.kwonlyargs, bare.vararg, bare.kwarg]:
        if argument is not None:
            argument.annotation = None
    bare.defaults = [ast.Constant(None) for _ in bare.defaults]
    bare.kw_defaults = [default and ast.Constant(None) for default in bare.kw_defaults]
    return bare
