"""Read the plain format of results without running anything that it names.

`worker.serialization.plain` writes it.

An archive may come from somebody else, so nothing in it is believed: kinds, dtypes and classes are
looked up in lists of what may be, sizes are checked before memory is taken, and classes are those
that this process has imported already.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_jax_trainer.messages import results as say
from jupyter_jax_trainer.worker.serialization import jaxvalues, records
from jupyter_jax_trainer.worker.serialization.dtypes import read_dtype, read_shape
from jupyter_jax_trainer.worker.serialization.plain import (
    FACTORIES,
    MAX_DEPTH,
    MAX_WEIGHT,
    check_keys,
)

Buffers = Callable[[int], memoryview]
_HEX = re.compile(r"-?0x[0-9a-f]+")
# Words before the values of a node: its kind, and what belongs to that.
_HEADS = {
    "list": 1,
    "tuple": 1,
    "set": 1,
    "frozenset": 1,
    "dict": 1,
    "OrderedDict": 1,
    "defaultdict": 2,
    records.NAMED_TUPLE: 4,
    records.DATACLASS: 4,
    "key": 2,
    "ndarray": 5,
    "jax": 5,
    "scalar": 3,
    "dtype": 2,
    "bytes": 2,
    "bytearray": 2,
    "str": 2,
    "int": 2,
    "float": 2,
    "complex": 2,
}
_WITHOUT_VALUES = {
    "ndarray",
    "jax",
    "scalar",
    "dtype",
    "bytes",
    "bytearray",
    "str",
    "int",
    "float",
    "complex",
}
_WITH_DATA = {"ndarray", "jax", "bytes", "bytearray", "str"}  # in their last word
_SEQUENCES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_IMPL = 64  # characters of the name of a generator of random numbers


@dataclass(slots=True)
class _Parsed:
    """A node as it was written, and how deep and large it is."""

    words: list[Any]
    held: list[int]
    depth: int = 1
    weight: int = 1

    @property
    def kind(self) -> str:
        return str(self.words[0])


class PlainReader:
    """Reads values out of a table of nodes.

    Parameters
    ----------
    lines
        The nodes.
    buffers
        Gives a buffer that has been checked, writable; raises where it is damaged.
    """

    def __init__(self, lines: Sequence[bytes], buffers: Buffers) -> None:
        self._lines = lines
        self._buffers = buffers
        self._parsed: dict[int, _Parsed] = {}
        self._made: dict[int, Any] = {}
        self._owners: dict[int, int] = {}
        self._strange: dict[int, str] = {}
        self._classes: dict[tuple[str, str, str, tuple[str, ...]], type | None] = {}

    def read(self, value: Any) -> Any:
        """Return what a value in JSON stands for; what was read before is the same object.

        Raises
        ------
        Exception
            It is damaged, or forged.
        """
        for number in self._needed(value):
            if number not in self._made:
                self._made[number] = self._make(number, self._parsed[number].words)
        return self._inner(value)

    def buffers_of(self, value: Any) -> list[int]:
        """Name the buffers that are needed for a value."""
        nodes = (self._parsed[number] for number in self._needed(value))
        return [
            node.words[-1]
            for node in nodes
            if node.kind in _WITH_DATA and type(node.words[-1]) is int
        ]

    def strange_classes(self, value: Any) -> list[str]:
        """Name the classes of a value that are not here, so that dictionaries came instead."""
        needed = self._needed(value)
        return list(dict.fromkeys(self._strange[n] for n in needed if n in self._strange))

    # ---- the table

    def _needed(self, value: Any) -> list[int]:
        """Return the nodes that a value needs, each after those that it holds itself."""
        if type(value) is not list:
            return []
        root = _reference(value, len(self._lines))
        found: set[int] = set()
        waiting = [root]
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                if number not in self._parsed:
                    self._parsed[number] = self._parse(number)
                waiting += self._parsed[number].held
        order = sorted(found)
        for number in order:
            self._measure(self._parsed[number])
        if self._parsed[root].depth > MAX_DEPTH or self._parsed[root].weight > MAX_WEIGHT:
            raise ValueError(say.TOO_DEEP())
        return order

    def _parse(self, number: int) -> _Parsed:
        words = json.loads(self._lines[number])
        head = _HEADS.get(words[0]) if type(words) is list and words else None
        if head is None or len(words) < head:
            raise ValueError(say.UNKNOWN_NODE(number=number))
        if words[0] in _WITHOUT_VALUES and len(words) != head:
            raise ValueError(say.NODE_TOO_LONG(number=number))
        values = words[head:]
        return _Parsed(words, [_reference(v, number) for v in values if type(v) is list])

    def _measure(self, node: _Parsed) -> None:
        inside = [self._parsed[number] for number in node.held]
        values = len(node.words) - _HEADS[node.kind]
        node.depth = 1 + max((inner.depth for inner in inside), default=0)
        node.weight = 1 + values + sum(inner.weight for inner in inside)

    # ---- values

    def _inner(self, value: Any) -> Any:
        if type(value) is list:
            return self._made[value[0]]
        if value is None or type(value) in (bool, int, float, str):
            return value
        raise ValueError(say.NOT_A_VALUE(type=type(value).__name__))

    def _make(self, number: int, words: list[Any]) -> Any:
        kind = words[0]
        values = [self._inner(value) for value in words[_HEADS[kind] :]]
        if kind in _SEQUENCES:
            if kind in ("set", "frozenset"):
                check_keys(values)
            return _SEQUENCES[kind](values)
        if kind in ("dict", "OrderedDict", "defaultdict"):
            return _mapping(words, values)
        if kind in (records.NAMED_TUPLE, records.DATACLASS):
            return self._record(number, words, values)
        if kind in ("ndarray", "jax"):
            return self._array(number, words)
        if kind == "key":
            return self._key(words)
        if kind in ("bytes", "bytearray", "str"):
            data = self._data(number, words[1])
            if kind == "str":
                return str(data, "utf-8", "surrogatepass")
            return bytes(data) if kind == "bytes" else bytearray(data)
        return _leaf(words)

    def _key(self, words: list[Any]) -> Any:
        """Make a key of bits that are an array: of anything else jax would ask for attributes."""
        bits = words[2] if len(words) == 3 else None
        if type(bits) is not list or self._parsed[bits[0]].kind not in ("ndarray", "jax"):
            raise ValueError(say.KEY_OF_NO_ARRAY())
        array = self._made[bits[0]]
        if array.dtype != "uint32" or len(_text(words[1])) > _IMPL:
            raise ValueError(say.NOT_A_KEY())
        return jaxvalues.make_key(words[1], array)

    def _data(self, number: int, data: Any) -> Any:
        """Return the bytes of a node; a buffer is of one alone, or each would make a copy of it."""
        if type(data) is int:
            if self._owners.setdefault(data, number) != number:
                raise ValueError(say.BUFFER_USED_TWICE(number=data))
            return self._buffers(data)
        return bytearray(base64.b64decode(_text(data), validate=True))

    def _array(self, number: int, words: list[Any]) -> Any:
        import numpy

        dtype, shape = _item_dtype(words[1]), read_shape(words[2])
        data = self._data(number, words[4])
        if math.prod(shape) * dtype.itemsize != len(data):
            raise ValueError(say.ARRAY_SIZE())
        if words[0] == "ndarray":
            if words[3] not in ("C", "F"):
                raise ValueError(say.NOT_AN_ORDER(order=str(words[3])[:80]))
            return numpy.ndarray(shape, dtype, data, order=words[3])
        made = jaxvalues.make_array(numpy.ndarray(shape, dtype, data), words[3] is True)
        if made.dtype != dtype or made.shape != shape:
            sent, came = f"{dtype}{shape}", f"{made.dtype}{made.shape}"
            raise ValueError(say.JAX_CHANGES_ARRAY(sent=sent, made=came))
        return made

    def _record(self, number: int, words: list[Any], values: list[Any]) -> Any:
        kind, module, name, fields = words[:4]
        if type(fields) is not list or len(fields) != len(values):
            raise ValueError(say.FIELDS_DIFFER())
        key = (kind, _text(module), _text(name), tuple(_text(field) for field in fields))
        if key not in self._classes:
            found = records.find_class(module, name)
            fits = (
                found is not None
                and records.kind_of(found) == kind
                and records.field_names(found) == fields
            )
            self._classes[key] = found if fits else None
        cls = self._classes[key]
        if cls is not None:
            return records.build(cls, values)
        self._strange[number] = f"{module}.{name}"
        return dict(zip(fields, values, strict=True))


def _reference(value: list[Any], before: int) -> int:
    """Return the number of the node that a value refers to; it has to come before."""
    if len(value) != 1 or type(value[0]) is not int or not 0 <= value[0] < before:
        raise ValueError(say.NOT_A_REFERENCE(value=str(value)[:80]))
    return value[0]


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(say.NOT_A_STRING(value=str(value)[:80]))
    return value


def _item_dtype(spelled: Any) -> Any:
    """Read the dtype of an array's items: those of an array of arrays would change its shape."""
    dtype = read_dtype(spelled)
    if dtype.subdtype is not None:
        raise ValueError(say.NOT_AN_ITEM_DTYPE(dtype=dtype))
    return dtype


