"""The forms of what ranks say: whoever can speak for a job can say anything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import NoneType
from typing import Any

from jupyter_jax_trainer.jobdir.files import misfit

_NUMBER = (int, float)
_TEXT = (str, NoneType)
_LINE = (int, NoneType)
_FORMS: dict[str, dict[str, Any]] = {
    "reports": {
        "reports": [{"time": _NUMBER, "step": int, "total": (*_NUMBER, NoneType), "values": dict}]
    },
    "display": {"data": dict, "metadata": dict},
    "error": {"type": str, "message": str, "traceback": str, "cell_line": _LINE, "secondary": bool},
    "where": {"cell": str, "cell_line": _LINE, "doing": _TEXT},
    "result_part": {"index": int, "count": int, "size": int, "sha256": str, "data": str},
    "result_held": {"port": int, "size": int, "sha256": str, "seconds": _NUMBER},
    "result_stored": {"size": int, "sha256": str},
    "results": {"results": [{"name": str}]},
}
_RESULT = {"type": str, "size": int}
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BOUNDS = {
    "size": (0, 1 << 60),
    "port": (1, 65535),
    "seconds": (0, 1 << 31),
    "count": (1, 1 << 16),
    "index": (0, (1 << 16) - 1),
}


def fits(kind: str, message: Mapping[str, Any]) -> bool:
    """Return whether a message has the form that one of its kind has; unknown kinds have any."""
    form = _FORMS.get(kind, {})
    if misfit(message, form) is not None:
        return False
    if kind == "results":
        return all(map(_is_result, message["results"]))
    if "sha256" in form and not _SHA256.fullmatch(message["sha256"]):
        return False
    bounds = {name: bound for name, bound in _BOUNDS.items() if name in form}
    return all(low <= message[name] <= high for name, (low, high) in bounds.items())


def _is_result(entry: Mapping[str, Any]) -> bool:
    if "error" in entry:
        return isinstance(entry["error"], str)
    return misfit(entry, _RESULT) is None and 0 <= entry["size"] <= _BOUNDS["size"][1]
