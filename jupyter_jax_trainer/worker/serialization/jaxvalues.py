"""How values of jax travel: reducers, and the functions that rebuild the values on the other side.

jax is never imported to reduce a value: it is there already when there is a value of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from jupyter_jax_trainer.datatypes import Namespace
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.serialization.refusals import CannotTravel

Reduced = tuple[Any, ...]


def package_of(value: Any) -> str:
    """Return the top-level package of a value's type; jaxlib counts as jax."""
    module = type(value).__module__
    package = module.partition(".")[0] if isinstance(module, str) else ""
    return "jax" if package == "jaxlib" else package


def reduce_jax(value: Any, expect: Callable[[int], None]) -> Reduced | None:
    """Reduce a value whose type is jax's own; None leaves it to pickle.

    `expect` is told how many bytes an array has before they are fetched from its device.
    """
    jax = sys.modules.get("jax")
    if jax is None:  # half imported
        return None
    kind = type(value).__name__
    if isinstance(value, jax.Array):
        return _reduce_array(jax, value, expect)
    if kind in ("PjitFunction", "custom_jvp", "custom_vjp", "ufunc"):
        reference = _reference(value)
        if reference is not None:
            return reference
    if kind == "PjitFunction":
        return _reduce_jit(value)
    if kind == "custom_vjp":
        rules = (
            value.fwd,
            value.bwd,
            value.symbolic_zeros,
            getattr(value, "optimize_remat", False),
        )
        return (
            make_custom,
            (kind, value.fun, tuple(value.nondiff_argnums)),
            (rules, _extras(value)),
            None,
            None,
            set_custom,
        )
    if kind == "custom_jvp":
        jvp = (value.jvp, value.symbolic_zeros)
        return (
            make_custom,
            (kind, value.fun, tuple(value.nondiff_argnums)),
            (jvp, _extras(value)),
            None,
            None,
            set_custom,
        )
    return None


# ---- arrays


def _reduce_array(jax: Any, value: Any, expect: Callable[[int], None]) -> Reduced:
    import numpy

    if value.is_deleted():
        raise CannotTravel(say.DELETED_ARRAY(), value)
    if not value.is_fully_addressable:
        raise CannotTravel(say.SHARDED_ARRAY(), value)
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return make_key, (str(jax.random.key_impl(value)), jax.random.key_data(value))
    expect(value.nbytes)
    return make_array, (numpy.asarray(value), bool(getattr(value, "weak_type", False)))


def make_array(values: Any, weak_type: bool) -> Any:
    """Make a jax array of a numpy array."""
    import jax

    with wide_enough(values.dtype):
        return _weaken(jax.numpy.asarray(values), weak_type)


def wide_enough(dtype: Any) -> AbstractContextManager[object]:
    """Have arrays of 64 bits stay so: whoever made them had set jax to that."""
    import jax

    wide = dtype.itemsize >= 8 and not jax.config.jax_enable_x64
    return jax.enable_x64(True) if wide and hasattr(jax, "enable_x64") else nullcontext()


def _weaken(array: Any, weak_type: bool) -> Any:
    if not weak_type or array.weak_type:
        return array
    try:
        from jax._src.lax.lax import _convert_element_type

        return _convert_element_type(array, weak_type=True)
    except (ImportError, TypeError):
        return array  # a jax without that private function: promotes differently, no more


def make_key(impl: str, data: Any) -> Any:
    """Make a typed PRNG key of its data."""
    import jax

    return jax.random.wrap_key_data(data, impl=impl)


# ---- functions


def _reference(value: Any) -> Reduced | None:
    """Reduce to an import, if the value is what its module has under its name (``jax.nn.relu``)."""
    try:
        module, name = value.__module__, value.__qualname__
    except AttributeError:
        module, name = "jax.numpy", getattr(value, "__name__", "")
    if module in ("__main__", None) or "." in name:
        return None
    if getattr(sys.modules.get(module), name, None) is not value:
        return None
    return import_name, (module, name)


def import_name(module: str, name: str) -> Any:
    """Return an attribute of a module."""
    import importlib

    return getattr(importlib.import_module(module), name)


def _reduce_jit(value: Any) -> Reduced | None:
    """Reduce to a call of ``jax.jit``: the pickle of the object itself holds code of jax."""
    info, fun = getattr(value, "_jit_info", None), getattr(value, "_fun", None)
    if info is None or fun is None:
        return None
    try:
        placed = (*info.in_shardings_leaves, *info.out_shardings_leaves)
        layouts = (*info.in_layouts_leaves, *info.out_layouts_leaves)
        plain = (
            all(type(leaf).__name__ == "UnspecifiedValue" for leaf in placed)
            and all(leaf is None for leaf in layouts)
            and info.device is None
            and info.backend is None
            and not info.use_resource_env
        )
        options = {
            "static_argnums": info.static_argnums,
            "static_argnames": info.static_argnames,
            "donate_argnums": info.donate_argnums,
            "donate_argnames": info.donate_argnames,
            "keep_unused": info.keep_unused,
            "inline": info.inline,
            "compiler_options": dict(info.compiler_options_kvs),
        }
    except AttributeError:  # another jax; its own pickle does
        return None
    # In jit's signature a missing option and an empty one differ.
    return (make_jit, (fun, {k: v for k, v in options.items() if v})) if plain else None


def make_jit(fun: Any, options: Namespace) -> Any:
    """Make a jitted function."""
    import jax

    return jax.jit(fun, **options)


def _extras(value: Any) -> Namespace:
    """Return attributes that the user added to a custom_jvp or custom_vjp function."""
    own = {
        "fun",
        "fwd",
        "bwd",
        "jvp",
        "nondiff_argnums",
        "symbolic_zeros",
        "optimize_remat",
        "__wrapped__",
        "__module__",
        "__name__",
        "__qualname__",
        "__doc__",
        "__annotations__",
        "__type_params__",
    }
    copied = set(getattr(value.fun, "__dict__", ()))
    return {k: v for k, v in vars(value).items() if k not in own | copied}


def make_custom(kind: str, fun: Any, nondiff_argnums: tuple[int, ...]) -> Any:
    """Make a custom_jvp or custom_vjp function; its rules come afterwards, they may refer to it."""
    import jax

    return getattr(jax, kind)(fun, nondiff_argnums=nondiff_argnums)


def set_custom(value: Any, state: tuple[tuple[Any, ...], Namespace]) -> None:
    """Give a custom_jvp or custom_vjp function its rules."""
    rules, extras = state
    if hasattr(type(value), "defvjp"):
        fwd, bwd, symbolic_zeros, optimize_remat = rules
        if fwd is not None:
            more = {"optimize_remat": True} if optimize_remat else {}
            value.defvjp(fwd, bwd, symbolic_zeros=symbolic_zeros, **more)
    elif rules[0] is not None:
        value.defjvp(rules[0], symbolic_zeros=rules[1])
    vars(value).update(extras)
