"""Take variables of the cell back: gather what is sharded, write what rank 0 holds.

What has a plain form goes as a table of nodes (`plain`); a pickle takes the rest, and refers to
nodes for what it shares with them.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, NoneType
from typing import Any, Literal, Self

from jupyter_jax_trainer.datatypes import JsonValue, Namespace
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import rendezvous
from jupyter_jax_trainer.worker.records import ResultInfo
from jupyter_jax_trainer.worker.serialization.archive import (
    ResultGroup,
    ResultManifest,
    write_archive,
    write_archive_to,
)
from jupyter_jax_trainer.worker.serialization.describe import type_name
from jupyter_jax_trainer.worker.serialization.pickling import Pickler
from jupyter_jax_trainer.worker.serialization.plain import (
    FORMAT,
    MEMBER,
    PICKLE,
    PLAIN,
    PlainWriter,
)

_EQUAL = "equal"
# What can be shared by two variables without anybody noticing that it no longer is.
_FIXED = (
    str,
    bytes,
    int,
    float,
    complex,
    type,
    NoneType,
    FunctionType,
    BuiltinFunctionType,
    ModuleType,
    CodeType,
)


class _ResultPickler(Pickler):
    """A pickler that refers to nodes where it can.

    Parameters
    ----------
    file
        Where it writes.
    plain
        Has the nodes; arrays that this rank does not hold in full become nodes of it.
    """

    def __init__(self, file: io.BytesIO, plain: PlainWriter) -> None:
        super().__init__(file)
        self.plain = plain
        self.references: set[int] = set()

    def persistent_id(self, obj: Any) -> Any:
        number = self.plain.reference(obj)
        if number is not None:
            self.references.add(number)
        return number

    def parts(self) -> set[int]:
        """Return the identities of what was pickled, of which a change could be seen elsewhere."""
        numpy = sys.modules.get("numpy")
        fixed = (*_FIXED, numpy.dtype) if numpy is not None else _FIXED
        return {key for key, (_, part) in self.memo.copy().items() if not isinstance(part, fixed)}


@dataclass
class _Group:
    """Pickled variables that share objects: one stream, so that they share them afterwards, too."""

    names: list[str]
    parts: set[int]
    pickler: _ResultPickler
    file: io.BytesIO

    @classmethod
    def pick(cls, names: list[str], namespace: Namespace, plain: PlainWriter) -> Self:
        file = io.BytesIO()
        pickler = _ResultPickler(file, plain)
        for name in names:
            pickler.dump(namespace[name])
        return cls(names, pickler.parts(), pickler, file)


@dataclass
class _Picked:
    """The variables that can be had, and a table that says so of each.

    Attributes
    ----------
    plain
        The nodes.
    values
        What stands for the variables that have a plain form.
    held
        The nodes of each variable.
    groups
        The other variables, in groups.
    table
        For each variable ``{name, type, size, format, has_code}``, or ``{name, error}``.
    """

    plain: PlainWriter = field(default_factory=PlainWriter)
    values: dict[str, JsonValue] = field(default_factory=dict)
    held: dict[str, set[int]] = field(default_factory=dict)
    groups: list[_Group] = field(default_factory=list)
    table: dict[str, ResultInfo] = field(default_factory=dict)

    @classmethod
    def pick(
        cls, names: Sequence[str], namespace: Namespace, pickled: frozenset[str] = frozenset()
    ) -> Self:
        """Take variables; those of `pickled` go as pickles even where they have a plain form."""
        picked = cls()
        known = dict.fromkeys(name for name in names if name in namespace)
        for name in names:
            picked.table[name] = {"name": name, "error": say.NEVER_SET(name=name)}
        rest = [name for name in known if name in pickled or not picked._add_plain(name, namespace)]
        for name in rest:
            picked._add_pickled(name, namespace)
        # What a pickle holds of objects whose class the other side may not have, it holds itself:
        # plain variables that share them go along, or they would be two afterwards.
        torn = {
            name
            for name, held in picked.held.items()
            if name in picked.values and held & picked.plain.torn
        }
        return cls.pick(names, namespace, pickled | torn) if torn else picked

    def _add_plain(self, name: str, namespace: Namespace) -> bool:
        """Add a variable without a pickle; say whether that is possible."""
        try:
            value = self.plain.write(namespace[name])
        except Exception:  # NotPlain, or what a type of the user does: the pickler has words for it
            return False
        self.values[name] = value
        own = {value[0]} if isinstance(value, list) else set()
        self.held[name] = self.plain.closure(own)
        size = self.plain.size(own) if own else len(json.dumps(value))
        self._note(name, namespace, size, PLAIN, has_code=False)
        return True

    def _add_pickled(self, name: str, namespace: Namespace) -> None:
        """Add a variable as a pickle, or the reason why it can't be had."""
        mark = self.plain.mark()
        try:
            group = _Group.pick([name], namespace, self.plain)
            size = group.pickler.total + self.plain.size(group.pickler.references)
            self._note(name, namespace, size, PICKLE, has_code=group.pickler.has_code)
        except Exception as error:
            self.plain.rollback(mark)
            kind = type(namespace[name]).__name__
            reason = say.RESULT_NOT_SENT(name=name, type=kind, error=error)
            self.table[name] = {"name": name, "error": reason}
            return
        self.held[name] = self.plain.closure(group.pickler.references)
        sharing = [other for other in self.groups if other.parts & group.parts]
        if sharing:
            names = [n for other in sharing for n in other.names] + [name]
            group = _Group.pick(names, namespace, self.plain)
        self.groups = [other for other in self.groups if other not in sharing] + [group]

    def _note(
        self,
        name: str,
        namespace: Namespace,
        size: int,
        how: Literal["plain", "pickle"],
        *,
        has_code: bool,
    ) -> None:
        self.table[name] = {
            "name": name,
            "type": type_name(namespace[name]),
            "size": size,
            "format": how,
            "has_code": has_code,
        }

    def outline(self) -> list[str]:
        """Return a line for each array that is to be gathered."""
        return [
            f"{', '.join(self._holders({part.node}))}: {part.array.dtype}{part.array.shape}"
            for part in self.plain.spread
        ]

    def _holders(self, nodes: set[int]) -> list[str]:
        return [name for name, held in self.held.items() if held & nodes]

    def drop_spread(self, reason: str) -> None:
        """Leave out the variables that hold sharded arrays, and all that shares with them."""
        lost = set(self._holders({part.node for part in self.plain.spread}))
        lost.update(n for group in self.groups if lost & set(group.names) for n in group.names)
        self.groups = [group for group in self.groups if not lost & set(group.names)]
        for name in lost:
            self.values.pop(name, None)
            said = say.RESULT_NOT_GATHERED(name=name, reason=reason)
            self.table[name] = {"name": name, "error": said}
        for part in self.plain.spread:
            self.plain.buffers[part.buffer] = memoryview(b"")
        self.plain.spread = []


