"""The format of a job directory: what is on disk, and what the rest of the package works with.

A change of the format is a change of this module: raise `FORMAT`, write documents the new way in
`to_disk`, and add to `_UPGRADES` how those of the formats before are read. Nobody else knows what
earlier versions wrote (docs/reference/job-directory.md describes what this one does).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, TypeAlias

from jupyter_jax_trainer.datatypes import JsonValue

FORMAT = 1
READABLE = (1,)

# What others rely on in JSON: a type, one of several, items of a list, or keys of an object.
Shape: TypeAlias = type | tuple["Shape", ...] | list["Shape"] | dict[str, "Shape"]

_TEXT = (str, NoneType)
_NUMBER = (int, float)
MANIFEST: dict[str, Shape] = {
    "name": str,
    "uid": str,
    "host": str,
    "created": _NUMBER,
    "spec": {"nodes": int},
    "plan": dict,
    "sent": [{"name": str}],
    "returns": bool,
}
STATE: dict[str, Shape] = {
    "state": str,
    "reason": _TEXT,
    "hint": _TEXT,
    "history": [{"state": str, "time": _NUMBER}],
    "ranks": [{"rank": int, "state": str, "exit": (int, NoneType)}],
    "progress": (NoneType, {"step": int, "metrics": dict, "time": _NUMBER}),
    "failure": (NoneType, {"kind": str, "message": str}),
    "results": (NoneType, [{"name": str}]),
}
SESSION: dict[str, Shape] = {
    "idle": _NUMBER,
    "idle_since": (*_NUMBER, NoneType),
    "running": _TEXT,
    "waiting": [str],
    "variables": dict,
    "restarts": int,
    "lost": [str],
}
LINES: dict[str, Shape] = {
    "events.jsonl": {"time": _NUMBER, "kind": str, "message": str},
    "metrics.jsonl": {"time": _NUMBER, "rank": int, "step": int, "values": dict},
    "resources.jsonl": {"time": _NUMBER, "rank": int, "devices": list},
    "displays.jsonl": {"log_offset": int, "data": dict, "metadata": dict},
    "index.jsonl": [(str, _NUMBER)],
}

JsonObject: TypeAlias = dict[str, JsonValue]


def to_disk(name: str, document: Mapping[str, JsonValue]) -> JsonObject:
    """Return a document as this version writes it into the file of that name."""
    return {"format": FORMAT, **document}


def from_disk(name: str, written: JsonObject) -> JsonObject:
    """Return what a document of any readable format says, in this version's words."""
    for upgrade in _UPGRADES.get(name, ()):
        upgrade(written)
    return {field: value for field, value in written.items() if field != "format"}


def _submitting_of_0_1(state: JsonObject) -> None:
    """Version 0.1 had only this reason for a job whose TrainJob may lack its Secrets."""
    if state.get("reason") == "is being submitted":
        state.setdefault("submitting", True)


# By file, oldest first. Each finds out whether it is needed, by the format or by what is there.
_UPGRADES: dict[str, tuple[Callable[[JsonObject], None], ...]] = {
    "state.json": (_submitting_of_0_1,),
}


def misfit(value: Any, shape: Shape, where: str = "") -> str | None:
    """Find where a value differs from what others rely on: types, keys of objects, items."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return where
        inner = [misfit(value.get(key), item, f"{where}.{key}") for key, item in shape.items()]
    elif isinstance(shape, list):
        if not isinstance(value, list):
            return where
        inner = [misfit(item, shape[0], f"{where}[{n}]") for n, item in enumerate(value)]
    elif isinstance(shape, tuple):
        found = [misfit(value, item, where) for item in shape]
        return None if None in found else found[-1]
    else:
        return None if isinstance(value, shape) else where
    return next((fault for fault in inner if fault), None)
