"""Look into a variable: which globals it reads once it is called, and where a culprit is in it."""

from __future__ import annotations

import io
import time
import types
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from jupyter_jax_trainer.capture.names import code_globals
from jupyter_jax_trainer.messages import Text
from jupyter_jax_trainer.messages import cell as say
from jupyter_jax_trainer.worker.serialization.describe import kind_of
from jupyter_jax_trainer.worker.serialization.pickling import Pickler
from jupyter_jax_trainer.worker.serialization.refusals import explain

BYTES = 64 << 20  # that are pickled to find globals
SECONDS = 2.0  # of work to find a culprit
DEPTH = 60
_GLOBAL = " -> global "
_PLAIN = (
    str,
    bytes,
    bytearray,
    int,
    float,
    complex,
    bool,
    type(None),
    types.ModuleType,
    types.CodeType,
    type(Ellipsis),
)


def globals_used(value: Any) -> dict[str, None]:
    """Return the globals of the notebook that functions inside a value read when called."""
    scout = _Scout()
    with suppress(Exception):  # what can't be sent is refused later, with its path
        scout.dump(value)
    return scout.found


def find_culprit(root: Any, wanted: Any, *, seconds: float = SECONDS) -> str | None:
    """Find the shortest path from a value to something inside it.

    Parameters
    ----------
    root
        The value to search: containers, attributes, closures, globals and defaults.
    wanted
        The object to find, by identity.
    seconds
        When to give up.

    Returns
    -------
    The path as it is to be put after the name of `root`, such as ``.data['loader'][1]`` or
    ``-> global c.data``; None if there is none within the bounds.
    """
    end = time.monotonic() + seconds
    keep = [root]  # what is made on the way must live on, ids are compared
    seen = {id(root)}
    queue = deque([(root, "", 0)])
    while queue and time.monotonic() < end:
        value, path, depth = queue.popleft()
        if value is wanted:
            return path
        if depth == DEPTH:
            continue
        for label, child in _children(value):
            if id(child) in seen or (isinstance(child, _PLAIN) and child is not wanted):
                continue
            seen.add(id(child))
            keep.append(child)
            queue.append((child, path + label, depth + 1))
    return None


def describe_failure(
    name: str, path: str, value: Any, error: BaseException, culprit: Any
) -> tuple[Text, str]:
    """Say in a sentence which part of a variable can't be sent, and how to go on.

    Parameters
    ----------
    name
        The variable that the user knows about.
    path
        How `value` is reached from it; empty if it is its value.
    value
        What was pickled.
    error
        What that raised.
    culprit
        The object that pickling was at, when it failed.
    """
    inner = "" if culprit is value else find_culprit(value, culprit)
    if inner is None:
        inner = _failing_part(value)
    what, hint = explain(error, culprit)
    if path or inner:
        return say.CANNOT_SEND_PART(name=name, part=f"{name}{path}{inner}", what=what), hint
    return say.CANNOT_SEND(name=name, what=what), hint


def _failing_part(value: Any) -> str:
    """Name the first child that fails by itself, where the culprit is made while pickling."""
    for label, child in _children(value):
        try:
            Pickler(io.BytesIO()).dump(child)
        except Exception:
            return label
    return ""


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a value with what to write behind its name to reach them."""
    if kind_of(value) == "array" and type(value).__module__ != "__main__":
        return
    if isinstance(value, dict):
        for key, item in list(value.items()):
            yield f"[{_short(key)}]", item
        for key in list(value):
            yield f" key {_short(key)}", key
    elif isinstance(value, list | tuple):
        fields = getattr(value, "_fields", None)
        for index, item in enumerate(value):
            yield (f".{fields[index]}" if fields else f"[{index}]"), item
    elif isinstance(value, set | frozenset):
        for item in value:
            yield f" item {_short(item)}", item
    elif isinstance(value, types.FunctionType):
        yield from _function_children(value)
        return
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
        yield ".__func__", value.__func__
        return
    elif isinstance(value, staticmethod | classmethod):
        yield "", value.__func__
        return
    elif isinstance(value, property):
        for accessor in ("fget", "fset", "fdel"):
            yield f".{accessor}", getattr(value, accessor)
        return
    if isinstance(value, type):
        if value.__module__ == "__main__":
            for attribute, item in list(vars(value).items()):
                if attribute not in ("__dict__", "__weakref__"):
                    yield f".{attribute}", item
        return
    yield from _attributes(value)


def _function_children(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    wrapped = getattr(function, "__wrapped__", None)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f" -> closure variable {name}", cell.cell_contents
        except ValueError:  # not bound yet
            continue
    for name in code_globals(function.__code__):
        if name in function.__globals__:
            yield f"{_GLOBAL}{name}", function.__globals__[name]
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    for name, item in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True):
        yield f" -> default of {name}", item
    for name, item in (function.__kwdefaults__ or {}).items():
        yield f" -> default of {name}", item
    for name, item in vars(function).items():
        if item is not wrapped:
            yield f".{name}", item
    if wrapped is not None:
        yield "", wrapped


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    for name, item in list(getattr(value, "__dict__", {}).items()):
        yield ("" if name == "__wrapped__" else f".{name}"), item
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            with suppress(AttributeError, TypeError):  # an empty slot, a slot of the machinery
                yield f".{name}", getattr(value, name)
    for name in ("func", "args", "keywords"):  # functools.partial keeps them out of its __dict__
        if type(value).__module__ == "functools" and hasattr(value, name):
            yield f".{name}", getattr(value, name)
    cls = type(value)
    if cls.__module__ == "__main__":
        yield f" -> class {cls.__name__}", cls


def _short(value: Any) -> str:
    try:
        text = repr(value) if isinstance(value, str | int | float | bytes | tuple) else ""
    except Exception:
        text = ""
    return text if text and len(text) <= 40 else type(value).__name__


# ---- globals


class _Enough(Exception):  # noqa: N818
    """So much has been looked at that the rest is left out."""


def _stop_at_bound(size: int) -> None:
    if size > BYTES:
        raise _Enough


class _Nowhere:
    """Takes a stream and forgets it."""

    def write(self, data: Any) -> int:
        return len(data)


class _Scout(Pickler):
    """Pickles as `Pickler` does, into nothing, and notes what functions would bring along.

    So it meets what travels by value, and nothing behind a module, a library's function or
    whatever else goes by reference. Arrays hold no functions; they are passed over.
    """

    def __init__(self) -> None:
        super().__init__(_Nowhere(), on_size=_stop_at_bound)  # type: ignore[arg-type]
        self.found: dict[str, None] = {}

    def reducer_override(self, obj: Any) -> Any:
        if kind_of(obj) == "array" and not getattr(obj.dtype, "hasobject", False):
            return int, ()
        return super().reducer_override(obj)

    def _note_code(self, code: types.CodeType) -> None:
        pass

    def _finish_function(self, function: types.FunctionType, reduced: tuple[Any, ...]) -> Any:
        if function.__globals__.get("__name__") != "__main__":
            return super()._finish_function(function, reduced)
        self.found.update(code_globals(function.__code__))
        make, arguments, (attributes, slots), *rest = reduced
        return (make, arguments, (attributes, {**slots, "__globals__": {}}), *rest)
