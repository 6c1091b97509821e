"""How classes of a notebook travel: what cloudpickle does, and the side effects it leaves out.

Defining a class can do more than make an object: jax may know it as a pytree, equinox and flax
work its fields out at once, ``__slots__`` shape its instances. All of that has to happen on the
other side, too.

The names of cloudpickle used here are not public; see `pickling`.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

from cloudpickle import cloudpickle as internals

Reduced = tuple[Any, ...]
received: weakref.WeakSet[type] = weakref.WeakSet()
"""Classes that came by value, so the other side has them, too."""


def is_class_by_value(reduced: Any) -> bool:
    """Return whether a reduced value is cloudpickle's form of a class that goes by value."""
    makers = (internals._make_skeleton_class, internals._make_skeleton_enum)
    return isinstance(reduced, tuple) and reduced[0] in makers


def finish_class(cls: type, reduced: Reduced) -> Reduced:
    """Turn cloudpickle's form of a class into ours."""
    make, arguments, (state, slots), *_ = reduced
    state = {
        name: value
        for name, value in state.items()
        if not isinstance(value, types.MemberDescriptorType)
    }
    if make is internals._make_skeleton_class:
        at_creation = {**arguments[3]}
        if "__slots__" in state and not issubclass(cls, tuple):  # named tuples set their own
            at_creation["__slots__"] = state.pop("__slots__")
        if _looks_at_fields(cls):
            at_creation |= _fields(cls)
        arguments = (*arguments[:3], at_creation, *arguments[4:])
    return make_class, (make, arguments), ((state, slots), pytree_of(cls)), None, None, set_class


def make_class(make: Callable[..., type], arguments: tuple[Any, ...]) -> type:
    """Make the class, still empty."""
    made = make(*arguments)
    received.add(made)
    return made


def set_class(cls: type, state: tuple[Any, Any]) -> None:
    """Fill the class, and tell jax of it if it was told before."""
    body, pytree = state
    internals._class_setstate(cls, body)
    if pytree is not None:
        register_pytree(cls, *pytree)


def existing_class(arguments: tuple[Any, ...]) -> type | None:
    """Find the class in this process that a pickled class once was, or became."""
    found: type | None = internals._DYNAMIC_CLASS_TRACKER_BY_ID.get(arguments[-2])
    return found


def _looks_at_fields(cls: type) -> bool:
    """Return whether something tells jax of the fields of a class at the moment of its creation."""
    return str(type(cls).__module__).startswith("equinox.") or any(
        base.__name__ == "PyTreeNode" and base.__module__.startswith("flax.")
        for base in cls.__mro__[1:]
    )


def _fields(cls: type) -> dict[str, Any]:
    """Return the annotations, defaults and constructor that make the same fields."""
    annotations = dict(vars(cls).get("__annotations__", {}))
    given: dict[str, Any] = {"__annotations__": annotations}
    for name in annotations:
        field = getattr(cls, "__dataclass_fields__", {}).get(name)
        if name in vars(cls):
            given[name] = vars(cls)[name]
        elif field is not None:
            given[name] = field
    own_init = vars(cls).get("__init__")
    generated = getattr(getattr(own_init, "__code__", None), "co_filename", "") == "<string>"
    if own_init is not None and not generated:
        given["__init__"] = initialise_later
    return given


def initialise_later(self: Any, *args: Any, **kwargs: Any) -> None:
    """Stand in for ``__init__`` until the class has its own."""


# ---- pytrees


def _registry() -> dict[type, Any]:
    found: dict[type, Any] = getattr(sys.modules.get("jax._src.tree_util"), "_registry", {})
    return found


def is_pytree(cls: type) -> bool:
    """Return whether jax was told how to take instances of a class apart."""
    # Not `in`, which would ask its metaclass for a hash.
    return any(known is cls for known in tuple(_registry()))


def pytree_of(cls: type) -> Reduced | None:
    """Return how jax was told to take instances of a class apart; None if it was not."""
    entry = _registry().get(cls)
    if entry is None:
        return None
    if hasattr(cls, "tree_flatten_with_keys"):
        return "class with keys", ()
    flatten, unflatten = entry
    closed_over = _closure(flatten)
    if getattr(flatten, "__qualname__", "").startswith("register_dataclass."):
        return "dataclass", (closed_over.get("data_fields", ()), closed_over.get("meta_fields", ()))
    if "flatten_with_keys" in closed_over:
        return "keys", (closed_over["flatten_with_keys"], unflatten)
    return "node", (flatten, unflatten)


def _closure(function: Any) -> dict[str, Any]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None:
        return {}
    return {
        name: cell.cell_contents for name, cell in zip(code.co_freevars, cells or (), strict=True)
    }


def register_pytree(cls: type, how: str, arguments: tuple[Any, ...]) -> None:
    """Tell jax of a class, unless its base class or metaclass has done so."""
    from jax import tree_util

    if is_pytree(cls):
        return
    register = {
        "class with keys": tree_util.register_pytree_with_keys_class,
        "dataclass": tree_util.register_dataclass,
        "keys": tree_util.register_pytree_with_keys,
        "node": tree_util.register_pytree_node,
    }[how]
    register(cls, *arguments)
