"""The lines of a job directory's ``.jsonl`` files."""

# No `annotations` from `__future__`: TypedDicts would take ten times as long to import.

from typing import Any, NotRequired, TypedDict

from jupyter_jax_trainer.datatypes import MimeBundle
from jupyter_jax_trainer.worker.records import Report, Sample

# By which a follower knows which message of a log a line came from: the incarnation, and a number.
Frame = list[Any]


class Event(TypedDict):
    """Something that happened to a job; `rank` is None where it was none of them."""

    time: float
    kind: str
    message: str
    rank: NotRequired[int | None]
    frame: NotRequired[Frame]


class Metric(Report):
    """A report in ``metrics.jsonl``, with the rank that made it."""

    rank: int
    frame: NotRequired[Frame]


class Resource(Sample):
    """A sample in ``resources.jsonl``, with the rank that took it."""

    rank: int
    frame: NotRequired[Frame]


class Display(TypedDict):
    """What a rank displayed; `log_offset` is how long its log was then, in bytes."""

    log_offset: int
    data: MimeBundle
    metadata: MimeBundle
    rank: NotRequired[int]
    id: NotRequired[str]
    update: NotRequired[bool]
    frame: NotRequired[Frame]
