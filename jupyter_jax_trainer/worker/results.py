"""Take variables of the cell back: gather what is sharded, write what rank 0 holds."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, NoneType
from typing import Any, Self

from jupyter_jax_trainer.worker import rendezvous
from jupyter_jax_trainer.worker.archive import write_archive, write_archive_to
from jupyter_jax_trainer.worker.describe import type_name
from jupyter_jax_trainer.worker.pickling import Pickler

_EQUAL = "equal"
# What can be shared by two variables without anybody noticing that it no longer is.
_FIXED = (str, bytes, int, float, complex, type, NoneType, FunctionType, BuiltinFunctionType,
          ModuleType, CodeType)


class _ResultPickler(Pickler):
    """A pickler that leaves arrays which this rank does not hold in full to be gathered.

    Parameters
    ----------
    file
        Where it writes.
    sharded
        These arrays, in the order in which they were met; grows.
    """

    def __init__(self, file: io.BytesIO, sharded: list[Any]) -> None:
        super().__init__(file)
        self.sharded = sharded

    def persistent_id(self, obj: Any) -> Any:
        jax = sys.modules.get("jax")
        if jax is None or not isinstance(obj, jax.Array) or obj.is_fully_addressable:
            return None
        for index, known in enumerate(self.sharded):
            if known is obj:
                return index
        self.sharded.append(obj)
        return len(self.sharded) - 1

    def parts(self) -> set[int]:
        """Give the identities of what was pickled, of which a change could be seen elsewhere."""
        numpy = sys.modules.get("numpy")
        fixed = (*_FIXED, numpy.dtype) if numpy is not None else _FIXED
        return {key for key, (_, part) in self.memo.copy().items() if not isinstance(part, fixed)}


@dataclass
class _Group:
    """Variables that share objects: one stream, so that they share them afterwards, too."""

    names: list[str]
    parts: set[int]
    pickler: _ResultPickler
    file: io.BytesIO

    @classmethod
    def pick(cls, names: list[str], namespace: dict[str, Any], sharded: list[Any]) -> Self:
        file = io.BytesIO()
        pickler = _ResultPickler(file, sharded)
        for name in names:
            pickler.dump(namespace[name])
        return cls(names, pickler.parts(), pickler, file)


@dataclass
class _Picked:
    """The variables that can be had, in groups, and a table that says so of each.

    Attributes
    ----------
    groups
        The groups.
    table
        For each variable ``{name, type, size, has_code}``, or ``{name, error}``.
    sharded
        Arrays that are to be gathered.
    outline
        A line for each of them.
    """

    groups: list[_Group] = field(default_factory=list)
    table: list[dict[str, Any]] = field(default_factory=list)
    sharded: list[Any] = field(default_factory=list)
    outline: list[str] = field(default_factory=list)

    def add(self, name: str, namespace: dict[str, Any]) -> None:
        """Add a variable, or the reason why it can't be had."""
        if name not in namespace:
            self.table.append({"name": name, "error": f"the cell never set {name!r}"})
            return
        value, before = namespace[name], len(self.sharded)
        try:
            kind = type_name(value)
            group = _Group.pick([name], namespace, self.sharded)
        except Exception as error:
            del self.sharded[before:]
            reason = f"{name!r} ({type(value).__name__}) can't be sent: {error}"
            self.table.append({"name": name, "error": reason})
            return
        spread = self.sharded[before:]
        self.outline += [f"{name}: {array.dtype}{array.shape}" for array in spread]
        self.table.append({
            "name": name,
            "type": kind,
            "size": group.pickler.total + sum(array.nbytes for array in spread),
            "has_code": group.pickler.has_code,
            "spread": bool(spread),
        })
        sharing = [other for other in self.groups if other.parts & group.parts]
        if sharing:
            names = [n for other in sharing for n in other.names] + [name]
            group = _Group.pick(names, namespace, self.sharded)
        self.groups = [other for other in self.groups if other not in sharing] + [group]

    def drop_spread(self, reason: str) -> None:
        """Leave out the variables that hold sharded arrays, and all that shares with them."""
        lost = {entry["name"] for entry in self.table if entry.get("spread")}
        lost.update(n for group in self.groups if lost & set(group.names) for n in group.names)
        self.groups = [group for group in self.groups if not lost & set(group.names)]
        self.table = [
            {"name": entry["name"], "error": f"{entry['name']!r} can't be gathered: {reason}"}
            if entry["name"] in lost and "error" not in entry else entry
            for entry in self.table
        ]
        self.sharded = []


def collect(
    names: Sequence[str],
    namespace: dict[str, Any],
    rank: int,
    nodes: int,
    target: Path | io.FileIO | None,
) -> list[dict[str, Any]]:
    """Gather variables over all ranks and write them on rank 0.

    Every rank calls this with the same names. First each rank lists the arrays that are sharded
    over processes; only when all lists are equal are they gathered, in that order, so that ranks
    that hold different things give an error instead of a deadlock.

    Parameters
    ----------
    names
        The variables.
    namespace
        The cell's namespace.
    rank, nodes
        This process, of how many.
    target
        Where rank 0 writes the archive: a path, or an open file.

    Returns
    -------
    list of dict
        ``{name, type, size, …}`` of each variable, or ``{name, error}`` where it can't be had.
    """
    picked = _Picked()
    for name in names:
        picked.add(name, namespace)
    difference = _compare(picked.outline, rank, nodes)
    if difference:
        picked.drop_spread(difference)
    arrays = [_gather(array) for array in picked.sharded]
    if rank == 0 and target is not None:
        _write(picked, arrays, target)
    return picked.table


def _write(picked: _Picked, arrays: list[Any], target: Path | io.FileIO) -> None:
    """Write the archive: the gathered arrays, then each group, with their buffers in this order."""
    file = io.BytesIO()
    gathered = Pickler(file)
    gathered.dump(arrays)
    members = {"arrays.pkl": file.getvalue()}
    buffers = list(gathered.buffers)
    groups = []
    for number, group in enumerate(picked.groups):
        members[f"group-{number}.pkl"] = group.file.getvalue()
        groups.append({"names": group.names, "buffers": len(group.pickler.buffers)})
        buffers += group.pickler.buffers
    manifest = {
        "python": list(sys.version_info[:2]),
        "array_buffers": len(gathered.buffers),
        "groups": groups,
        "results": picked.table,
    }
    if isinstance(target, Path):
        write_archive(target, members, buffers, manifest)
    else:
        write_archive_to(target, members, buffers, manifest)


def _compare(outline: list[str], rank: int, nodes: int) -> str | None:
    """Compare the lists of sharded arrays of all ranks; give the difference in words, or None.

    Rank 0 decides for all, since ranks that decide differently would wait for each other. A rank
    without sharded arrays never waits.
    """
    if nodes == 1:
        return None
    digest = hashlib.sha256(json.dumps(outline).encode()).hexdigest()
    if rank != 0:
        rendezvous.exchange("outline", rank, digest)
        verdict = rendezvous.read("verdict", 0) if outline else _EQUAL
    else:
        verdict = _EQUAL if outline else "rank 0 holds no sharded arrays, others do"
        for other in range(1, nodes) if outline else ():
            if rendezvous.read("outline", other) != digest:
                verdict = f"ranks 0 and {other} hold different sharded arrays"
                break
        rendezvous.exchange("verdict", 0, verdict)
    return None if verdict in (_EQUAL, None) else verdict


def _gather(array: Any) -> Any:
    """Bring an array that is spread over processes together, as numpy."""
    import numpy as np

    if array.is_fully_replicated:
        return np.asarray(array.addressable_data(0))
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(array, tiled=True)
