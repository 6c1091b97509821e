"""What is asked of a job's writer, and what it answers: a line of JSON each.

A request is ``{"version": 1, "number": 7, "ask": "where"}``, its answer ``{"version": 1,
"number": 7, "answer": ...}``. To what it doesn't understand, the writer closes the connection.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, TypedDict

VERSION = 1
MAX_REQUEST = 1 << 16  # bytes of a line
MAX_ANSWER = 1 << 24

Ask = Literal["where"]


@dataclass(frozen=True, kw_only=True)
class RankPlace:
    """Where a rank is.

    Attributes
    ----------
    rank
        Its number.
    state
        What it last said it was doing, such as ``Running``.
    cell, line
        The label of the cell, and the line that runs; None outside the cell.
    call
        The function that the line calls; None if there is none.
    frame
        The innermost frame of the user's own code, if that is not in the cell:
        ``model.py:12 in step``.
    seconds
        How long it has been there; None if it does not answer.
    process
        The state of its process: ``running``, ``sleeping``, ``waiting for I/O``, ``stopped``; None
        if unknown.
    memory
        Bytes of memory that it uses.
    answered
        Whether it answered. A stopped rank does not, nor one in native code that holds the GIL.
    unasked
        Why it could not be asked, so that this is what it last reported; None where it was.
    """

    rank: int
    state: str
    cell: str | None = None
    line: int | None = None
    call: str | None = None
    frame: str | None = None
    seconds: float | None = None
    process: str | None = None
    memory: int | None = None
    answered: bool = False
    unasked: str | None = None

    @classmethod
    def from_json(cls, entry: PlaceRecord) -> Self:
        """Read the form of an answer; fields of later versions are left out."""
        known: dict[str, Any] = {field.name: entry.get(field.name) for field in fields(cls)}
        return cls(**known)


class PlaceFields(TypedDict):
    """What is known of a place, as JSON; see `RankPlace`."""

    state: str
    cell: str | None
    line: int | None
    call: str | None
    frame: str | None
    seconds: float | None
    process: str | None
    memory: int | None
    answered: bool


class PlaceRecord(PlaceFields):
    """A `RankPlace` as JSON."""

    rank: int
    unasked: str | None


class Request(TypedDict):
    """A request."""

    version: int
    number: int
    ask: Ask


class Reply(TypedDict):
    """An answer."""

    version: int
    number: int
    answer: list[PlaceRecord]


def read_request(line: bytes) -> Request | None:
    """Return a request; None for what is none, or of a version that is not known here."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("version") != VERSION:
        return None
    number, ask = found.get("number"), found.get("ask")
    if type(number) is not int or not 0 <= number < 1 << 53 or ask != "where":
        return None
    return {"version": VERSION, "number": number, "ask": "where"}


def write(message: Request | Reply) -> bytes:
    """Return a message as a line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
