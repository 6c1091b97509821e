"""What ranks say in their logs, each message read into a type: it may be of any form.

Whoever can speak for a job can say anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, TypedDict, cast

from jupyter_jax_trainer.backends.kubernetes.submit.images import Contents
from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.jobdir.formats import Shape, misfit
from jupyter_jax_trainer.jobdir.records import Display, Frame
from jupyter_jax_trainer.jobdir.resources import problem_record, samples_record
from jupyter_jax_trainer.jobdir.state import (
    CompiledState,
    compiled_record,
    error_record,
    position_record,
    program_record,
    spent_record,
)
from jupyter_jax_trainer.worker.profiling import NAME
from jupyter_jax_trainer.worker.records import (
    ErrorRecord,
    Pace,
    Position,
    Profiled,
    Program,
    Report,
    ResultInfo,
    Sample,
    Saved,
    Spent,
    Variable,
)

_NUMBER = (int, float)
_TEXT = (str, NoneType)
_LINE = (int, NoneType)
_PROFILED: dict[str, Shape] = {
    "name": str,
    "seconds": _NUMBER,
    "files": dict,
    "left_out": dict,
    "problem": _TEXT,
}
_FORMS: dict[str, dict[str, Shape]] = {
    "reports": {
        "reports": [{"time": _NUMBER, "step": int, "total": (*_NUMBER, NoneType), "values": dict}]
    },
    "display": {"data": dict, "metadata": dict},
    "error": {"type": str, "message": str, "traceback": str, "cell_line": _LINE, "secondary": bool},
    "where": {
        "cell": str,
        "cell_line": _LINE,
        "doing": _TEXT,
        "frame": (*_TEXT, list),
        "own_frame": _TEXT,
        "compiles": _TEXT,
    },
    "result_part": {"index": int, "count": int, "size": int, "sha256": str, "data": str},
    "result_held": {"port": int, "size": int, "sha256": str, "seconds": _NUMBER},
    "result_stored": {"size": int, "sha256": str},
    "profile_part": {
        "name": str,
        "index": int,
        "count": int,
        "size": int,
        "sha256": str,
        "data": str,
    },
    "profile_held": {
        "port": int,
        "size": int,
        "sha256": str,
        "seconds": _NUMBER,
        "taken": _PROFILED,
    },
    "profiled": _PROFILED,
    "results": {"results": [{"name": str}]},
    "cached": {"problem": _TEXT},
    "began": {"cell": int},
    "ended": {"cell": int, "error": (dict, NoneType), "bound": [str], "gone": [str]},
    "saved": {"saved": dict},
    "restored": {"saved": dict, "bound": [str]},
    "held": {"cell": int, "reports": int},
    "checked": {"cell": int, "agreed": bool},
    "gone": {"exit": int, "out_of_memory": bool},
    "idle": {"seconds": _NUMBER},
    "compiled": {
        "hits": int,
        "misses": int,
        "saved": _NUMBER,
        "seconds": _NUMBER,
        "problem": _TEXT,
    },
    "resources": {"samples": [dict], "problem": _TEXT},
    "spent": {"spent": dict, "pace": (dict, NoneType)},
    "program": {"ranks": [int], "number": int, "name": str, "digest": str, "cell": str},
    "image": {"python": str, "glibc": str, "machine": str, "distributions": dict},
}
_VARIABLE: dict[str, Shape] = {
    "kind": str,
    "type": str,
    "size": _LINE,
    "sharding": _TEXT,
    "device_size": _LINE,
    "cell": int,
    "token": _TEXT,
    "deleted": bool,
}
_MORE_OF_VARIABLES = {"brought": int, "own": bool, "devices": int}  # what not all have
_SAVED: dict[str, Shape] = {
    "time": _NUMBER,
    "folder": str,
    "digest": str,
    "nodes": int,
    "names": [str],
    "left_out": [str],
    "size": int,
}
_OF_PROFILES = ("profile_part", "profile_held", "profiled")
_MOST_VARIABLES = 10_000
_RESULT: dict[str, Shape] = {"type": str, "size": int}
_MOST_OF_PROBLEM = 200  # characters
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BOUNDS = {
    "size": (0, 1 << 60),
    "port": (1, 65535),
    "seconds": (0, 1 << 31),
    "count": (1, 1 << 16),
    "index": (0, (1 << 16) - 1),
}


class File(TypedDict):
    """A file of results, by its size and its sha256."""

    size: int
    sha256: str


class Part(TypedDict):
    """A part of such a file; `data` is base64."""

    index: int
    count: int
    size: int
    sha256: str
    data: str


@dataclass(frozen=True, kw_only=True)
class Message:
    """What a rank says; of some kinds there is nothing more to it.

    Attributes
    ----------
    kind
        ``running``, ``finished``.
    incarnation, number
        Which process of the rank sent it, and its sequence number; 0 for what the reader adds.
    """

    kind: str
    incarnation: str = ""
    number: int = 0

    @property
    def frame(self) -> Frame | None:
        """Identifies the message; None for what the reader adds."""
        return [self.incarnation, self.number] if self.number else None


@dataclass(frozen=True, kw_only=True)
class Hello(Message):
    """The first message of a rank: at which port of its pod the channel is, if there is one."""

    channel: int | None


@dataclass(frozen=True, kw_only=True)
class Awaits(Message):
    """Process 1 of the rank's pod waits for the bundle, at the port where the channel is."""

    channel: int | None


