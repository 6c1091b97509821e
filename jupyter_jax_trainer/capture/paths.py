"""Follow the paths of a program with the names that are bound on each.

Every point of the program has the names that are certainly bound there and those that may be.
Names in a class body are kept in the same two sets, marked with the depth of the class, so
branches and loops need no second set of rules.
"""

# The visit_ methods carry the names of the syntax nodes, and need no other explanation.
# ruff: noqa: N802, N815, D102

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from jupyter_jax_trainer.capture import bindings as facts

Outside = Callable[[str], Mapping[str, None]]


@dataclass
class State:
    """Names bound at one point of the program."""

    sure: set[str] = field(default_factory=set)
    maybe: set[str] = field(default_factory=set)

    def copy(self) -> State:
        """Give an independent copy, for a branch."""
        return State(set(self.sure), set(self.maybe))


def merge(*states: State | None) -> State | None:
    """Join paths; None is a path that is never taken."""
    taken = [state for state in states if state is not None]
    if not taken:
        return None
    return State(
        set.intersection(*(state.sure for state in taken)),
        set.union(*(state.maybe for state in taken)),
    )


@dataclass
class _Loop:
    breaks: list[State | None] = field(default_factory=list)
    continues: list[State | None] = field(default_factory=list)


class PathWalker:
    """Visits a module in the order of evaluation, with the names that are bound on each path."""

    def __init__(self, tree: ast.Module, outside: Outside | None = None) -> None:
        self.lines: dict[str, int] = {}
        self.via: dict[str, str] = {}
        self.certain: set[str] = set()
        self.unguarded: set[str] = set()
        self.state: State | None = State()
        self._outside: Outside = outside or (lambda name: {})
        self._assigned = facts.bound_names(tree.body) | facts.global_bindings(tree)
        self._deferred: dict[str, dict[str, None]] = {}
        self._comprehensions: list[set[str]] = []
        self._type_params: list[set[str]] = []
        self._loops: list[_Loop] = []
        self._classes: list[tuple[str, set[str]]] = []  # name, names declared global in the body
        self._guards = 0
        self._star = False
        self._lazy_annotations = any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names)
            for node in tree.body
        )

    # ---- names

    def _key(self, name: str) -> str:
        if self._classes and name not in self._classes[-1][1]:
            return f"{name}@{len(self._classes)}"
        return name

    def _read(self, name: str, line: int, *, deferred: bool = False) -> None:
        """Note the reading of a global, and of what it would read if it is a function."""
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
                if not self._guards:
                    self.unguarded.add(name)
                # A function may be called later than here, when more names are bound.
                if not self._star and name not in (
                    self._assigned if deferred else self.state.maybe
                ):
                    self.certain.add(name)
            queue.extend((n, True, source) for n, source in inner.items() if n not in seen)
            seen.update(inner)

    def _load(self, name: str, line: int) -> None:
        if self.state is None or name in set().union(*self._comprehensions, *self._type_params):
            return
        key = self._key(name)
        if key != name and not self._comprehensions:
            for inner in self._deferred.get(key, ()):
                self._read(inner, line, deferred=True)
            if key in self.state.sure:
                return
        self._read(name, line)

    def _bind(self, name: str) -> None:
        if self.state is not None:
            self.state.maybe.add(self._key(name))
            self.state.sure.add(self._key(name))

    def _unbind(self, names: Iterable[str]) -> None:
        if self.state is not None:
            self.state.sure -= {self._key(name) for name in names}

    def _defer(self, name: str, inner: dict[str, None]) -> None:
        # Which of several definitions is called can depend on the path: keep what all of them read.
        self._deferred.setdefault(self._key(name), {}).update(inner)

    # ---- paths

    def block(self, body: Iterable[ast.AST]) -> None:
        """Visit statements until one of them never goes on."""
        for statement in body:
            if self.state is None:
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
        start, ends = self.state, []
        for body in bodies:
            self.state = start and start.copy()
            self.block(body)
            ends.append(self.state)
        self.state = merge(*ends)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        truth = facts.constant_truth(node.test)
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

    def _loop(self, head: list[ast.AST], body: list[ast.stmt]) -> tuple[State | None, _Loop]:
        """Visit an iteration that may be any; give the state at its head and how it is left."""
        assert self.state is not None
        self._unbind(facts.deleted_names(body))
        self.state.maybe |= {self._key(name) for name in facts.bound_names(body)}
        self.block(head)
        at_head = self.state and self.state.copy()
        loop = _Loop()
        self._loops.append(loop)
        self.block(body)
        self._loops.pop()
        return at_head, loop

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        if self.state is None:
            return
        before = self.state.copy()
        _, loop = self._loop([node.target], node.body)
        if facts.can_be_empty(node.iter):
            loop.continues.append(before)
        self._after_loop(node, loop)

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        truth = facts.constant_truth(node.test)
        if truth is False or self.state is None:
            self.block(node.orelse)
            return
        at_head, loop = self._loop([node.test], node.body)
        # Whatever an iteration binds, the loop ends at its test.
        self.state, loop.continues = (None, []) if truth else (at_head, [])
        self._after_loop(node, loop)

    def _after_loop(self, node: ast.For | ast.AsyncFor | ast.While, loop: _Loop) -> None:
        self.state = merge(self.state, *loop.continues)
        self.block(node.orelse)
        self.state = merge(self.state, *loop.breaks)

    def visit_Break(self, node: ast.Break) -> None:
        if self._loops:
            self._loops[-1].breaks.append(self.state)
        self.state = None

    def visit_Continue(self, node: ast.Continue) -> None:
        if self._loops:
            self._loops[-1].continues.append(self.state)
        self.state = None

    def visit_Raise(self, node: ast.Raise) -> None:
        self.block(ast.iter_child_nodes(node))
        self.state = None

    def visit_Try(self, node: facts.Try) -> None:
        if self.state is None:
            return
        everything = [*node.body, *node.handlers, *node.orelse]
        start = self.state.copy()
        caught = facts.catches_name_errors(node)
        self._guards += caught
        self.block(node.body)
        self._guards -= caught
        self.block(node.orelse)
        ends = [self.state]
        for handler in node.handlers:
            # The body can stop anywhere: before it bound anything, after it deleted something.
            self.state = self._interrupted(start, node.body)
            self.visit(handler)
            ends.append(self.state)
        normal = merge(*ends)
        if node.finalbody:
            self.state = self._interrupted(start, everything)
            self.block(node.finalbody)
            for loop in self._loops:
                for left in [*loop.breaks, *loop.continues]:
                    if left is not None:
                        left.sure -= {self._key(n) for n in facts.deleted_names(node.finalbody)}
        self.state = normal
        self.block(node.finalbody)

    visit_TryStar = visit_Try

    def _interrupted(self, start: State, body: Iterable[ast.AST]) -> State:
        return State(
            start.sure - {self._key(name) for name in facts.deleted_names(body)},
            start.maybe | {self._key(name) for name in facts.bound_names(body)},
        )

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        if node.name:
            self._bind(node.name)
        self.block(node.body)
        if node.name:
            self._unbind([node.name])

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item)
        before = self.state and self._interrupted(self.state, node.body)
        self.block(node.body)
        if any(map(facts.swallows_errors, node.items)):
            self.state = merge(before, self.state)

    visit_AsyncWith = visit_With

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        ends: list[State | None] = []
        for case in node.cases:
            start = self.state
            self.state = start and start.copy()
            self.visit(case.pattern)
            if case.guard is not None:
                self.visit(case.guard)
            refused = start and self._interrupted(start, [case.pattern])
            if case.guard is not None:
                refused = merge(refused, self.state)
            self.block(case.body)
            ends.append(self.state)
            self.state = None if facts.irrefutable(case) else refused
        self.state = merge(self.state, *ends)

    def visit_MatchOr(self, node: ast.MatchOr) -> None:
        self._branch(*([pattern] for pattern in node.patterns))

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        for child in ast.iter_child_nodes(node):
            self.visit(child)
        if node.name is not None:
            self._bind(node.name)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.block([*node.keys, *node.patterns])
        if node.rest is not None:
            self._bind(node.rest)
