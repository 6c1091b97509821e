"""What goes through a worker's channel: the records that it sends, and what it is told.

They are JSON objects with a ``kind``; here are those that have more to say.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class Instruction(TypedDict):
    """What a worker is told; `address` comes with ``coordinator``."""

    kind: str
    address: NotRequired[str]


class Report(TypedDict):
    """What a rank gave to ``report()``."""

    time: float
    step: int
    total: int | None
    values: dict[str, float]


class ErrorRecord(TypedDict):
    """An exception in a rank.

    Attributes
    ----------
    traceback
        Text that starts at the cell.
    cell, cell_line
        Its label, and the line that raised it; None where the cell isn't in the traceback.
    secondary
        It says no more than that another rank is gone.
    hint
        What to do about it.
    status
        The exit code that the cell asked for.
    """

    type: str
    message: str
    traceback: str
    cell: NotRequired[str]
    cell_line: int | None
    secondary: bool
    hint: str | None
    status: NotRequired[int | None]


class Position(TypedDict):
    """Where in the cell a rank is.

    Attributes
    ----------
    cell, cell_line
        The cell's label, and the line; None where the rank is outside of the cell.
    doing
        The function that this line is in.
    frame
        The innermost frame of the user's own code, where that is not in the cell.
    seconds
        For how long it has been there, as looks once a second have it; None where that is not
        known, as of a worker of version 0.1.
    """

    cell: str
    cell_line: int | None
    doing: str | None
    frame: str | None
    seconds: float | None


class Whereabouts(TypedDict):
    """Where a rank is, with its process's state and memory in bytes; None for what is not known."""

    rank: int
    where: Position | None
    process: str | None
    memory: int | None


class ResultInfo(TypedDict):
    """A variable that was brought back, or with `error` why it was not."""

    name: str
    error: NotRequired[str]
    kind: NotRequired[str]
    type: NotRequired[str]
    size: NotRequired[int]
    format: NotRequired[Literal["plain", "pickle"]]
    has_code: NotRequired[bool]
