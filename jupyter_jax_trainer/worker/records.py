"""What goes through a worker's channel: the records that it sends, and what it is told.

They are JSON objects with a ``kind``; here are those that have more to say.
"""

# No `annotations` from `__future__`: TypedDicts would take ten times as long to import.

from typing import Literal, NotRequired, TypedDict


class Instruction(TypedDict):
    """What a worker is told.

    Attributes
    ----------
    address
        Comes with ``coordinator``.
    cell
        The number of a session's cell, with ``cell``, ``check``, ``hold``, ``stop_at`` and
        ``interrupt``.
    reports
        The number of the report at which a cell stops, with ``stop_at``.
    name, bundle, digest
        Come with ``cell``: the name of its job, and what to run.
    log, result
        Come with it on this machine: the files for what it prints and gives back.
    seconds
        Comes with ``profile``, and `name`, that of the profile: for how long.
    home
        Comes with it on this machine: the folder of the profiles of its job.
    to, order
        Come in pods: for which process of a rank it is, and its place among all that this is told.
    """

    kind: str
    address: NotRequired[str]
    cell: NotRequired[int]
    reports: NotRequired[int]
    name: NotRequired[str]
    bundle: NotRequired[str]
    digest: NotRequired[str]
    log: NotRequired[str]
    result: NotRequired[str]
    seconds: NotRequired[float]
    home: NotRequired[str]
    to: NotRequired[str | None]
    order: NotRequired[int]


class Variable(TypedDict):
    """A variable of a session, as the first rank has it that bound it last.

    Attributes
    ----------
    kind, type
        ``array`` and ``float32[60000,784]``, for instance.
    size, device_size
        Bytes of an array, or of those in a tree, and the most that one device has of them; None of
        what has none.
    sharding
        How an array is spread.
    cell
        The number of the cell that bound it last.
    token
        Stands for what a notebook sent last under this name; None if none did.
    deleted
        It has no values: its buffers were donated to a call, or the call that computes it failed.
    brought, own
        The number of the cell that brought it last from a notebook; and whether the session has
        assigned it since.
    devices
        The most devices that an array of it is on.
    ranks
        The ranks that have it, where not all do.
    bound_on
        Those on which that cell bound it, where others have it from before.
    """

    kind: str
    type: str
    size: int | None
    sharding: str | None
    device_size: int | None
    cell: int
    token: str | None
    deleted: bool
    brought: NotRequired[int]
    own: NotRequired[bool]
    devices: NotRequired[int]
    ranks: NotRequired[list[int]]
    bound_on: NotRequired[list[int]]


class Report(TypedDict):
    """What a rank gave to ``report()``."""

    time: float
    step: int
    total: int | None
    values: dict[str, float]


class DeviceSample(TypedDict):
    """What a device of a rank had at a time; None for what it does not say.

    Attributes
    ----------
    memory, peak, limit
        Bytes in use, the most that were in use so far, and the most that jax may use.
    use
        Part of the time in which it computed, between 0 and 1.
    power
        Watts.
    """

    memory: int | None
    peak: int | None
    limit: int | None
    use: float | None
    power: float | None


class HeldArray(TypedDict):
    """An array in memory: the variable that has it, if one does, its type, and bytes here."""

    name: str | None
    type: str
    size: int


class Usage(TypedDict):
    """What a process uses of its machine; None for what is not known.

    Attributes
    ----------
    cpu, cores
        Cores in use, and how many it may use.
    memory
        Bytes of it with the processes that it has started.
    used, limit
        Bytes in use, by whomever, of the bytes that the container or the machine has.
    received, sent
        Bytes a second over the network: of the pod, or of the machine.
    read, written
        Bytes a second from and to disks.
    """

    cpu: float | None
    cores: float | None
    memory: int | None
    used: int | None
    limit: int | None
    received: float | None
    sent: float | None
    read: float | None
    written: float | None


class Sample(Usage):
    """The resources that a rank used at a time.

    Attributes
    ----------
    devices
        Those that say something.
    arrays
        The largest ones; there where memory is short.
    """

    time: float
    devices: list[DeviceSample]
    arrays: NotRequired[list[HeldArray]]


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
    waits
        Whether it waits in jax for what other ranks have to do, too; false where that is not known.
    meets
        Whether it waits for the others in the check after a cell, and could do nothing else; false
        where that is not known.
    compiles
        The function that it compiles; None for none.
    """

    cell: str
    cell_line: int | None
    doing: str | None
    frame: str | None
    seconds: float | None
    waits: NotRequired[bool]
    meets: NotRequired[bool]
    compiles: NotRequired[str | None]


# What a rank spends its time with while a cell runs. ``steps`` is all time in jax: its own work and
# the wait for others; ``data`` is code that loads it, as far as it is known by its place or name;
# ``host`` is all other code. While it is in one of `OUTSIDE`, a rank can come to no collective.
KINDS = ("importing", "compiling", "data", "host", "steps", "checkpoints")
OUTSIDE = ("data", "host")
Spent = dict[str, float]  # seconds, by these kinds


class Pace(TypedDict):
    """How the last steps of a rank went: half a minute of them, or those that there were.

    Attributes
    ----------
    steps
        How many: reports.
    seconds
        How long they took.
    host
        How much of that the rank was outside of jax, and could come to no collective.
    """

    steps: int
    seconds: float
    host: float


PROGRAMS = 1_000  # of which a rank tells at most


class Program(TypedDict):
    """A program that several processes run, which a rank is about to compile.

    Attributes
    ----------
    ranks
        The processes that run it.
    number
        Its place among those of these processes that the rank has compiled.
    runs
        It is compiled to be run now, not ahead of time.
    name, digest
        The function, and a hash of what it was lowered to.
    cell, cell_line
        The cell's label, and the line; None where the rank is outside of the cell.
    """

    ranks: list[int]
    number: int
    runs: bool
    name: str
    digest: str
    cell: str
    cell_line: int | None


class Whereabouts(TypedDict):
    """Where a rank is, with its process's state and memory in bytes; None for what is not known."""

    rank: int
    where: Position | None
    process: str | None
    memory: int | None


class Saved(TypedDict):
    """What a session has saved of its variables.

    Attributes
    ----------
    time
        When, in seconds since the epoch.
    folder
        Where in `checkpoint_dir()`.
    digest
        The sha256 of what ranks have written by themselves.
    nodes
        How many ranks there were.
    names, left_out
        Variables that were saved, and those that were not: only arrays are.
    size
        Bytes of the arrays.
    """

    time: float
    folder: str
    digest: str
    nodes: int
    names: list[str]
    left_out: list[str]
    size: int


class Profiled(TypedDict):
    """A profile that a rank has taken.

    Attributes
    ----------
    name
        That of the profile in its job.
    seconds
        For how long.
    files, left_out
        The sizes of its files, and of those that were too large to be kept.
    problem
        Why there is none.
    """

    name: str
    seconds: float
    files: dict[str, int]
    left_out: dict[str, int]
    problem: str | None


RESULT_VARIABLE = "JAXTRAIN_RESULT"  # names the file that a local job's results go into


class ResultInfo(TypedDict):
    """A variable that was brought back, or with `error` why it was not."""

    name: str
    error: NotRequired[str]
    kind: NotRequired[str]
    type: NotRequired[str]
    size: NotRequired[int]
    format: NotRequired[Literal["plain", "pickle"]]
    has_code: NotRequired[bool]