def collect(
    names: Sequence[str],
    namespace: Namespace,
    rank: int,
    nodes: int,
    target: Path | io.FileIO | None,
    scope: str = "",
) -> list[ResultInfo]:
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
        This process, of how many; one where the others do not take part.
    target
        Where rank 0 writes the archive: a path, or an open file.
    scope
        Where the ranks put what they tell each other, if they do this more than once.

    Returns
    -------
    list of ResultInfo
        Of each variable ``{name, type, size, format, …}``, or ``{name, error}`` where it can't be
        had.
    """
    picked = _Picked.pick(names, namespace)
    difference = _compare(picked.outline(), rank, nodes, scope)
    if difference:
        picked.drop_spread(difference)
    elif nodes == 1 and any(not part.array.is_fully_replicated for part in picked.plain.spread):
        picked.drop_spread(say.GATHERED_BY_ALL())
    for part in picked.plain.spread:
        picked.plain.fill(part, _gather(part.array))
    table = list(picked.table.values())
    if rank == 0 and target is not None:
        _write(picked, table, target)
    return table


def _write(picked: _Picked, table: list[ResultInfo], target: Path | io.FileIO) -> None:
    """Write the archive: the nodes, then each group, with their buffers in this order."""
    members = {MEMBER: b"\n".join(node.text for node in picked.plain.nodes)}
    buffers = [buffer for buffer in picked.plain.buffers if buffer is not None]
    groups: list[ResultGroup] = []
    for number, group in enumerate(picked.groups):
        members[f"group-{number}.pkl"] = group.file.getvalue()
        groups.append(
            {
                "names": group.names,
                "first": len(buffers),
                "buffers": len(group.pickler.buffers),
            }
        )
        buffers += group.pickler.buffers
    manifest: ResultManifest = {
        "results_format": FORMAT,
        "python": list(sys.version_info[:2]),
        "plain": picked.values,
        "groups": groups,
        "results": table,
    }
    if isinstance(target, Path):
        write_archive(target, members, buffers, manifest, durable=True)
    else:
        write_archive_to(target, members, buffers, manifest)


def _compare(outline: list[str], rank: int, nodes: int, scope: str) -> str | None:
    """Compare the lists of sharded arrays of all ranks; give the difference in words, or None.

    Rank 0 decides for all, since ranks that decide differently would wait for each other. A rank
    without sharded arrays never waits.
    """
    if nodes == 1:
        return None
    digest = hashlib.sha256(json.dumps(outline).encode()).hexdigest()
    if rank != 0:
        rendezvous.exchange(f"{scope}outline", rank, digest)
        verdict = rendezvous.read(f"{scope}verdict", 0) if outline else _EQUAL
    else:
        verdict = _EQUAL if outline else say.ONLY_ON_OTHERS()
        for other in range(1, nodes) if outline else ():
            if rendezvous.read(f"{scope}outline", other) != digest:
                verdict = say.DIFFERENT_ARRAYS(rank=other)
                break
        rendezvous.exchange(f"{scope}verdict", 0, verdict)
    return None if verdict in (_EQUAL, None) else verdict


def _gather(array: Any) -> Any:
    """Bring an array that is spread over processes together, as numpy."""
    import numpy as np

    if array.is_fully_replicated:
        return np.asarray(array.addressable_data(0))
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(array, tiled=True)
