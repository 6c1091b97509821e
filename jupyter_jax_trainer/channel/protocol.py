"""What is asked of a job's writer, and what it answers: a line of JSON each.

A request is ``{"version": 1, "number": 7, "ask": "where"}``, its answer ``{"version": 1,
"number": 7, "answer": ...}`` or, where it can't be given, ``"error": {"id", "message"}`` in its
place.
"""

from __future__ import annotations

import json
from typing import Literal, NotRequired, TypedDict

VERSION = 1
MAX_REQUEST = 1 << 16  # bytes of a line
MAX_ANSWER = 1 << 24

Ask = Literal["where"]


class RankPlace(TypedDict):
    """Where a rank is.

    Attributes
    ----------
    rank
        Which.
    state
        What it is doing by its own account, such as ``Running``.
    cell, line
        The label of the cell, and the line of it that runs; None outside of the cell.
    call
        The function that this line is in.
    frame
        The innermost frame that is neither of a library nor of the worker: ``model.py:12 in step``.
    seconds
        For how long it has been there.
    process
        What the kernel says of the process: ``running``, ``sleeping``, ``waiting for the disk``,
        ``stopped``, ``gone``.
    memory
        Bytes of memory that it uses.
    silent
        It has not answered in time: only `state`, `process` and `memory` are known.
    """

    rank: int
    state: str
    cell: str | None
    line: int | None
    call: str | None
    frame: str | None
    seconds: float | None
    process: str | None
    memory: int | None
    silent: bool


class Refusal(TypedDict):
    """Why something can't be answered."""

    id: str
    message: str


class Request(TypedDict):
    """A request."""

    version: int
    number: int
    ask: Ask


class Reply(TypedDict):
    """An answer."""

    version: int
    number: int
    answer: NotRequired[list[RankPlace]]
    error: NotRequired[Refusal]


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
