"""Classes whose instances are their fields: named tuples, dataclasses that jax knows as pytrees.

Such an instance is taken apart and put together again without a line of its class being run. A
class is found by its name among what is imported already; nothing is imported to find it.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
from collections.abc import Sequence
from typing import Any

from jupyter_jax_trainer.worker import classes

NAMED_TUPLE, DATACLASS = "namedtuple", "dataclass"


def kind_of(cls: type) -> str | None:
    """Say how instances of a class can be put together; None if not without running its code."""
    if hasattr(cls, "__del__"):
        return None
    if issubclass(cls, tuple):
        named = isinstance(getattr(cls, "_fields", None), tuple)
        return NAMED_TUPLE if named and _reduces_plainly(cls, tuple) else None
    plain = (
        dataclasses.is_dataclass(cls)
        and classes.is_pytree(cls)
        and _reduces_plainly(cls, object)
        and not any(_is_computed(cls, name) for name in field_names(cls))
        and _is_made_by_object(cls)
    )
    return DATACLASS if plain else None


def _reduces_plainly(cls: type, base: type) -> bool:
    """Say whether a class leaves it to pickle how its instances are taken apart."""
    state = getattr(cls, "__setstate__", None)
    by_dataclass = getattr(state, "__module__", None) == "dataclasses"  # frozen with slots
    left = ["__reduce__", "__reduce_ex__"]
    if base is object and not by_dataclass:
        left.append("__getstate__")
    return (state is None or by_dataclass) and all(
        getattr(cls, name) is getattr(object, name) for name in left
    )


def _is_computed(cls: type, name: str) -> bool:
    """Say whether code runs when an attribute is set."""
    found = inspect.getattr_static(cls, name, None)
    return hasattr(type(found), "__set__") and not isinstance(found, types.MemberDescriptorType)


def _is_made_by_object(cls: type) -> bool:
    try:
        object.__new__(cls)
    except TypeError:  # abstract, or of a built-in type
        return False
    return True


def field_names(cls: type) -> list[str]:
    """Name the fields of a class, in order."""
    if issubclass(cls, tuple):
        return list(getattr(cls, "_fields", ()))
    known: Any = cls
    return [field.name for field in dataclasses.fields(known)]


def values_of(record: Any) -> list[Any] | None:
    """Take an instance apart; None if it holds more than its fields, or less."""
    cls, names = type(record), field_names(type(record))
    state = getattr(record, "__dict__", {})
    if set(state).difference(names):
        return None
    if isinstance(record, tuple):
        return list(tuple.__iter__(record)) if len(record) == len(names) and not state else None
    values = []
    for name in names:
        slot = inspect.getattr_static(cls, name, None)
        if name in state:
            values.append(state[name])
        elif isinstance(slot, types.MemberDescriptorType) and hasattr(record, name):
            values.append(slot.__get__(record, cls))
        else:
            return None
    return values


def build(cls: type, values: Sequence[Any]) -> Any:
    """Put an instance together."""
    if issubclass(cls, tuple):
        return tuple.__new__(cls, values)
    made: Any = object.__new__(cls)
    for name, value in zip(field_names(cls), values, strict=True):
        object.__setattr__(made, name, value)
    return made


def find_class(module: str, name: str) -> type | None:
    """Find a class by its name among what is imported; None if it is not there.

    Modules are asked for what they hold, never for an attribute: a lazy one would import it.
    """
    found = sys.modules.get(module)
    if not isinstance(found, types.ModuleType):
        return None
    inside: Any = types.ModuleType.__getattribute__(found, "__dict__")
    value: Any = None
    for part in name.split("."):
        value = inside.get(part)
        if not isinstance(value, type):
            return None
        inside = vars(value)
    return value if isinstance(value, type) else None


def is_found_elsewhere(cls: type) -> bool:
    """Say whether the notebook, too, can have a class, by the name of its module and its own."""
    if cls.__module__ == "__main__":
        return cls in classes.received and "<locals>" not in cls.__qualname__
    return find_class(cls.__module__, cls.__qualname__) is cls
