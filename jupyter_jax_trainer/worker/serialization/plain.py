"""The plain format of results: values as a table of nodes that loads without running anything.

A node is a line of JSON, ``[KIND, …]``. What it holds are values: null, true, false, numbers and
texts as they are, and ``[N]`` for node N, which always comes before it. So an object that is held
twice is one node, nothing can hold itself, and a reader needs no recursion.
docs/reference/bundle.md lists the kinds; ``plainreader`` reads them.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.serialization import jaxvalues, records
from jupyter_jax_trainer.worker.serialization.dtypes import read_dtype, spell_dtype

MEMBER = "nodes.jsonl"
PLAIN: Final = "plain"  # how a variable travels
PICKLE: Final = "pickle"
FORMAT = 2  # of results; 1 had pickles only
INLINE = 512  # bytes; larger ones are buffers of the archive
MAX_DEPTH = 100  # of values in values
MAX_WEIGHT = 50_000_000  # values in a variable, those that are held twice counted twice
MAX_TEXT = 256 << 20  # bytes of all nodes
MAX_NODES = 5_000_000
BIG = 1 << 63  # from here on, integers are written as hexadecimal text

FACTORIES: Mapping[str, Callable[[], object] | None] = {
    "None": None,
    "list": list,
    "dict": dict,
    "set": set,
    "int": int,
    "float": float,
    "str": str,
    "tuple": tuple,
    "bool": bool,
}
_SEQUENCES = (list, tuple, set, frozenset)
_MAPPINGS = (dict, OrderedDict, defaultdict)
_KEYS = (type(None), bool, int, float, complex, str, bytes)
_SHARED = {
    "list",
    "dict",
    "OrderedDict",
    "defaultdict",
    "set",
    "bytearray",
    "ndarray",
    "jax",
    "key",
    records.DATACLASS,
}


class NotPlain(Exception):  # noqa: N818
    """A value has no plain form."""


@dataclass(slots=True)
class Node:
    """One line of the table.

    Attributes
    ----------
    value
        What it stands for. It is kept, so that no other object gets its identity.
    kind, text
        The first word of the line, and the line.
    held
        The nodes that it holds.
    size
        Bytes of the line, and of its buffer.
    depth, weight
        Of what is written there; see `MAX_DEPTH` and `MAX_WEIGHT`.
    pure
        No class has to be found to read it.
    """

    value: Any
    kind: str
    text: bytes
    held: list[int]
    size: int
    depth: int
    weight: int
    pure: bool

    @property
    def shared(self) -> bool:
        """Whether others could see a change of it, or would copy what is large."""
        return self.kind in _SHARED


@dataclass(slots=True)
class Spread:
    """An array of which this process holds a part; `buffer` is to take all of it."""

    array: Any
    buffer: int
    node: int


class PlainWriter:
    """Writes values as nodes.

    Attributes
    ----------
    nodes
        The nodes.
    buffers
        Large data, without copies; None where an array is still to be gathered.
    spread
        Those arrays, in the order in which they were met.
    torn
        Objects that a pickle holds, too, and can't refer to.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.buffers: list[memoryview | None] = []
        self.spread: list[Spread] = []
        self.torn: set[int] = set()
        self._known: dict[int, int] = {}
        self._open: set[int] = set()
        self._text = 0

    def mark(self) -> tuple[int, int, int]:
        """Remember the state before a value that may fail; see `rollback`."""
        return len(self.nodes), len(self.buffers), len(self.spread)

    def rollback(self, mark: tuple[int, int, int]) -> None:
        """Forget everything since `mark`."""
        for node in self.nodes[mark[0] :]:
            del self._known[id(node.value)]
            self._text -= len(node.text)
        del self.nodes[mark[0] :], self.buffers[mark[1] :], self.spread[mark[2] :]

    def write(self, value: Any) -> Any:
        """Write a value, and give what stands for it in JSON.

        Raises
        ------
        NotPlain
            It, or something in it, has no plain form. Nothing is left of it.
        """
        mark = self.mark()
        try:
            return self._value(value)
        except BaseException:
            self.rollback(mark)
            raise

    def reference(self, value: Any) -> int | None:
        """Return the node to which a pickle can refer instead of holding `value` itself."""
        number = self._known.get(id(value))
        if number is None:
            if not _is_spread(value):
                return None
            number = self._node(value)
        node = self.nodes[number]
        if not node.shared:
            return None
        if not node.pure:
            self.torn.add(number)
            return None
        return number

    def closure(self, numbers: Iterable[int]) -> set[int]:
        """Return these nodes and all that they hold."""
        found: set[int] = set()
        waiting = list(numbers)
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                waiting += self.nodes[number].held
        return found

    def size(self, numbers: Iterable[int]) -> int:
        """Count the bytes of these nodes and of all that they hold."""
        return sum(self.nodes[number].size for number in self.closure(numbers))

    def fill(self, spread: Spread, array: Any) -> None:
        """Take an array that has been gathered."""
        self.buffers[spread.buffer] = _bytes_of(array, "C")

    # ---- values

    def _value(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int and -BIG <= value < BIG:
            return value
        if kind is float and math.isfinite(value):
            return value
        if kind is str and len(value) < INLINE and _is_text(value):
            return value
        return [self._node(value)]

    def _node(self, value: Any) -> int:
        known = self._known.get(id(value))
        if known is not None:
            return known
        if id(value) in self._open:
            raise NotPlain("it contains itself")
        if len(self._open) >= MAX_DEPTH:
            raise NotPlain("it is nested too deeply")
        self._open.add(id(value))
        try:
            return self._put(value)
        finally:
            self._open.discard(id(value))

    def _put(self, value: Any) -> int:
        kind = type(value)
        if kind in _SEQUENCES:
            if kind in (set, frozenset):
                check_keys(value)
            return self._add(value, [kind.__name__], [self._value(item) for item in value])
        if kind in _MAPPINGS:
            return self._mapping(value)
        if kind in (bytes, bytearray):
            return self._add(value, [kind.__name__, self._data(memoryview(value).cast("B"))])
        if kind is int:
            return self._add(value, ["int", hex(value)])
        if kind is float:
            return self._add(value, ["float", struct.pack("<d", value).hex()])
        if kind is complex:
            return self._add(value, ["complex", struct.pack("<2d", value.real, value.imag).hex()])
        if kind is str:
            text = value.encode("utf-8", "surrogatepass")
            return self._add(value, ["str", self._data(memoryview(text))])
        return (
            self._array(value)
            if jaxvalues.package_of(value) in ("jax", "numpy", "ml_dtypes")
            else self._record(value)
        )

    def _mapping(self, value: dict[Any, Any]) -> int:
        check_keys(value)
        head = [type(value).__name__]
        if isinstance(value, defaultdict):
            names = [name for name, made in FACTORIES.items() if made is value.default_factory]
            if not names:
                raise NotPlain("its default factory is not a built-in type")
            head += names
        parts = [self._value(part) for item in value.items() for part in item]
        return self._add(value, head, parts)

    def _record(self, value: Any) -> int:
        cls = type(value)
        kind = records.kind_of(cls)
        if kind is None or not records.is_found_elsewhere(cls):
            raise NotPlain(f"it contains an object of type {cls.__qualname__}")
        parts = records.values_of(value)
        if parts is None:
            raise NotPlain(f"an object of type {cls.__qualname__} has state beyond its fields")
        head = [kind, cls.__module__, cls.__qualname__, records.field_names(cls)]
        return self._add(value, head, [self._value(part) for part in parts])

    def _array(self, value: Any) -> int:
        import numpy

        try:
            if type(value) in (numpy.ndarray, numpy.memmap):
                return self._ndarray(value)
            if isinstance(value, numpy.generic):
                return self._scalar(value)
            if isinstance(value, numpy.dtype):
                return self._add(value, ["dtype", spell_dtype(value)])
            jax = sys.modules.get("jax")
            if jax is not None and isinstance(value, jax.Array):
                return self._jax_array(jax, value)
        except (ValueError, TypeError) as error:
            raise NotPlain(str(error)) from None
        return self._record(value)

    def _ndarray(self, array: Any) -> int:
        import numpy

        dtype = spell_dtype(array.dtype)
        order = "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else None
        plain = numpy.ascontiguousarray(array) if order is None else array
        data = self._data(_bytes_of(plain, order or "C"))
        return self._add(array, ["ndarray", dtype, list(array.shape), order or "C", data])

    def _scalar(self, value: Any) -> int:
        import numpy

        data = value.tobytes()
        dtype = spell_dtype(value.dtype)
        again = numpy.ndarray((), read_dtype(dtype), bytearray(data))[()]
        if type(again) is not type(value) or again.tobytes() != data:
            raise NotPlain(f"{type(value).__name__} can't be restored exactly")
        return self._add(value, ["scalar", dtype, _base64(data)])

    def _jax_array(self, jax: Any, array: Any) -> int:
        import numpy

        if isinstance(array, jax.core.Tracer) or array.is_deleted():
            raise NotPlain("it can't be read")  # the pickler has words for it
        if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
            bits = self._value(jax.random.key_data(array))
            return self._add(array, ["key", str(jax.random.key_impl(array))], [bits])
        dtype = spell_dtype(array.dtype)
        data: int | str
        if _is_spread(array):
            data = len(self.buffers)
            self.buffers.append(None)
            self.spread.append(Spread(array, data, len(self.nodes)))
        else:
            data = self._data(_bytes_of(numpy.asarray(array), "C"))
        weak = bool(getattr(array, "weak_type", False))
        return self._add(array, ["jax", dtype, list(array.shape), weak, data])

    # ---- nodes

    def _data(self, view: memoryview) -> int | str:
        """Keep bytes: the number of their buffer, or the text of a few."""
        if view.nbytes < INLINE:
            return _base64(view)
        self.buffers.append(view)
        return len(self.buffers) - 1

    def _add(self, value: Any, head: Sequence[Any], values: Sequence[Any] = ()) -> int:
        held = [item[0] for item in values if type(item) is list]
        inside = [self.nodes[number] for number in held]
        weight = 1 + len(values) + sum(node.weight for node in inside)
        depth = 1 + max((node.depth for node in inside), default=0)
        text = json.dumps([*head, *values], separators=(",", ":")).encode()
        self._text += len(text)
        self._known[id(value)] = len(self.nodes)
        size = len(text)
        if head[0] in ("ndarray", "jax"):
            size += value.nbytes
        elif head[0] in ("bytes", "bytearray", "str"):
            size += len(value)
        pure = all(node.pure for node in inside) and head[0] not in (
            records.NAMED_TUPLE,
            records.DATACLASS,
        )
        self.nodes.append(Node(value, head[0], text, held, size, depth, weight, pure))
        if (
            weight > MAX_WEIGHT
            or depth > MAX_DEPTH
            or self._text > MAX_TEXT
            or len(self.nodes) > MAX_NODES
        ):
            raise NotPlain("it is too large for the plain format")
        return len(self.nodes) - 1


def _is_text(value: str) -> bool:
    """Return whether a text can go as it is: single surrogates would join others."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_keys(keys: Iterable[Any]) -> None:
    """See to it that what is hashed when it is read runs no code of a class."""
    for key in keys:
        kind = type(key)
        if kind in (tuple, frozenset):
            check_keys(key)
        elif kind not in _KEYS and kind.__module__ not in ("numpy", "ml_dtypes"):
            raise NotPlain(say.KEY_TYPE(type=kind.__qualname__))


def _is_spread(value: Any) -> bool:
    """Return whether a value is an array of which other processes hold parts."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array) and not value.is_fully_addressable


def _bytes_of(array: Any, order: str) -> memoryview:
    """Return an array's bytes without a copy; not every dtype has a buffer format of its own."""
    import numpy

    plain: Any = numpy.asarray(array)
    if not plain.flags.c_contiguous and not plain.flags.f_contiguous:
        plain = numpy.ascontiguousarray(plain)
    return memoryview(plain.reshape(-1, order=order).view(numpy.uint8))


def _base64(data: bytes | memoryview) -> str:
    return base64.b64encode(data).decode()
