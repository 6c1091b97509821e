"""Definite assignment: find what a program reads before it certainly binds it.

A name that is read where it is not certainly bound has to come from outside. A function reads its
globals when it is called, so they count where its name is loaded, or at once where it is a lambda
or decorated.
"""

# The visit_ methods carry the names of the syntax nodes, and need no other explanation.
# ruff: noqa: N802, N815, D102

from __future__ import annotations

import ast
from typing import Any

from jupyter_jax_trainer.capture import bindings as facts
from jupyter_jax_trainer.capture.paths import Outside, PathWalker

__all__ = ["Outside", "Walker"]

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Walker(PathWalker):
    """Adds what binds names and what opens scopes; the results are in the first attributes."""

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            if not any(node.id in targets for targets in self._comprehensions):
                self._bind(node.id)
            return
        self._load(node.id, node.lineno)
        if isinstance(node.ctx, ast.Del):
            self._unbind([node.id])

    def visit_Assign(self, node: ast.Assign) -> None:
        self.block([node.value, *node.targets])
        if isinstance(node.value, ast.Lambda):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self._defer(target.id, self._globals_of(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._load(node.target.id, node.lineno)
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
        self._bind(node.target.id)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self._star = True
            else:
                plain = alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name
                self._bind(alias.asname or plain)

    visit_ImportFrom = visit_Import

    def visit_Comprehension(self, node: Comprehension) -> None:
        first = node.generators[0]
        self.visit(first.iter)
        self._comprehensions.append(
            {
                name.id
                for generator in node.generators
                for name in ast.walk(generator.target)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            }
        )
        after = self.state and self.state.copy()
        for generator in node.generators:
            if generator is not first:
                self.visit(generator.iter)
            self.block([generator.target, *generator.ifs])
        self.block([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self._comprehensions.pop()
        if after is not None and self.state is not None:  # there may have been no iteration
            after.maybe |= self.state.maybe
        self.state = after

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Comprehension

    # ---- functions and classes

    def _globals_of(self, node: facts.Function) -> dict[str, None]:
        inner = facts.function_globals(node, self._classes[-1][0] if self._classes else None)
        hidden = set().union(*self._comprehensions, *self._type_params)
        return {name: None for name in inner if name not in hidden}

    def _open_type_params(self, node: ast.AST) -> None:
        """Begin the scope of ``[T]`` after a name (Python 3.12); every definition has one."""
        params = getattr(node, "type_params", [])
        self._type_params.append({param.name for param in params})
        self.block(child for param in params for child in ast.iter_child_nodes(param))

    def visit_TypeAlias(self, node: Any) -> None:
        self._open_type_params(node)
        self.visit(node.value)
        self._type_params.pop()
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
            self._read(name, node.lineno, deferred=True)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.block(node.decorator_list)
        self._open_type_params(node)
        self._definition_time(node.args)
        if node.returns is not None and not self._lazy_annotations:
            self.visit(node.returns)
        inner = self._globals_of(node)
        self._type_params.pop()
        if node.decorator_list:
            for name in inner:
                if name != node.name:
                    self._read(name, node.lineno, deferred=True)
        self._bind(node.name)
        self._defer(node.name, inner)
        for name in facts.global_bindings(node):
            if self.state is not None:
                self.state.maybe.add(name)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.block(node.decorator_list)
        self._open_type_params(node)
        self.block([*node.bases, *node.keywords])
        declared = {
            name
            for inner in facts.scope_nodes(node.body)
            if isinstance(inner, ast.Global)
            for name in inner.names
        }
        self._classes.append((node.name, declared))
        comprehensions, self._comprehensions = self._comprehensions, []
        self.block(node.body)
        self._comprehensions = comprehensions
        marker = f"@{len(self._classes)}"
        self._classes.pop()
        self._type_params.pop()
        for key in [key for key in self._deferred if key.endswith(marker)]:
            self._defer(node.name, self._deferred.pop(key))
        if self.state is not None:
            for names in (self.state.sure, self.state.maybe):
                names -= {name for name in names if name.endswith(marker)}
        self._bind(node.name)
