"""The largest arrays in memory, by the names that variables give them.

No code of the user's is run for it: containers are looked into as they are stored.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import re
import types
from collections.abc import Iterable, Iterator
from operator import itemgetter
from types import FrameType, TracebackType
from typing import Any

from jupyter_jax_trainer.datatypes import Namespace
from jupyter_jax_trainer.worker import rendezvous
from jupyter_jax_trainer.worker.records import HeldArray
from jupyter_jax_trainer.worker.serialization.describe import kind_of, type_name
from jupyter_jax_trainer.worker.stacks import frame_of

MOST, MAX_NAME = 8, 120  # arrays, and characters of their names
_COUNTS = 0.01  # of the largest one: what is smaller says nothing
_LOOKED_AT = 20_000  # values, so that it takes no longer than a few hundredths of a second
_NUMBER = re.compile(r"\[\d+\]")
_OPAQUE = (types.ModuleType, type, types.FunctionType, types.MethodType, types.BuiltinFunctionType)


def largest(
    names: Namespace, frames: Iterable[FrameType] = (), most: int = MOST
) -> list[HeldArray]:
    """Return the largest arrays: jax's, and those of numpy that have a name.

    Those of one type that differ by a number in their names, as in a list, count as one.

    Parameters
    ----------
    names
        The variables of the cell.
    frames
        Of functions whose variables count, too.
    most
        How many.
    """
    named: dict[int, tuple[str, Any]] = {}
    for name, value in _walk(names, frames):
        named.setdefault(id(value), (name, value))
    groups: dict[tuple[str | None, str], dict[int, HeldArray]] = {}
    for array in [*_live(), *(value for _, value in named.values())]:
        with contextlib.suppress(Exception):  # it was deleted meanwhile
            known = named[id(array)][0] if id(array) in named else None
            one: HeldArray = {"name": known, "type": type_name(array), "size": _bytes(array)}
            alike = None if known is None else _NUMBER.sub("[…]", known)
            groups.setdefault((alike, one["type"]), {})[id(array)] = one
    found = [_as_one(name, list(group.values())) for (name, _), group in groups.items()]
    chosen = heapq.nlargest(most, found, key=itemgetter("size"))
    return [one for one in chosen if one["size"] >= _COUNTS * chosen[0]["size"]]


def _as_one(name: str | None, arrays: list[HeldArray]) -> HeldArray:
    """Return arrays that are alike as if they were one."""
    if len(arrays) == 1:
        return arrays[0]
    size = sum(one["size"] for one in arrays)
    return {"name": name, "type": f"{len(arrays)} × {arrays[0]['type']}", "size": size}


def frames_of(thread: int) -> Iterator[FrameType]:
    """Yield the frames of a thread, the innermost first."""
    frame = frame_of(thread)
    while frame is not None:
        yield frame
        frame = frame.f_back


def frames_in(traceback: TracebackType | None) -> Iterator[FrameType]:
    """Yield the frames of a traceback."""
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def is_lost(array: Any) -> bool:
    """Return whether an array has no values: deleted, donated, or never computed.

    What a failed call returns looks like any array until it is read. One that is still being
    computed isn't waited for.
    """
    if not hasattr(array, "is_deleted"):
        return False
    if array.is_deleted():
        return True
    if hasattr(array, "is_ready") and array.is_ready():  # keys of jax.random have none
        try:
            array.block_until_ready()
        except Exception:
            return True
    return False


def _live() -> list[Any]:
    """Return jax's arrays, if it is in use: to ask starts its backends."""
    if not rendezvous.devices_in_use():
        return []
    import jax

    return [array for array in jax.live_arrays() if not array.is_deleted()]


def _bytes(array: Any) -> int:
    """Return how many bytes this process has of an array."""
    if not hasattr(array, "sharding"):
        return int(array.nbytes)
    each = math.prod(array.sharding.shard_shape(array.shape)) * array.dtype.itemsize
    return int(each * len(array.sharding.addressable_devices))


def _walk(names: Namespace, frames: Iterable[FrameType]) -> Iterator[tuple[str, Any]]:
    """Yield arrays with their names; those of the cell's own variables come first."""
    unseen = [(name, value) for name, value in list(names.items()) if not name.startswith("_")]
    for frame in frames:
        if frame.f_globals is names and frame.f_code.co_name != "<module>":
            where = f" in {frame.f_code.co_name}()"
            unseen += [(name + where, value) for name, value in list(frame.f_locals.items())]
    unseen.reverse()
    seen: set[int] = set()
    while unseen and len(seen) < _LOOKED_AT:
        name, value = unseen.pop()
        if id(value) in seen or isinstance(value, _OPAQUE):
            continue
        seen.add(id(value))
        if kind_of(value) == "array":
            yield name[:MAX_NAME], value
        else:
            unseen += [(_inner(name, part), inner) for part, inner in _parts(value)]


def _parts(value: Any) -> list[tuple[str, Any]]:
    """Return what a value consists of, and how one gets there."""
    if isinstance(value, dict):
        return [(f"[{key!r}]", inner) for key, inner in dict.copy(value).items() if _plain(key)]
    if isinstance(value, list | tuple):
        fields = getattr(type(value), "_fields", None)
        inner = list.copy(value) if isinstance(value, list) else tuple.__iter__(value)
        if fields is not None:
            return [(f".{field}", one) for field, one in zip(fields, inner, strict=False)]
        return [(f"[{number}]", one) for number, one in enumerate(inner)]
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    return [(f".{name}", inner) for name, inner in dict.copy(attributes).items()]


def _plain(key: object) -> bool:
    return type(key) in (str, int)


def _inner(name: str, part: str) -> str:
    """Put a part behind the name of a variable, before the function that it belongs to."""
    variable, space, where = name.partition(" in ")
    return f"{variable}{part}{space}{where}"
