"""What pages and widgets are told, as types; `labextension/src` has the same in TypeScript.

`tests/unit/test_protocol.py` compares the two.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from jupyter_jax_trainer.jobdir.manifest import SentRecord
from jupyter_jax_trainer.jobdir.rows import Row
from jupyter_jax_trainer.jobdir.state import JobState

# A line of a log: its source (a rank, or another container), its time and its text.
TailLine = list[int | str | float | None]


class Spark(TypedDict):
    """The course of one metric: `points` are pairs of step and value."""

    name: str
    points: list[list[float]]


class JobSummary(TypedDict):
    """All that the card of a job shows.

    `sent` and `results` say in words what went to the job and came back from it, empty for
    nothing; `awaited` tells whether a cell waits for the job, and `note` what is said about that.
    """

    row: Row
    sent: str
    results: str
    spark: Spark | None
    tail: list[TailLine]
    awaited: bool
    note: str | None


class LogInfo(TypedDict):
    """A log of a job: a rank's number, or another container's name; its size in bytes."""

    source: int | str
    label: str
    size: int


class Detail(TypedDict):
    """All that a page shows of one job, besides its log lines."""

    row: Row
    spec: dict[str, object]
    line: str
    plan: dict[str, object]
    sent: list[SentRecord]
    returns: bool
    state: JobState | None
    logs: list[LogInfo]
    code: str
    script: str | None


class PlaceGroup(TypedDict):
    """Ranks that are in one place; see `channel.protocol.RankPlace`."""

    ranks: list[int]
    state: str
    answered: bool
    cell: str | None
    line: int | None
    call: str | None
    frame: str | None
    seconds: float | None
    process: str | None
    memory: int | None


class Refusal(TypedDict):
    """Why something was not done, and what to do about it."""

    message: str
    hint: str | None


class Place(TypedDict):
    """Where jobs can run; see `backends.base.Target`."""

    id: str
    backend: str
    cluster: bool
    runtime_prefix: str | None
    label: str
    context: str | None
    namespace: str | None
    current: bool
    problem: str | None
    hint: str | None


class FindingRecord(TypedDict):
    """A finding of ``doctor``."""

    level: Literal["ok", "warning", "error"]
    title: str
    detail: str
    hint: str | None


class RuntimeRecord(TypedDict):
    """A runtime; see `runtime.Runtime`."""

    name: str
    backend: str
    device: str
    nodes: list[int]
    description: str
    python: str | None
    jax: str | None
    devices: int | None
    image: str | None
    deprecated: bool
    problem: str | None


class LineError(TypedDict):
    """What is wrong with a line; `option` is None where it is about the line as a whole."""

    option: str | None
    value: object
    message: str
    hint: str | None


class Amounts(TypedDict):
    """What a line asks for; `each` are devices of a node, `rest` amounts of all nodes, in words."""

    nodes: int
    device: str | None
    each: int | None
    rest: list[str]


class Line(TypedDict):
    """What was read in a cell; `ask` is None where something is wrong with the line."""

    found: bool
    line: str
    values: dict[str, object]
    errors: list[LineError]
    ask: Amounts | None


class WrittenLine(Line):
    """A line that was changed, with the new text of its cell."""

    source: str