@dataclass(frozen=True, kw_only=True)
class Killed(Message):
    """The rank was ended by a signal, says process 1 of its pod."""

    out_of_memory: bool


class Odd(Message):
    """A message that has another form than those of its kind."""


@dataclass(frozen=True, kw_only=True)
class Printed(Message):
    """How many lines and bytes were printed so far; None for what it does not say."""

    count: int | None
    size: int | None


@dataclass(frozen=True, kw_only=True)
class Reported(Message):
    """What was given to ``report()``."""

    reports: list[Report]


@dataclass(frozen=True, kw_only=True)
class Displayed(Message):
    """What was displayed; its `log_offset` is not known here."""

    display: Display


@dataclass(frozen=True, kw_only=True)
class Failed(Message):
    """An exception that ended the rank."""

    error: ErrorRecord


@dataclass(frozen=True, kw_only=True)
class Stopped(Message):
    """The rank ends because of another one, which has told it why; None where it has not."""

    because: int | None
    summary: str | None


@dataclass(frozen=True, kw_only=True)
class Located(Message):
    """Where the rank is."""

    where: Position


@dataclass(frozen=True, kw_only=True)
class ResultPart(Message):
    """A part of the results."""

    part: Part


@dataclass(frozen=True, kw_only=True)
class ResultHeld(Message):
    """The rank holds the results until somebody fetches them from a port, for some seconds."""

    port: int
    seconds: float
    file: File


@dataclass(frozen=True, kw_only=True)
class ResultStored(Message):
    """The results are in the store."""

    file: File


@dataclass(frozen=True, kw_only=True)
class ProfilePart(Message):
    """A part of a profile, by the name of that."""

    name: str
    part: Part


@dataclass(frozen=True, kw_only=True)
class ProfileHeld(Message):
    """The rank holds a profile until somebody fetches it from a port, for some seconds."""

    port: int
    seconds: float
    file: File
    taken: Profiled


@dataclass(frozen=True, kw_only=True)
class ProfileTaken(Message):
    """The rank has taken a profile, all parts of which have come, or says why it has not."""

    taken: Profiled


@dataclass(frozen=True, kw_only=True)
class Results(Message):
    """Which variables come back."""

    table: list[ResultInfo]


@dataclass(frozen=True, kw_only=True)
class ImageSeen(Message):
    """What the image has that the rank runs in."""

    contents: Contents


@dataclass(frozen=True, kw_only=True)
class Cached(Message):
    """The packages of the job are in the cache of its pods, or why they are not."""

    problem: str | None


@dataclass(frozen=True, kw_only=True)
class Began(Message):
    """The rank begins a cell of its session: what it prints from here on is the cell's."""

    cell: int


@dataclass(frozen=True, kw_only=True)
class Ended(Message):
    """The rank has ended a cell, with an error or none.

    Attributes
    ----------
    bound, gone
        Names that the cell has bound there, and deleted.
    variables
        Those that this rank describes.
    saved
        What rank 0 has saved of them last.
    parted
        Names that came with the cell, and those that have shared objects with what they were.
    """

    cell: int
    error: ErrorRecord | None
    bound: list[str]
    gone: list[str]
    variables: dict[str, Variable]
    saved: Saved | None
    parted: list[list[str]]


@dataclass(frozen=True, kw_only=True)
class SavedBeforeEnd(Message):
    """Rank 0 says what was saved because a pod of the session was told to terminate."""

    saved: Saved | None


@dataclass(frozen=True, kw_only=True)
class Restored(Message):
    """The rank begins with what pods before its own have saved.

    Attributes
    ----------
    bound, variables
        As of a cell.
    """

    saved: Saved | None
    bound: list[str]
    variables: dict[str, Variable]


@dataclass(frozen=True, kw_only=True)
class HeldReports(Message):
    """So many reports the rank has made of a cell that is to stop at one of them."""

    cell: int
    reports: int


