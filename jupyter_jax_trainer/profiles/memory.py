"""Reads what was allocated on devices: pprof's ``profile.proto``, as far as jax writes it.

A reader of this one message is shorter than the package that reads them all would be heavy.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jupyter_jax_trainer.profiles.summary import Allocation

_BYTES = 64 << 20  # of a profile, unpacked
_MOST = 30  # places
_OF_LIBRARIES = ("/jax/_src/", "/jax/experimental/", "/jaxlib/")
# Numbers of fields
_SAMPLE, _LOCATION, _FUNCTION, _STRING = 2, 4, 5, 6
_LOCATIONS, _VALUES, _LABEL = 1, 2, 3


class _Field(NamedTuple):
    """A field of a message: its number, and what it has."""

    number: int
    value: int | bytes


def read(packed: bytes) -> list[Allocation]:
    """Return the places that have allocated most, and what of it is not freed.

    Raises
    ------
    ValueError
        It is no such profile, or too large.
    """
    unpacker = zlib.decompressobj(wbits=31)
    try:
        data = unpacker.decompress(packed, _BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if unpacker.unconsumed_tail:
        raise ValueError(_BYTES)
    fields = list(_fields(data))
    texts = [value.decode(errors="replace") for value in _messages(fields, _STRING)]
    functions = {}
    for message in _messages(fields, _FUNCTION):
        of = _numbers(message)
        functions[of.get(1, 0)] = (_at(texts, of.get(2, 0)), _at(texts, of.get(4, 0)))
    places: dict[int, list[tuple[str, str, int]]] = {}
    for message in _messages(fields, _LOCATION):
        own = list(_fields(message))
        lines = [_numbers(line) for line in _messages(own, 4)]
        places[_numbers(message).get(1, 0)] = [
            (*functions.get(line.get(1, 0), ("", "")), line.get(2, 0)) for line in lines
        ]
    found: dict[tuple[str, str], Allocation] = {}
    for message in _messages(fields, _SAMPLE):
        own = list(_fields(message))
        counts, device = _packed(own, _VALUES), ""
        for label in _messages(own, _LABEL):
            pair = _numbers(label)
            if _at(texts, pair.get(1, 0)) == "device":
                device = _at(texts, pair.get(2, 0))
        if not device or len(counts) != 2 or counts[1] <= 0:
            continue  # a program, for instance
        frames = [frame for place in _packed(own, _LOCATIONS) for frame in places.get(place, [])]
        where = _where(frames)
        one = found.setdefault(
            (where, device), {"where": where, "device": device, "size": 0, "count": 0}
        )
        one["count"] += counts[0]
        one["size"] += counts[1]
    return sorted(found.values(), key=lambda one: -one["size"])[:_MOST]


def _where(frames: Sequence[tuple[str, str, int]]) -> str:
    """Name the innermost frame that is not jax's own."""
    for name, file, line in frames:
        if file and not any(part in file for part in _OF_LIBRARIES):
            return f"{file.rpartition('/')[2]}:{line} in {name}" if line else f"{file} in {name}"
    return frames[0][0] if frames else ""


def _at(texts: Sequence[str], index: int) -> str:
    return texts[index] if index < len(texts) else ""


def _fields(data: bytes) -> Iterator[_Field]:
    """Yield the fields of a message in protobuf's wire format."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield _Field(key >> 3, value)
        elif kind == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError(at)
            yield _Field(key >> 3, data[at : at + size])
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(key)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number; give where it ends, too."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(at)


def _messages(fields: Sequence[_Field], number: int) -> list[bytes]:
    return [one.value for one in fields if one.number == number and isinstance(one.value, bytes)]


def _numbers(message: bytes) -> dict[int, int]:
    """Return the fields of a message that are numbers."""
    return {one.number: one.value for one in _fields(message) if isinstance(one.value, int)}


def _packed(fields: Sequence[_Field], number: int) -> list[int]:
    """Return a repeated number, packed or not."""
    found: list[int] = []
    for one in fields:
        if one.number == number:
            if isinstance(one.value, int):
                found.append(one.value)
                continue
            at = 0
            while at < len(one.value):
                value, at = _varint(one.value, at)
                found.append(value)
    return found
