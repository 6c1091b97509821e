"""The summary of a job: all that its card shows, as one JSON object (docs/reference/server.md).

The server's pages, the widget and the saved notebook draw the same object.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from jupyter_jax_trainer.jobdir.describe import pulse, remarks, results_text, sent_text
from jupyter_jax_trainer.jobdir.files import LineReader, open_regular
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.records import Metric
from jupyter_jax_trainer.jobdir.rows import DAMAGED, row_of
from jupyter_jax_trainer.jobdir.session import ends_soon
from jupyter_jax_trainer.jobdir.waiting import is_waited_for
from jupyter_jax_trainer.logs.reader import is_noise, readable
from jupyter_jax_trainer.queries.protocol import JobSummary, Spark, TailLine
from jupyter_jax_trainer.states import ENDED
from jupyter_jax_trainer.text import plain

INTERVAL = 0.25  # seconds between reads: no eye follows more than four changes a second
_LINES = 5
_LINE = 4096  # bytes of a line that are read, and characters that are shown
_INDEX = 16 << 10  # bytes at the end of the index in which the last lines are looked up
_POINTS = 120


class SummaryReader:
    """Reads the summary of a job, again and again.

    Parameters
    ----------
    job
        The job.
    root
        Jupyter's root directory, below which notebooks have names; None where there is none.
    """

    def __init__(self, job: Job, root: Path | None = None) -> None:
        self._job, self._root = job, root
        self._directory = JobDir(job.directory)
        self._spark = _Spark(self._directory.metrics)

    def read(self) -> JobSummary:
        """Return the summary as it is now."""
        row = row_of(self._job, self._root)
        found: JobSummary = {
            "row": row,
            "sent": "",
            "results": "",
            "pulse": "",
            "remarks": [],
            "spark": self._spark.read(),
            "tail": tail(self._directory),
            "awaited": False,
            "note": None,
            "idle_ends": None,
        }
        if row["state"] != DAMAGED:
            manifest = self._job.manifest
            kept, held = manifest.get("kept", ()), manifest.get("held")
            found["sent"] = sent_text(manifest["sent"], kept, held)
            snapshot = self._job.snapshot()
            found["pulse"] = pulse(snapshot)
            found["remarks"] = [*manifest.get("remarks", ()), *remarks(snapshot)]
        if row["state"] in ENDED:  # results come at the end
            found["results"] = results_text(self._job.snapshot()["results"])
            if row["cell_of"] is not None:
                found["idle_ends"] = ends_soon(self._job.manifest["cell_of"], self._directory)
        elif row["active"]:
            found["awaited"], found["note"] = is_waited_for(self._directory)
        return cast(JobSummary, _harmless(found))


def _harmless(value: Any) -> Any:
    """Clean all text in it: it goes into documents, and to pages that may know no better."""
    if isinstance(value, str):
        return str(plain(value))  # a message is a string and no more, whatever encodes it
    if isinstance(value, list):
        return [_harmless(one) for one in value]
    if isinstance(value, dict):
        return {plain(name): _harmless(one) for name, one in value.items()}
    return value


class _Spark:
    """The course of the series that says most, thinned out as it grows."""

    def __init__(self, path: Path) -> None:
        self._reports = LineReader[Metric](path)
        self._name: str | None = None
        self._rank = 0
        self._points: list[list[float]] = []
        self._last: list[float] | None = None
        self._every = 1  # of how many reports one is kept
        self._count = 0

    def read(self) -> Spark | None:
        for report in self._reports.read():
            values = report["values"]
            if name := self._better(values):
                self._name, self._rank = name, report["rank"]
                self._points, self._last, self._every, self._count = [], None, 1, 0
            value = None if self._name is None else values.get(self._name)
            # JSON has no word for what is not finite, and a line no place.
            if report["rank"] == self._rank and value is not None and _is_finite(value):
                self._add(report["step"], value)
        if self._name is None or self._last is None:
            return None
        points = self._points if self._points[-1] is self._last else [*self._points, self._last]
        return {"name": self._name, "points": [list(point) for point in points]}

    def _better(self, values: dict[str, float]) -> str | None:
        """Return a series that says more than the present one: a loss, else what comes first."""
        if self._name is not None and "loss" in self._name.lower():
            return None
        finite = [name for name, value in values.items() if _is_finite(value)]
        loss = next((name for name in finite if "loss" in name.lower()), None)
        return loss or (next(iter(finite), None) if self._name is None else None)

    def _add(self, step: int, value: float) -> None:
        self._last = [step, value]
        if self._count % self._every == 0:
            self._points.append(self._last)
        self._count += 1
        if len(self._points) >= _POINTS:
            self._points, self._every = self._points[::2], 2 * self._every


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def tail(directory: JobDir, most: int = _LINES) -> list[TailLine]:
    """Return the last lines of all logs in their merged order: ``[source, time, text]``."""
    rows = _last_rows(directory.log_index)
    begins: list[int] = []
    ends: dict[Any, int] = {}
    for source, end, _ in rows:
        begins.append(ends.get(source, max(0, end - _LINE)))
        ends[source] = end
    found: deque[TailLine] = deque()
    for (source, end, time), begin in zip(reversed(rows), reversed(begins), strict=True):
        is_last = ends.pop(source, None) is not None
        lines = _ending(directory.log(source), begin, end, unfinished=is_last)
        for line in reversed(lines):
            if line.strip() and not is_noise(line):
                found.appendleft([source, time, plain(readable(line[:_LINE]))])
                if len(found) == most:
                    return list(found)
    return list(found)


def _last_rows(path: Path) -> list[tuple[int | str, int, float]]:
    rows = []
    for line in _end_of(path).split(b"\n")[:-1]:
        with contextlib.suppress(ValueError):
            match json.loads(line):
                case [int() | str() as source, int() as end, int() | float() as time]:
                    rows.append((source, end, time))
    return rows


def _end_of(path: Path) -> bytes:
    with contextlib.suppress(OSError), open_regular(path) as file:
        file.seek(max(0, path.stat().st_size - _INDEX))
        return file.read()
    return b""


def _ending(path: Path, begin: int, end: int, *, unfinished: bool) -> list[bytes]:
    """Return the lines that end in a part of a file, and the one that has no end yet if wanted."""
    begin = max(begin, end - 4 * _LINE)
    start = max(0, begin - _LINE)
    try:
        with open_regular(path) as file:
            file.seek(start)
            data = file.read(end - start)
    except OSError:
        return []
    return list(_lines(data, begin - start, unfinished))


def _lines(data: bytes, begin: int, unfinished: bool) -> Iterator[bytes]:
    at = 0
    *whole, rest = data.split(b"\n")
    for line in whole:
        at += len(line) + 1
        if at > begin:
            yield line
    if unfinished and rest:
        yield rest
