"""``manifest.json``: what was asked for, and what the backend made of it."""

# No `annotations` from `__future__`: TypedDicts would take ten times as long to import.

from typing import TYPE_CHECKING, NotRequired, TypedDict, final

from jupyter_jax_trainer.machine import Machine

if TYPE_CHECKING:
    from jupyter_jax_trainer.options.spec import SpecRecord


class SentRecord(TypedDict):
    """A variable, function or class that was sent along, or all files; its size in bytes."""

    name: str
    kind: str
    type: str
    size: int


class Plan(TypedDict):
    """What a backend made of the options; each backend has more in its own.

    `max_name` is the length that the job's name may have. Of a session, `idle` is how many seconds
    it may be idle (0 for ever), and `idle_most` how many a user may ask for.
    """

    runtime: str
    device: str
    devices_per_node: int
    note: NotRequired[str | None]
    max_name: NotRequired[int]
    idle: NotRequired[float]
    idle_most: NotRequired[float | None]


@final
class Submitted(TypedDict):
    """Where this store submitted a job: in a folder, mostly from a notebook's cell or a script."""

    cwd: str
    notebook: NotRequired[str]
    cell: NotRequired[str]
    script: NotRequired[str]


@final
class Attached(TypedDict):
    """When a job was found in a cluster, and who has signed it there."""

    attached: float  # seconds since the epoch
    signature: NotRequired[str]
    statement: NotRequired[dict[str, str]]  # what is signed (trust.signing.Statement)


class CellOf(TypedDict):
    """The session that runs a cell: its job's name and id; and the kernel that sent the cell."""

    session: str
    uid: str
    kernel: str


class Held(TypedDict):
    """How large arrays of a session are: their bytes, and the most devices that one is on."""

    size: int
    devices: int


class Manifest(TypedDict):
    """The whole of ``manifest.json``."""

    name: str
    uid: str
    backend: str
    host: str
    machine: NotRequired[str]  # since 0.2
    boot: NotRequired[str]
    created: float
    spec: "SpecRecord"
    plan: Plan
    sent: list[SentRecord]
    origin: NotRequired[Submitted | Attached]
    returns: bool
    digest: str
    python: NotRequired[str]
    package: NotRequired[str]
    maker: NotRequired[str | None]
    trainjob: NotRequired[str]  # the name in its cluster, where it has another one here
    frame_key: NotRequired[str]
    cell_of: NotRequired[CellOf]  # of a cell of a session
    kept: NotRequired[list[str]]  # what such a cell reads that its session has
    held: NotRequired[Held | None]  # how large that is
    remarks: NotRequired[list[str]]  # what its card says to the end
    binds: NotRequired[list[str]]  # what its session may have when it has run
    tokens: NotRequired[dict[str, str]]  # what stands for the content of what is sent


def machine_of(manifest: Manifest) -> Machine:
    """Return the machine that runs a job."""
    return Machine(manifest["host"], manifest.get("machine") or "", manifest.get("boot") or "")


def submitted_of(manifest: Manifest) -> Submitted | None:
    """Return where this store submitted a job; None where that is not known, or it did not."""
    origin = manifest.get("origin")
    return origin if origin and "attached" not in origin else None


def attached_of(manifest: Manifest) -> Attached | None:
    """Return when a job was found in a cluster; None where this store submitted it."""
    origin = manifest.get("origin")
    return origin if origin and "attached" in origin else None


def packages_in(manifest: Manifest) -> dict[str, str]:
    """Return the packages that were sent along: name → version."""
    return {one["name"]: one["type"] for one in manifest["sent"] if one["kind"] == "package"}
