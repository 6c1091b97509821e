"""What pages and widgets are told, as types; `labextension/src` has the same in TypeScript.

`tests/unit/test_protocol.py` compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NotRequired, TypeAlias, TypedDict

from jupyter_jax_trainer.channel.protocol import PlaceFields
from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.jobdir.manifest import SentRecord
from jupyter_jax_trainer.jobdir.records import Event, Metric
from jupyter_jax_trainer.jobdir.rows import Row
from jupyter_jax_trainer.jobdir.state import CompiledFunction, JobState
from jupyter_jax_trainer.options.spec import SpecRecord
from jupyter_jax_trainer.profiles.summary import ProfileSummary

# A line of a log: its source (a rank, or another container), its time and its text.
TailLine = list[int | str | float | None]


class Spark(TypedDict):
    """The course of one metric: `points` are pairs of step and value."""

    name: str
    points: list[list[float]]


class JobSummary(TypedDict):
    """All that the card of a job shows.

    `sent` and `results` say in words what went to the job and came back from it, empty for
    nothing, `pulse` in a line what a running job uses or where the time of another went, and
    `remarks` what else there is to know; `awaited` tells whether a cell waits for the
    job, and `note` what is said about that. `idle_ends` tells of a cell when its session ends for
    being idle, where that is soon.
    """

    row: Row
    sent: str
    results: str
    pulse: str
    remarks: list[str]
    spark: Spark | None
    tail: list[TailLine]
    awaited: bool
    note: str | None
    idle_ends: float | None


class LogInfo(TypedDict):
    """A log of a job: a rank's number, or another container's name; its size in bytes."""

    source: int | str
    label: str
    size: int


class ShownPlan(TypedDict):
    """What a page shows of a plan."""

    runtime: str
    device: str
    devices_per_node: int
    image: NotRequired[str]
    context: NotRequired[str]
    namespace: NotRequired[str]
    note: NotRequired[str]
    trainjob: NotRequired[str]


class ShownVariable(TypedDict):
    """What a page shows of a variable of a session; see `worker.records.Variable`.

    `ranks` is None where all of them have it.
    """

    name: str
    kind: str
    type: str
    size: int | None
    sharding: str | None
    device_size: int | None
    cell: int
    deleted: bool
    ranks: list[int] | None


class ShownSave(TypedDict):
    """When the variables of a session were saved last, and which."""

    time: float
    names: list[str]


class SessionDetail(TypedDict):
    """What a page shows of a session; see `jobdir.session.SessionRecord`."""

    waiting: list[str]
    variables: list[ShownVariable]
    restarts: int
    lost: list[str]
    saved: ShownSave | None


class SessionLook(TypedDict):
    """A session as it is now, with the memory of its ranks in bytes; None where it is unknown."""

    session: SessionDetail
    memory: list[int | None]


class ShownProfile(ProfileSummary):
    """What a profile says, and whether XProf is there to say more."""

    xprof: bool


class LateRank(TypedDict):
    """How late a rank comes to a step, in seconds; as `jobdir.timing.Lateness`."""

    rank: int
    step: float
    host: float
    late: float


class Spending(TypedDict):
    """Where the time of a job goes; see `jobdir.timing`.

    `parts` are seconds by what they were spent on, in order; `goodput` is the share of steps.
    """

    parts: dict[str, float]
    goodput: float
    late: list[LateRank]
    functions: list[CompiledFunction]


class CacheUse(TypedDict):
    """What the compile cache had for all ranks, and had not; see `jobdir.parts.Compiled`."""

    hits: int
    misses: int
    saved: float


class Detail(TypedDict):
    """All that a page shows of one job, besides its log lines; `spec` lacks the environment.

    `spending` is None where the ranks have said nothing of it, and `compile_cache` also where
    there was none.
    """

    row: Row
    spec: SpecRecord
    line: str
    plan: ShownPlan
    sent: list[SentRecord]
    returns: bool
    state: JobState | None
    logs: list[LogInfo]
    code: str
    script: str | None
    session: SessionDetail | None
    spending: Spending | None
    compile_cache: CacheUse | None


class PlaceGroup(PlaceFields):
    """Ranks that are in one place."""

    ranks: list[int]


class RankPlaces(TypedDict):
    """Where the ranks of a job are, and why some could not be asked."""

    groups: list[PlaceGroup]
    notes: list[str]


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


class OptionRecord(TypedDict):
    """An option of a job; see `options.table.Option`.

    `of_cell` tells whether each cell of a session can have its own.
    """

    name: str
    flag: str
    short: str | None
    kind: str
    metavar: str | None
    help: str
    choices: list[str]
    group: str
    cluster_only: bool
    repeated: bool
    of_cell: bool
    default: JsonValue


class LineError(TypedDict):
    """What is wrong with a line; `option` is None where it is about the line as a whole."""

    option: str | None
    value: JsonValue
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
    values: dict[str, JsonValue]
    errors: list[LineError]
    ask: Amounts | None


class WrittenLine(Line):
    """A line that was changed, with the new text of its cell."""

    source: str


# -- on the WebSocket ------------------------------------------------------------------------------

# What a page asks for: JSON that nobody has checked.
Request: TypeAlias = Mapping[str, JsonValue]

# A line of a log: its position, its source, its time, its text and how many bytes it has.
RawLine: TypeAlias = list[int | str | float | None]


class AllJobs(TypedDict):
    """All jobs."""

    kind: Literal["jobs"]
    all: Literal[True]
    rows: list[Row]


class ChangedJobs(TypedDict):
    """The jobs that are new or changed, the keys of those that are gone, and when this was so."""

    kind: Literal["jobs"]
    all: Literal[False]
    rows: list[Row]
    gone: list[str]
    now: float


class JobDetail(TypedDict):
    """A job in full."""

    kind: Literal["job"]
    detail: Detail


# What the ranks of a job reported, and what happened to it; "from" is the number of the first one.
Points = TypedDict("Points", {"kind": Literal["metrics"], "from": int, "points": list[Metric]})
Events = TypedDict("Events", {"kind": Literal["events"], "from": int, "events": list[Event]})


Role: TypeAlias = Literal["rank", "least", "median", "most"]


class CourseLine(TypedDict):
    """A line in a plot of resources: a rank's, or the `least`, `median` or `most` of all.

    `points` are pairs of a time and a value.
    """

    rank: int | None
    role: Role
    points: list[list[float]]


class Course(TypedDict):
    """How the ranks used a resource; in GiB, cores, MB a second, per cent or watts."""

    name: str
    limit: float | None
    lines: list[CourseLine]


class Machine(TypedDict):
    """What the ranks of a job use; `sparks` is the memory of each in few points."""

    kind: Literal["machine"]
    courses: list[Course]
    sparks: list[list[float]]


class Here(TypedDict):
    """What is used of this machine, or of the container: cores and bytes; None if unknown."""

    kind: Literal["here"]
    cpu: float | None
    cores: float | None
    used: int | None
    limit: int | None


class Tail(TypedDict):
    """The last lines of a job."""

    kind: Literal["tail"]
    lines: list[TailLine]


class Summary(TypedDict):
    """The card of a job."""

    kind: Literal["summary"]
    summary: JobSummary


class LogList(TypedDict):
    """Which logs a job has."""

    kind: Literal["logs"]
    name: str
    logs: list[int | str]


class LogState(TypedDict):
    """How many lines a view has, and the lines that have no end yet by their sources."""

    kind: Literal["log"]
    length: int
    complete: bool
    ended: bool
    began: float
    open: dict[str, str]


class Hits(TypedDict):
    """What a search has found; `before` is the last hit before its start."""

    kind: Literal["hits"]
    count: int
    complete: bool
    near: list[int]
    before: int | None


class Hit(TypedDict):
    """One hit of a search: its position in the log, its index in the view, its number."""

    kind: Literal["hit"]
    position: int | None
    index: int | None
    number: int | None
    count: int


class Marks(TypedDict):
    """Where a search matches in texts."""

    kind: Literal["marks"]
    marks: list[list[tuple[int, int]]]


class Lines(TypedDict):
    """Lines of a view, from one on."""

    kind: Literal["lines"]
    start: int
    lines: list[RawLine]


class FullLine(TypedDict):
    """One line in full."""

    kind: Literal["line"]
    position: int
    source: int | str | None
    time: float | None
    text: str
    bytes: int


class Found(TypedDict):
    """A place in a log that was looked for; not `complete` where a later answer may differ."""

    kind: Literal["found"]
    position: int | None
    index: int | None
    complete: bool


class Alive(TypedDict):
    """Nothing, but the connection is there."""

    kind: Literal["alive"]


class Failed(TypedDict):
    """Why something can't be told."""

    kind: Literal["error"]
    message: str
    hint: str | None


Message: TypeAlias = (
    AllJobs
    | ChangedJobs
    | JobDetail
    | Points
    | Events
    | Tail
    | Machine
    | Here
    | Summary
    | LogList
    | LogState
    | Hits
    | Hit
    | Marks
    | Lines
    | FullLine
    | Found
    | Alive
    | Failed
)


class Sent(TypedDict):
    """A `Message` on its way, with all that it has.

    `id` is that of the request that it answers, as the page gave it; None where it answers none.
    """

    id: JsonValue
    kind: str
