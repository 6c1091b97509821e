"""Names for values, as a person would say them."""

from __future__ import annotations

import types
from typing import Any


def type_name(value: Any) -> str:
    """Describe a value: ``float32[60000,784]``, ``dict of 3``, ``flax.linen.Dense``."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    cls = type(value)
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if not isinstance(value, type) and dtype is not None and isinstance(shape, tuple):
        package = _package(cls)
        if package in ("numpy", "jax", "jaxlib"):
            return f"{dtype}[{','.join(map(str, shape))}]"
    if isinstance(value, dict | list | tuple | set | frozenset):
        if hasattr(value, "_fields"):
            return _class_name(cls)
        return f"{cls.__name__} of {len(value)}"
    if isinstance(value, str | bytes | bytearray):
        return f"{cls.__name__} of {len(value)}" if len(value) > 80 else cls.__name__
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType | types.MethodType):
        return "function"
    if cls.__name__ in ("PjitFunction", "custom_vjp", "custom_jvp", "ufunc"):
        return {"PjitFunction": "jitted function"}.get(cls.__name__, f"{cls.__name__} function")
    if isinstance(value, type):
        return f"class {value.__qualname__}"
    return _class_name(cls)


def kind_of(value: Any) -> str:
    """Sort a value: ``module``, ``class``, ``function``, ``array`` or ``value``."""
    try:
        return _kind_of(value)
    except Exception:  # a weak proxy of what is gone, a class of the user's that raises
        return "value"


def _kind_of(value: Any) -> str:
    if isinstance(value, types.ModuleType):
        return "module"
    if isinstance(value, type):
        return "class"
    cls = type(value)
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType | types.MethodType) or (
        cls.__name__ in ("PjitFunction", "custom_vjp", "custom_jvp", "ufunc")
    ):
        return "function"
    if _package(cls) in ("numpy", "jax", "jaxlib") and hasattr(value, "dtype"):
        return "array" if getattr(value, "shape", ()) else "value"
    return "value"


def _package(cls: type) -> str:
    return str(cls.__module__).partition(".")[0]


def _class_name(cls: type) -> str:
    module = str(cls.__module__)
    if module in ("builtins", "__main__"):
        return cls.__qualname__
    public = ".".join(part for part in module.split(".") if not part.startswith("_"))
    return f"{public}.{cls.__qualname__}" if public else cls.__qualname__
