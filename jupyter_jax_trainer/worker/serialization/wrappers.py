"""How the wrappers of ``functools`` and the names of types travel.

They would go by reference into the notebook's ``__main__``, which a job doesn't have, or not at
all; so they are made again around the functions that they wrap.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable
from typing import Any

from cloudpickle import cloudpickle as internals

from jupyter_jax_trainer.datatypes import Namespace
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.serialization.refusals import CannotTravel

Reduced = tuple[Any, ...]
_CACHED = type(functools.lru_cache(lambda: None))


def reduce_wrapper(value: Any) -> Reduced | None:
    """Reduce what is wrapped by ``functools``, and names of types; None leaves it to pickle."""
    kind = type(value)
    if kind is functools.cached_property:
        state = {name: part for name, part in vars(value).items() if name not in ("lock", "func")}
        return functools.cached_property, (value.func,), state
    if kind not in (_CACHED, typing.NewType, typing.ParamSpec) or _found_by_name(value):
        return None
    if kind is _CACHED:
        parameters = value.cache_parameters()
        state = {name: part for name, part in vars(value).items() if name != "__wrapped__"}
        return make_cached, (value.__wrapped__, parameters["maxsize"], parameters["typed"]), state
    if kind is typing.NewType:
        return make_type_name, ("NewType", value.__name__, value.__supertype__, value.__module__)
    return make_type_name, ("ParamSpec", value.__name__, None, value.__module__)


def _found_by_name(value: Any) -> bool:
    found = internals._lookup_module_and_qualname(value)
    return found is not None and not internals._is_registered_pickle_by_value(found[0])


def make_cached(function: Callable[..., Any], maxsize: int | None, typed: bool) -> Any:
    """Make a cached function, its cache empty."""
    return functools.lru_cache(maxsize, typed)(function)


def make_type_name(kind: str, name: str, supertype: Any, module: str) -> Any:
    """Make a ``NewType`` or a ``ParamSpec``."""
    made: Any = typing.NewType(name, supertype) if kind == "NewType" else typing.ParamSpec(name)
    made.__module__ = module
    return made


# ---- single dispatch


def reduce_dispatch(function: types.FunctionType) -> Reduced | None:
    """Reduce a generic function of ``functools.singledispatch``; None for any other."""
    registry = getattr(function, "registry", None)
    if (
        function.__globals__ is not vars(functools)
        or not isinstance(registry, types.MappingProxyType)
        or object not in registry
    ):
        return None
    made = vars(functools.singledispatch(registry[object])).keys() - vars(registry[object]).keys()
    extras = {name: part for name, part in vars(function).items() if name not in made}
    return (
        functools.singledispatch,
        (registry[object],),
        (dict(registry), extras),
        None,
        None,
        set_dispatch,
    )


def set_dispatch(function: Any, state: tuple[dict[type, Callable[..., Any]], Namespace]) -> None:
    """Give a generic function its implementations."""
    registry, extras = state
    for cls, implementation in registry.items():
        if cls is not object:
            function.register(cls, implementation)
    vars(function).update(extras)


# ---- references


def check_reference(value: Any, name: str) -> str:
    """Return the module where pickle will look for `name`; the notebook's own can't be looked into.

    Raises
    ------
    CannotTravel
        It is ``__main__``.
    """
    module = internals._whichmodule(value, name)
    if module in (None, "__main__"):
        raise CannotTravel(say.BY_NAME(type=type(value).__name__, name=name), value)
    return str(module)
