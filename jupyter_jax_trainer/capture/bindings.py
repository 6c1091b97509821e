"""What a piece of syntax binds, deletes or may skip: the small facts that `definite` builds on."""

from __future__ import annotations

import ast
import copy
import dis
from collections.abc import Iterable, Iterator
from types import CodeType

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Try = ast.Try | ast.TryStar
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

# Context managers that are known to swallow what their block raises, by the last part of the name.
_SWALLOWING = {"suppress", "raises", "assertRaises", "ExitStack", "AsyncExitStack"}


def scope_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Walk all nodes that run in the same scope, functions and classes without their bodies."""
    queue = list(nodes)
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, _SCOPES):
            queue.extend(ast.iter_child_nodes(node))


def bound_by(node: ast.AST) -> Iterator[str]:
    """Give the names that one node binds."""
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
    """Give the names that statements bind in their own scope (and a few bound in comprehensions).

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
    """Give the names that statements may delete; a handler deletes its own at its end."""
    return {
        node.id
        for node in scope_nodes(body)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)
    } | {
        node.name for node in scope_nodes(body) if isinstance(node, ast.ExceptHandler) and node.name
    }


def global_bindings(tree: ast.AST) -> set[str]:
    """Give names that functions and classes inside `tree` declare global."""
    return {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}


def constant_truth(test: ast.expr) -> bool | None:
    """Say whether a test is always true or always false; None if that depends."""
    return bool(test.value) if isinstance(test, ast.Constant) else None


def can_be_empty(iterable: ast.expr) -> bool:
    """Say whether a loop over `iterable` may run no iteration: a literal that has items can't."""
    match iterable:
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return all(isinstance(item, ast.Starred) for item in items)
        case ast.Constant(value=str() | bytes() as value):
            return not value
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(stop))], keywords=[]):
            return stop <= 0
    return True


def swallows_errors(item: ast.withitem) -> bool:
    """Say whether a context manager is known to swallow exceptions."""
    call = item.context_expr
    function = call.func if isinstance(call, ast.Call) else call
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    return name in _SWALLOWING


def catches_name_errors(statement: Try) -> bool:
    """Say whether a NameError in the body of `try` is caught there."""
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
    """Say whether a case matches anything."""
    pattern: ast.pattern | None = case.pattern
    while isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        pattern = pattern.pattern
    if isinstance(pattern, ast.MatchOr):
        pattern = pattern.patterns[-1]
    return case.guard is None and isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def code_globals(code: CodeType) -> dict[str, None]:
    """Give the global names that a function's code, and code nested in it, may read.

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