@dataclass(frozen=True, kw_only=True)
class Checked(Message):
    """Whether the rank was in step with the others after a cell."""

    cell: int
    agreed: bool


@dataclass(frozen=True, kw_only=True)
class Gone(Message):
    """The rank has ended, says process 1 of its pod, which waits to restart it."""

    exit: int
    out_of_memory: bool


@dataclass(frozen=True, kw_only=True)
class Idle(Message):
    """The session ends because it has run no cell for so many seconds, says process 1."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class Compiled(Message):
    """What the rank has compiled so far, and why its cache takes nothing, if so."""

    found: CompiledState
    problem: str | None


@dataclass(frozen=True, kw_only=True)
class Sampled(Message):
    """What the rank used, and why that is not known, if so."""

    samples: list[Sample]
    problem: str | None


@dataclass(frozen=True, kw_only=True)
class TimeSpent(Message):
    """How the rank spends its time, and its pace if it takes steps."""

    spent: Spent
    pace: Pace | None


@dataclass(frozen=True, kw_only=True)
class ToCompile(Message):
    """A program that several ranks run, which the rank is about to compile."""

    program: Program


@dataclass(frozen=True, kw_only=True)
class Gap(Message):
    """So many lines and bytes are missing in the log; the reader says so, before a message."""

    kind: str = "gap"
    lines: int
    size: int


@dataclass(frozen=True, kw_only=True)
class FramesLost(Message):
    """Messages are missing, from one number to another; the reader says so."""

    kind: str = "frames_lost"
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class NodeSays(Message):
    """A line of the log that is the node's own; the reader says so."""

    kind: str = "node_says"
    text: str


def read(found: Mapping[str, JsonValue]) -> Message:
    """Read a message as `frames.Decoder` gives it; kinds that are not known have any form."""
    kind = str(found["kind"])
    said: dict[str, Any] = {"kind": kind, "incarnation": "", "number": 0}
    match found.get("frame"):
        case [str(incarnation), int(number)]:
            said |= {"incarnation": incarnation, "number": number}
    try:
        return _typed(kind, found, said) if _fits(kind, found) else Odd(**said)
    except (KeyError, TypeError):
        return Odd(**said)


def _typed(kind: str, found: Mapping[str, Any], said: dict[str, Any]) -> Message:
    """Make a message, with the fields that those of all kinds have."""
    match kind:
        case "hello":
            return Hello(channel=_port(found), **said)
        case "awaits":
            return Awaits(channel=_port(found), **said)
        case "killed":
            return Killed(out_of_memory=found.get("out_of_memory") is True, **said)
        case "lines":
            return Printed(count=_whole(found, "count"), size=_whole(found, "bytes"), **said)
        case "reports":
            return Reported(reports=cast(list[Report], found["reports"]), **said)
        case "display":
            return Displayed(display=_display(found), **said)
        case "error":
            return Failed(error=error_record(found), **said)
        case "stopped":
            told = found.get("summary")
            words = told if isinstance(told, str) else None
            return Stopped(because=_whole(found, "because"), summary=words, **said)
        case "where":
            in_log = isinstance(found.get("frame"), list)  # that of the message
            own = found.get("own_frame" if in_log else "frame")
            return Located(where=position_record({**found, "frame": own}), **said)
        case "result_part":
            return ResultPart(part=_part(found), **said)
        case "result_held":
            port, patience = found["port"], found["seconds"]
            return ResultHeld(port=port, seconds=patience, file=_file(found), **said)
        case "result_stored":
            return ResultStored(file=_file(found), **said)
        case "profile_part":
            return ProfilePart(name=found["name"], part=_part(found), **said)
        case "profile_held":
            port, patience, taken = found["port"], found["seconds"], _profiled(found["taken"])
            return ProfileHeld(port=port, seconds=patience, file=_file(found), taken=taken, **said)
        case "profiled":
            return ProfileTaken(taken=_profiled(found), **said)
        case "results":
            return Results(table=cast(list[ResultInfo], found["results"]), **said)
        case "image":
            return ImageSeen(contents=_contents(found), **said)
        case "began":
            return Began(cell=found["cell"], **said)
        case "ended":
            error, variables = found["error"], _variables(found.get("variables"))
            told = None if error is None else error_record(error)
            names = {"bound": found["bound"], "gone": found["gone"]}
            return Ended(
                cell=found["cell"],
                error=told,
                variables=variables,
                saved=_saved(found.get("saved")),
                parted=_parted(found.get("parted")),
                **names,
                **said,
            )
        case "saved":
            return SavedBeforeEnd(saved=_saved(found["saved"]), **said)
        case "restored":
            variables = _variables(found.get("variables"))
            saved, bound = _saved(found["saved"]), found["bound"]
            return Restored(saved=saved, bound=bound, variables=variables, **said)
        case "held":
            return HeldReports(cell=found["cell"], reports=found["reports"], **said)
        case "checked":
            return Checked(cell=found["cell"], agreed=found["agreed"], **said)
        case "gone":
            return Gone(exit=found["exit"], out_of_memory=found["out_of_memory"], **said)
        case "idle":
            return Idle(seconds=float(found["seconds"]), **said)
        case "resources":
            return Sampled(samples=samples_record(found), problem=problem_record(found), **said)
        case "cached":
            problem = found["problem"]
            return Cached(problem=problem and problem[:_MOST_OF_PROBLEM], **said)
        case "compiled":
            problem = found["problem"]
            return Compiled(
                found=compiled_record(found),
                problem=problem and problem[:_MOST_OF_PROBLEM],
                **said,
            )
        case "spent":
            spent, pace = spent_record(found)
            return TimeSpent(spent=spent, pace=pace, **said)
        case "program":
            return ToCompile(program=program_record(found), **said)
    return Message(**said)


