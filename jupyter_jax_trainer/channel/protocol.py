"""What is asked of a job's writer, and what it answers: a line of JSON each.

A request is ``{"version": 1, "number": 7, "ask": "where"}``, its answer ``{"version": 1,
"number": 7, "answer": ...}``; with ``refused`` the answer says why it was not done. To what it
doesn't understand, the writer closes the connection.

``run`` comes with an open file, the lock of the cell's job: whoever runs the cell holds it.
"""

# No `annotations` from `__future__`: TypedDicts would take ten times as long to import.

import json
import math
import re
from dataclasses import dataclass, fields
from typing import Any, Literal, NotRequired, Self, TypedDict, cast, get_args

VERSION = 1
MAX_REQUEST = 1 << 16  # bytes of a line
MAX_ANSWER = 1 << 24

Ask = Literal["where", "run", "restart", "prolong", "profile"]
_JOB = re.compile("[a-z0-9-]{1,63}")


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
    def from_json(cls, entry: "PlaceRecord") -> Self:
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
    """A request.

    `cell` is the name of the job that ``run`` is about; `seconds` for how long ``prolong`` lets a
    session be idle, 0 for ever, or how long a ``profile`` is.
    """

    version: int
    number: int
    ask: Ask
    cell: NotRequired[str]
    seconds: NotRequired[float]


class ProfileName(TypedDict):
    """A profile that is being taken, and the job that gets it: of a session, the cell that runs."""

    job: str
    name: str


class Reply(TypedDict):
    """An answer."""

    version: int
    number: int
    answer: list[PlaceRecord]
    profile: NotRequired[ProfileName]
    refused: NotRequired[str]


def read_request(line: bytes) -> Request | None:
    """Return a request; None for what is none, or of a version that is not known here."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("version") != VERSION:
        return None
    number, ask, cell = found.get("number"), found.get("ask"), found.get("cell")
    if type(number) is not int or not 0 <= number < 1 << 53 or ask not in get_args(Ask):
        return None
    request: Request = {"version": VERSION, "number": number, "ask": cast(Ask, ask)}
    if ask == "run":
        if not isinstance(cell, str) or not _JOB.fullmatch(cell):
            return None
        request["cell"] = cell
    if ask == "profile" or (ask == "prolong" and "seconds" in found):
        seconds = found.get("seconds")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            return None
        if not 0 <= seconds < math.inf:
            return None
        request["seconds"] = float(seconds)
    return request


def write(message: Request | Reply) -> bytes:
    """Return a message as a line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
