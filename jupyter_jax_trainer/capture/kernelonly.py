"""What a cell does that only works in the notebook's kernel: it asks the user, or shows widgets."""

from __future__ import annotations

import ast
from types import ModuleType
from typing import Any

from jupyter_jax_trainer.capture.names import assigned_names
from jupyter_jax_trainer.datatypes import Namespace
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import cell as say

_WIDGETS = ("ipywidgets", "anywidget")


def check_needs_no_kernel(tree: ast.Module, namespace: Namespace) -> None:
    """Refuse a cell that asks the user, or uses widgets.

    Parameters
    ----------
    tree
        The cell.
    namespace
        The notebook's variables.

    Raises
    ------
    UsageError
        It does.
    """
    own = {*assigned_names(tree), *namespace}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="input" as name)) if name not in own:
                raise UsageError(say.ASKS_USER(line=node.lineno, name=name))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name == "getpass":
                raise UsageError(say.ASKS_USER(line=node.lineno, name=name))
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case ast.Name(id=name, ctx=ast.Load()) if name in namespace:
                modules = _modules_of(namespace[name])
            case _:
                continue
        for module in modules:
            if (top := module.partition(".")[0]) in _WIDGETS:
                raise UsageError(say.USES_WIDGETS(line=node.lineno, name=top))


def _modules_of(value: Any) -> list[str]:
    """Return the modules of a value's types, or of a module, function or class."""
    if isinstance(value, ModuleType):
        return [value.__name__]
    types = value.__mro__ if isinstance(value, type) else type(value).__mro__
    own = getattr(value, "__module__", None)
    return [str(own or ""), *(str(one.__module__) for one in types)]
