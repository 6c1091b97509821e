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

from jupyter_jax_trainer.worker.serialization import classes

NAMED_TUPLE, DATACLASS = "namedtuple", "dataclass"
# Of any module or class, whatever it would answer itself.
_HELD_BY_MODULE: Any = vars(types.ModuleType)["__dict__"]
_HELD_BY_CLASS: Any = vars(type)["__dict__"]
_BASES: Any = vars(type)["__mro__"]


def kind_of(cls: type) -> str | None:
    """Return how instances of a class can be put together; None if not without running its code.

    A class that may be anybody's is looked at without asking it for attributes: its metaclass
    would answer.
    """
    if _static(cls, "__del__") is not None:
        return None
    if issubclass(cls, tuple):
        fields = _static(cls, "_fields")
        named = type(fields) is tuple and all(type(field) is str for field in fields)
        return NAMED_TUPLE if named and _reduces_plainly(cls, tuple) else None
    plain = (
        classes.is_pytree(cls)
        and type(_static(cls, "__dataclass_fields__")) is dict
        and _reduces_plainly(cls, object)
        and not any(_is_computed(cls, name) for name in field_names(cls))
        and _is_made_by_object(cls)
    )
    return DATACLASS if plain else None


def _static(cls: type, name: str) -> Any:
    """Return what a class has under a name; `inspect.getattr_static` would ask metaclasses."""
    for base in _BASES.__get__(cls):
        held = _HELD_BY_CLASS.__get__(base)
        if name in held:
            return held[name]
    return None


def _reduces_plainly(cls: type, base: type) -> bool:
    """Return whether a class leaves it to pickle how its instances are taken apart."""
    state = _static(cls, "__setstate__")
    by_dataclass = type(state) is types.FunctionType and state.__module__ == "dataclasses"
    left = ["__reduce__", "__reduce_ex__"]
    if base is object and not by_dataclass:  # those that are frozen with slots have their own
        left.append("__getstate__")
    return (state is None or by_dataclass) and all(
        _static(cls, name) is _static(object, name) for name in left
    )


def _is_computed(cls: type, name: str) -> bool:
    """Return whether code runs when an attribute is set."""
    kind = type(_static(cls, name))
    return kind is not types.MemberDescriptorType and _static(kind, "__set__") is not None


def _is_made_by_object(cls: type) -> bool:
    try:
        object.__new__(cls)
    except TypeError:  # abstract, or of a built-in type
        return False
    return True


def field_names(cls: type) -> list[str]:
    """Name the fields of a class, in order."""
    if issubclass(cls, tuple):
        return list(_static(cls, "_fields") or ())
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

    Modules and classes are asked for what they hold, never for an attribute, and nothing for its
    `__class__`: what is lazy would import it.
    """
    found = sys.modules.get(module)
    if not issubclass(type(found), types.ModuleType):
        return None
    inside: Any = _HELD_BY_MODULE.__get__(found)
    cls: type | None = None
    for part in name.split("."):
        value = inside.get(part)
        if not issubclass(type(value), type):
            return None
        cls, inside = value, _HELD_BY_CLASS.__get__(value)
    return cls


def is_found_elsewhere(cls: type) -> bool:
    """Return whether the notebook, too, can have a class, by the name of its module and its own."""
    if cls.__module__ == "__main__":
        return cls in classes.received and "<locals>" not in cls.__qualname__
    return find_class(cls.__module__, cls.__qualname__) is cls