def _mapping(words: list[Any], values: list[Any]) -> Any:
    if len(values) % 2:
        raise ValueError(say.KEY_WITHOUT_VALUE())
    keys = values[::2]
    check_keys(keys)
    pairs: Iterator[tuple[Any, Any]] = zip(keys, values[1::2], strict=True)
    if words[0] == "defaultdict":
        return defaultdict(FACTORIES[_text(words[1])], pairs)
    return OrderedDict(pairs) if words[0] == "OrderedDict" else dict(pairs)


def _leaf(words: list[Any]) -> Any:
    """Make what fits into one line."""
    kind, what = words[0], words[1]
    if kind == "int":
        if not _HEX.fullmatch(_text(what)):
            raise ValueError(say.NOT_A_NUMBER())
        return int(what, 16)
    if kind == "float":
        return struct.unpack("<d", bytes.fromhex(_text(what)))[0]
    if kind == "complex":
        return complex(*struct.unpack("<2d", bytes.fromhex(_text(what))))
    if kind == "dtype":
        return read_dtype(what)
    return _scalar(what, words[2])


def _scalar(spelled: Any, data: Any) -> Any:
    import numpy

    dtype, content = _item_dtype(spelled), base64.b64decode(_text(data), validate=True)
    if dtype.itemsize != len(content):
        raise ValueError(say.SCALAR_SIZE())
    return numpy.ndarray((), dtype, bytearray(content))[()]
