"""Names of numpy's dtypes that hold no objects, written and read without evaluating anything."""

from __future__ import annotations

import re
from typing import Any

from jupyter_jax_trainer.messages import worker as say

# Byte order, kind and size, as numpy writes them; dates with their unit. Objects are no part.
_SIMPLE = re.compile(
    r"\|b1|[<>|][iu][1248]|[<>]f(2|4|8|12|16)|[<>]c(8|16|24|32)|\|[SV]\d{1,9}|[<>]U\d{1,8}"
    r"|[<>][mM]8(\[\d{0,9}(Y|M|W|D|h|m|s|ms|us|μs|ns|ps|fs|as)\])?"
)
_EXTENDED = re.compile(r"bfloat16|b?complex32|float(4|6|8)_e\d[a-z0-9]{1,12}|u?int[124]")
_DEPTH = 16  # of structures in structures
_FIELDS = ("names", "formats", "offsets", "titles")


def spell_dtype(dtype: Any) -> Any:
    """Write a dtype as JSON values.

    Returns
    -------
    str or dict
        numpy's own spelling, the name of one of ml_dtypes, or the fields of a structure.

    Raises
    ------
    ValueError
        It holds objects, or can't be had back exactly.
    """
    spelled = _spell(dtype, 0)
    found = read_dtype(spelled)
    if dtype.hasobject or dtype.metadata or found != dtype or found.type is not dtype.type:
        raise ValueError(f"dtype {dtype} has no plain form")
    return spelled


def _spell(dtype: Any, depth: int) -> Any:
    if depth > _DEPTH or not dtype.itemsize:
        raise ValueError(f"dtype {dtype} has no plain form")
    if dtype.names is not None:
        known = [dtype.fields[name] for name in dtype.names]
        return {
            "names": list(dtype.names),
            "formats": [_spell(field[0], depth + 1) for field in known],
            "offsets": [field[1] for field in known],
            "titles": [field[2] if len(field) > 2 else None for field in known],
            "itemsize": dtype.itemsize,
            "aligned": dtype.isalignedstruct,
        }
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": _spell(base, depth + 1), "shape": list(shape)}
    if type(dtype).__module__.partition(".")[0] != "numpy" or not _SIMPLE.fullmatch(dtype.str):
        return dtype.name  # of ml_dtypes; numpy knows them as raw bytes only
    return dtype.str


def read_dtype(spelled: Any) -> Any:
    """Make the dtype that `spell_dtype` wrote.

    Raises
    ------
    ValueError, TypeError
        It is none of those that may be.
    """
    return _read(spelled, 0)


def _read(spelled: Any, depth: int) -> Any:
    dtype = _make(spelled, depth)
    if not dtype.itemsize:  # never written; an array of them has any shape without any data
        raise ValueError(say.EMPTY_DTYPE(dtype=str(spelled)[:80]))
    return dtype


def _make(spelled: Any, depth: int) -> Any:
    import numpy

    if isinstance(spelled, str) and _SIMPLE.fullmatch(spelled):
        return numpy.dtype(spelled)
    if isinstance(spelled, str) and _EXTENDED.fullmatch(spelled):
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, spelled))
    if not isinstance(spelled, dict) or depth > _DEPTH:
        raise ValueError(say.NO_DTYPE(dtype=str(spelled)[:80]))
    if "base" in spelled:
        shape = read_shape(spelled["shape"])
        return numpy.dtype((_read(spelled["base"], depth + 1), shape))
    names, formats, offsets, titles = (_list(spelled[key]) for key in _FIELDS)
    if not all(isinstance(name, str) for name in names) or not all(
        title is None or isinstance(title, str) for title in titles
    ):
        raise ValueError(say.FIELD_NAMES())
    fields: dict[str, Any] = {
        "names": names,
        "formats": [_read(part, depth + 1) for part in formats],
        "offsets": read_shape(offsets),
        "itemsize": read_shape([spelled["itemsize"]])[0],
    }
    if any(title is not None for title in titles):
        fields["titles"] = titles
    return numpy.dtype(fields, align=spelled["aligned"] is True)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(say.FIELDS())
    return value


def read_shape(value: Any) -> tuple[int, ...]:
    """Return a list of sizes as a tuple.

    Raises
    ------
    ValueError
        It is something else.
    """
    if not isinstance(value, list) or not all(
        type(size) is int and 0 <= size < 1 << 62 for size in value
    ):
        raise ValueError(say.NO_SHAPE(shape=str(value)[:80]))
    return tuple(value)
