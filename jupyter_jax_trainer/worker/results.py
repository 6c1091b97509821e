"""Take variables of the cell back: gather what is sharded, write what rank 0 holds."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jupyter_jax_trainer.worker import rendezvous
from jupyter_jax_trainer.worker.archive import write_archive
from jupyter_jax_trainer.worker.describe import type_name
from jupyter_jax_trainer.worker.pickling import Pickler

_EQUAL = "equal"


class _ResultPickler(Pickler):
    """A pickler that leaves arrays which this rank does not hold in full to be gathered.

    Attributes
    ----------
    sharded
        These arrays, in the order in which they were met.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.sharded: list[Any] = []

    def persistent_id(self, obj: Any) -> Any:
        jax = sys.modules.get("jax")
        if jax is None or not isinstance(obj, jax.Array) or obj.is_fully_addressable:
            return None
        for index, known in enumerate(self.sharded):
            if known is obj:
                return index
        self.sharded.append(obj)
        return len(self.sharded) - 1


class _Picked:
    """One variable: its pickle, its buffers, the arrays to gather, or why it can't be had."""

    def __init__(self, name: str, namespace: dict[str, Any]) -> None:
        self.name = name
        self.type = ""
        self.error: str | None = None
        self.stream = b""
        self.buffers: list[memoryview] = []
        self.sharded: list[Any] = []
        self.has_code = False
        if name not in namespace:
            self.error = f"the cell never set {name!r}"
            return
        file = io.BytesIO()
        pickler = _ResultPickler(file)
        try:
            self.type = type_name(namespace[name])
            pickler.dump(namespace[name])
        except Exception as error:
            self.error = f"{name!r} ({type(namespace[name]).__name__}) can't be sent: {error}"
            return
        self.stream = file.getvalue()
        self.buffers = pickler.buffers
        self.has_code = pickler.has_code
        self.sharded = pickler.sharded

    def outline(self) -> list[str]:
        return [f"{self.name}: {array.dtype}{array.shape}" for array in self.sharded]


def collect(
    names: Sequence[str], namespace: dict[str, Any], rank: int, nodes: int, path: Path | None
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
    path
        Where rank 0 writes the archive.

    Returns
    -------
    list of dict
        ``{name, type, size}``, or ``{name, error}`` for those that can't be had.
    """
    picked = [_Picked(name, namespace) for name in names]
    outline = [line for variable in picked for line in variable.outline()]
    difference = _compare(outline, rank, nodes)
    for variable in picked:
        if variable.sharded and difference:
            variable.error = f"{variable.name!r} can't be gathered: {difference}"
    arrays = {
        variable.name: [_gather(array) for array in variable.sharded]
        for variable in picked
        if not variable.error
    }
    if rank != 0 or path is None:
        return []
    return _write(picked, arrays, path)


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


def _write(
    picked: list[_Picked], arrays: dict[str, list[Any]], path: Path
) -> list[dict[str, Any]]:
    """Write the archive: per variable its pickle and a pickle of the gathered arrays."""
    members: dict[str, bytes] = {}
    buffers: list[memoryview] = []
    table: list[dict[str, Any]] = []
    for variable in picked:
        if variable.error:
            table.append({"name": variable.name, "error": variable.error})
            continue
        file = io.BytesIO()
        pickler = Pickler(file)
        pickler.dump(arrays[variable.name])
        own = [*pickler.buffers, *variable.buffers]
        members[f"{variable.name}.arrays"] = file.getvalue()
        members[f"{variable.name}.pkl"] = variable.stream
        size = len(variable.stream) + len(file.getvalue()) + sum(b.nbytes for b in own)
        table.append({
            "name": variable.name,
            "type": variable.type,
            "size": size,
            "arrays": len(pickler.buffers),
            "buffers": len(own),
            "has_code": variable.has_code,
        })
        buffers += own
    python = list(sys.version_info[:2])
    write_archive(path, members, buffers, {"python": python, "results": table})
    return table
