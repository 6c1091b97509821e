"""What several ranks have printed and displayed, grouped: what is equal is shown once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from jupyter_jax_trainer.datatypes import MimeBundle
from jupyter_jax_trainer.jobdir.state import JobState
from jupyter_jax_trainer.options.amounts import ranks_in
from jupyter_jax_trainer.states import ENDED
from jupyter_jax_trainer.text import runs_text
from jupyter_jax_trainer.views.source import Sink, Source

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.job import Job

_TOGETHER = 1.0  # seconds for which output waits for the same of other ranks
_AHEAD = 20  # items of another rank among which the same is looked for


class Pump(Protocol):
    """Gives what is new, each time it is asked."""

    def pump(self, view: Sink, snapshot: JobState) -> None:
        """Give it what is new."""


def source_of(job: Job) -> Pump:
    """Return what a cell shows of a job: the output of rank 0, or of the ranks of ``--rank``."""
    if job.spec.rank is None:
        return Source(job)
    ranks = ranks_in(job.spec.rank, job.spec.nodes)
    if len(ranks) == 1:
        return Source(job, ranks[0])
    return Grouped({rank: Source(job, rank) for rank in ranks})


@dataclass(frozen=True)
class _Line:
    """A line that a rank printed."""

    text: bytes


@dataclass(frozen=True)
class _Shown:
    """Something that a rank displayed; `name` and `update` as for `Sink.show`."""

    data: MimeBundle
    metadata: MimeBundle
    name: str | None
    update: bool

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Shown):
            return NotImplemented
        # Names are made up on each rank.
        return (self.data, self.update) == (other.data, other.update)

    __hash__ = None  # type: ignore[assignment]


_Item = _Line | _Shown


class _Queue:
    """What has come from one rank and is not shown yet, each with the time when it came."""

    def __init__(self) -> None:
        self.items: deque[tuple[float, _Item]] = deque()

    def log(self, lines: list[bytes], unfinished: bytes) -> None:
        """Take lines."""
        now = time.monotonic()
        self.items.extend((now, _Line(line)) for line in lines)

    def show(self, data: MimeBundle, metadata: MimeBundle, name: str | None, update: bool) -> None:
        """Take what was displayed; text becomes lines."""
        if data.keys() == {"text/plain"} and name is None:
            text = str(data["text/plain"]).encode(errors="backslashreplace")
            self.log(text.split(b"\n"), b"")
        else:
            self.items.append((time.monotonic(), _Shown(data, metadata, name, update)))


class Grouped:
    """Shows the output of several ranks, each line after the ranks that have printed it.

    Output waits a moment for the same output of other ranks. Those that are behind, or print
    something else, appear on their own.

    Parameters
    ----------
    sources
        What gives the output of each rank.
    """

    def __init__(self, sources: Mapping[int, Pump]) -> None:
        self._sources = sources
        self._queues = {rank: _Queue() for rank in sorted(sources)}
        self._named: dict[tuple[int, str], str] = {}

    def pump(self, view: Sink, snapshot: JobState) -> None:
        """Give to a view what is new and need not wait for other ranks."""
        for rank, queue in self._queues.items():
            self._sources[rank].pump(queue, snapshot)
        ended = snapshot["state"] in ENDED
        while (ranks := self._next(ended)) is not None:
            items = [self._queues[rank].items.popleft()[1] for rank in ranks]
            self._show(view, ranks, items)
        view.log([], b"")

    def _next(self, ended: bool) -> list[int] | None:
        """Return the ranks whose next item is to be shown, as one; None to wait."""
        heads = {rank: queue.items[0] for rank, queue in self._queues.items() if queue.items}
        if not heads:
            return None
        oldest = min(since for since, _ in heads.values())
        waits = len(heads) < len(self._queues) and not ended
        if waits and time.monotonic() - oldest < _TOGETHER:
            return None
        items = {rank: item for rank, (_, item) in heads.items()}
        first = next((item for item in items.values() if not self._comes_later(item)), None)
        if first is None:
            first = next(iter(items.values()))
        return [rank for rank, item in items.items() if item == first]

    def _comes_later(self, item: _Item) -> bool:
        """Return whether the item is further back in another rank's queue."""
        return any(
            item == later and queue.items[0][1] != item
            for queue in self._queues.values()
            for _, later in islice(queue.items, 1, _AHEAD)
        )

    def _show(self, view: Sink, ranks: list[int], items: list[_Item]) -> None:
        first = items[0]
        if isinstance(first, _Line):
            view.log([label(ranks).encode() + b" " + first.text], b"")
            return
        for rank, item in zip(ranks, items, strict=True):
            if isinstance(item, _Shown) and item.name is not None and not item.update:
                self._named[rank, item.name] = f"{ranks[0]}-{first.name}"
        name = first.name and self._named.get((ranks[0], first.name))
        if not first.update:
            view.log([label(ranks).encode()], b"")
        view.show(first.data, first.metadata, name, first.update)


def label(ranks: Iterable[int]) -> str:
    """Return what stands before the output of ranks: ``rank 2:``, ``ranks 0–3:``."""
    listed = list(ranks)
    return f"rank{'s' if len(listed) > 1 else ''} {runs_text(listed).replace('-', '–')}:"