def _saved(found: Any) -> Saved | None:
    right = isinstance(found, dict) and misfit(found, _SAVED) is None
    return cast(Saved, found) if right else None


def _parted(found: Any) -> list[list[str]]:
    """Return two lists of names; none where there is something else."""
    right = misfit(found, [[str]]) is None and len(found) == 2
    return cast(list[list[str]], found) if right else []


def _variables(found: object) -> dict[str, Variable]:
    """Return what is known of variables; what has another form is left out."""
    listed = found if isinstance(found, dict) else {}
    kept = [
        (name, one)
        for name, one in listed.items()
        if isinstance(one, dict) and misfit(one, _VARIABLE) is None
    ]
    return {name: _variable(one) for name, one in kept[:_MOST_VARIABLES]}


def _variable(found: Mapping[str, Any]) -> Variable:
    more = [name for name, kind in _MORE_OF_VARIABLES.items() if type(found.get(name)) is kind]
    return cast(Variable, {name: found[name] for name in (*_VARIABLE, *more)})


def _contents(found: Mapping[str, Any]) -> Contents:
    listed = found["distributions"].items()
    return Contents(
        python=found["python"],
        glibc=found["glibc"],
        machine=found["machine"],
        distributions={name: one for name, one in listed if isinstance(one, str)},
    )


def _port(found: Mapping[str, Any]) -> int | None:
    """Return the port of the channel, if there is one."""
    port = _whole(found, "channel")
    low, high = _BOUNDS["port"]
    return port if port is not None and low <= port <= high else None


def _whole(found: Mapping[str, Any], name: str) -> int | None:
    value = found.get(name)
    return value if type(value) is int else None


def _display(found: Mapping[str, Any]) -> Display:
    made: Display = {"log_offset": 0, "data": found["data"], "metadata": found["metadata"]}
    if isinstance(name := found.get("id"), str):
        made["id"] = name
    if isinstance(update := found.get("update"), bool):
        made["update"] = update
    if "frame" in found:
        made["frame"] = found["frame"]
    return made


def _profiled(found: Mapping[str, Any]) -> Profiled:
    return cast(Profiled, {field: found[field] for field in _PROFILED})


def _file(found: Mapping[str, Any]) -> File:
    return {"size": found["size"], "sha256": found["sha256"]}


def _part(found: Mapping[str, Any]) -> Part:
    return {**_file(found), "index": found["index"], "count": found["count"], "data": found["data"]}


def _fits(kind: str, found: Mapping[str, Any]) -> bool:
    """Return whether a message has the form that one of its kind has; unknown kinds have any."""
    form = _FORMS.get(kind, {})
    if misfit(found, form) is not None:
        return False
    named = found.get("taken", found) if kind in _OF_PROFILES else None
    if named is not None and not NAME.fullmatch(named["name"]):
        return False
    if kind == "results":
        return all(map(_is_result, found["results"]))
    if "sha256" in form and not _SHA256.fullmatch(found["sha256"]):
        return False
    bounds = {name: bound for name, bound in _BOUNDS.items() if name in form}
    return all(low <= found[name] <= high for name, (low, high) in bounds.items())


def _is_result(entry: Mapping[str, Any]) -> bool:
    if "error" in entry:
        return isinstance(entry["error"], str)
    return misfit(entry, _RESULT) is None and 0 <= entry["size"] <= _BOUNDS["size"][1]
