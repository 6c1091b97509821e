"""Code without line numbers, as the end of a loop over a `with` statement is."""

from __future__ import annotations

from types import FunctionType

_NO_LOCATION = 0xFF  # for eight units of byte code, in a table of lines


def without_lines(function: FunctionType) -> None:
    """Take the line numbers away from a function."""
    code = function.__code__
    table = bytes([_NO_LOCATION]) * len(code.co_code)
    function.__code__ = code.replace(co_linetable=table)
