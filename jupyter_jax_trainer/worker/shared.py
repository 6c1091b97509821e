"""Which variables share objects, so that it can be said when one of them is replaced alone."""

from __future__ import annotations

import enum
import gc
import types
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from jupyter_jax_trainer.datatypes import Namespace

_MOST, _EACH = 20_000, 5_000  # objects that are looked at, in all and of one variable
_CONTAINERS = (dict, list, set, bytearray, deque)
# Whose objects can't change, save for arrays of numpy.
_FIXED = ("jax", "jaxlib", "numpy", "flax.linen")
_NOT_THEMSELVES = (*_FIXED, "equinox")  # but what they hold may
_WHOLE = (types.ModuleType, type, types.CodeType, types.BuiltinFunctionType, str, bytes, int, float)


class Shared:
    """What variables that are about to be replaced have in common with those that stay.

    It holds no value that is to go.

    Parameters
    ----------
    replaced, staying
        The names of both.
    values
        All variables.
    """

    def __init__(self, replaced: Iterable[str], staying: Iterable[str], values: Namespace) -> None:
        self._replaced = [name for name in replaced if name in values]
        walk = _Walk()
        owners = {id(one): name for name in self._replaced for one in walk.mutable_in(values[name])}
        walk = _Walk()
        self._found = [
            (owners[id(one)], other, one)
            for other in (staying if owners else ())
            for one in walk.mutable_in(values[other])
            if id(one) in owners
        ]

    def parted(self, values: Namespace) -> tuple[list[str], list[str]]:
        """Return which of the variables have been parted from which others, after the change.

        What both have by reference, such as a logger, they still share.
        """
        if not self._found:
            return [], []
        walk = _Walk()
        still = {id(one) for name in self._replaced for one in walk.mutable_in(values[name])}
        pairs = [(name, other) for name, other, one in self._found if id(one) not in still]
        return sorted({name for name, _ in pairs}), sorted({other for _, other in pairs})


class _Walk:
    """Goes through values, as far as there is time for."""

    def __init__(self) -> None:
        self._left = _MOST

    def mutable_in(self, value: Any) -> Iterator[Any]:
        """Give the objects that a value is or has and that can be changed, the nearest first."""
        seen, queue, most = {id(value)}, deque([value]), max(0, min(_EACH, self._left))
        while queue:
            one = queue.popleft()
            if _is_mutable(one):
                yield one
            for part in islice(_parts(one), most):
                if isinstance(part, _WHOLE) or id(part) in seen or len(seen) >= most:
                    continue
                seen.add(id(part))
                queue.append(part)
        self._left -= len(seen)


def _is_mutable(value: Any) -> bool:
    kind = type(value)
    if issubclass(kind, _CONTAINERS) or _is_numpy_array(value):
        return True
    fixed = (*_WHOLE, types.FunctionType, enum.Enum, tuple, frozenset)
    if issubclass(kind, fixed) or _is_of(kind, _NOT_THEMSELVES):
        return False
    frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
    return kind.__dictoffset__ != 0 and not frozen


def _parts(value: Any) -> Iterable[Any]:
    """Return the objects that a value holds: a function's closure and defaults, no module's."""
    kind = type(value)
    if issubclass(kind, _WHOLE) or (_is_of(kind, _FIXED) and not _is_numpy_array(value)):
        return ()
    parts: Iterable[Any]
    if kind in (list, tuple):
        parts = value
    elif kind is dict:
        parts = value.values()
    elif kind is types.FunctionType:
        parts = (value.__closure__ or ()) + (value.__defaults__ or ())
    else:
        parts = gc.get_referents(value)
        if kind.__dictoffset__ != 0:
            own = object.__getattribute__(value, "__dict__")  # no object by itself
            parts = [*(one for one in parts if one is not own), *own.values()]
    return parts


def _is_numpy_array(value: Any) -> bool:
    kind = type(value)
    return kind.__name__ in ("ndarray", "memmap") and kind.__module__ == "numpy"


def _is_of(kind: type, packages: Sequence[str]) -> bool:
    """Return whether a class, or one that it is made from, is of one of these packages."""
    modules = [f"{one.__module__}." for one in kind.__mro__]
    return any(module.startswith(f"{package}.") for module in modules for package in packages)
