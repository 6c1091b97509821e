"""Find the globals of the notebook that a value reads once it is called."""

from __future__ import annotations

import types
from contextlib import suppress
from typing import Any

from jupyter_jax_trainer.capture.bindings import code_globals
from jupyter_jax_trainer.worker.serialization.describe import kind_of
from jupyter_jax_trainer.worker.serialization.pickling import Pickler

BYTES = 64 << 20


class _Enough(Exception):  # noqa: N818
    """So much has been looked at that the rest is left out."""


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
        super().__init__(_Nowhere(), on_size=self._stop_at_bound)  # type: ignore[arg-type]
        self.found: dict[str, None] = {}

    def _stop_at_bound(self, size: int) -> None:
        if size > BYTES:
            raise _Enough

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


def globals_used(value: Any) -> dict[str, None]:
    """Give the globals of the notebook that functions inside a value read when they are called."""
    scout = _Scout()
    with suppress(Exception):  # what can't be sent is refused later, with its path
        scout.dump(value)
    return scout.found
