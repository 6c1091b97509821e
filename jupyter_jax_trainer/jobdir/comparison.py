"""Compare jobs by what they reported, running or ended, here or on a cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir import layout
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.resources import quantities
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.options.spec import JobSpec, masked
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.worker.reporting import RESERVED

_OWN = ("job", "state", "nodes", "steps", "took", "options")  # what a row has of the job itself

Number: TypeAlias = int | float


@dataclass(frozen=True, slots=True)
class Point:
    """A value of a metric, and the step that had it."""

    value: Number
    step: int


@dataclass(frozen=True, slots=True)
class Course:
    """What a job has reported of a metric."""

    last: Number
    lowest: Point
    highest: Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A job beside others.

    Attributes
    ----------
    took
        Seconds.
    options
        Those that are not at their defaults, without what may be secret.
    metrics
        Each as the first rank that reports it has it.
    """

    job: str
    state: State
    nodes: int
    steps: int | None
    took: float
    options: dict[str, str]
    metrics: dict[str, Course]

    def flat(self) -> dict[str, str | Number | dict[str, str] | None]:
        """Return the row of `compare`."""
        row: dict[str, str | Number | dict[str, str] | None] = {
            name: getattr(self, name) for name in _OWN
        }
        for name, course in self.metrics.items():
            for end, point in (("min", course.lowest), ("max", course.highest)):
                row[f"{name}_{end}"], row[f"{name}_{end}_step"] = point.value, point.step
        # Last, as a metric may be called like another one's extreme.
        for name, course in self.metrics.items():
            row[key(name)] = course.last
        return row


def metrics(*jobs: Job | str, resources: bool = False) -> list[dict[str, str | Number]]:
    """Return the reports of several jobs, a flat dictionary for each.

    Parameters
    ----------
    *jobs
        Jobs, or their names as `jobs` lists them: ``fit`` is the first run, ``fit-2`` the second.
    resources
        Also what the ranks used of their machines, under names that begin with ``jaxtrain/``; these
        lines have no step.

    Returns
    -------
    list of dict
        ``{job, rank, step, time, loss, ...}``, as for ``pandas.DataFrame``.

    Examples
    --------
    >>> frame = pandas.DataFrame(metrics("fit", "fit-2"))              # doctest: +SKIP
    >>> frame.pivot_table("loss", "step", "job").plot()                # doctest: +SKIP
    """
    chosen = [_job(job) for job in jobs]
    return _reported(chosen) + (_used(chosen) if resources else [])


def _reported(jobs: Sequence[Job]) -> list[dict[str, str | Number]]:
    return [
        {
            "job": job.name,
            "rank": line["rank"],
            "step": line["step"],
            "time": line["time"],
            **{name: _number(value) for name, value in line["values"].items()},
        }
        for job in jobs
        for line in job.metrics()
    ]


def _used(jobs: Sequence[Job]) -> list[dict[str, str | Number]]:
    return [
        {
            "job": job.name,
            "rank": line["rank"],
            "time": line["time"],
            **{f"{RESERVED}{name}": value for name, value in quantities(line).items()},
        }
        for job in jobs
        for line in job.resources()
    ]


def compare(
    *jobs: Job | str, metric: str | None = None
) -> list[dict[str, str | Number | dict[str, str] | None]]:
    """Compare jobs: a flat dictionary for each, with equal keys for equal metrics.

    Parameters
    ----------
    *jobs
        Jobs, or their names as `jobs` lists them: ``fit`` is the first run, ``fit-2`` the second.
    metric
        Only this metric.

    Returns
    -------
    list of dict
        ``job``, ``state``, ``nodes``, ``steps``, ``took`` (seconds), ``options``, and for each
        metric its last value under its name (see `key`), its ``_min`` and ``_max``, and their steps
        ``_min_step`` and ``_max_step``. Values are those of the first rank that reports the metric.

    Raises
    ------
    UsageError
        No job has reported that metric.
    """
    return [one.flat() for one in compared(*jobs, metric=metric)]


def compared(*jobs: Job | str, metric: str | None = None) -> list[Compared]:
    """Compare jobs as `compare` does."""
    found = [(job, _series(job)) for job in map(_job, jobs)]
    known = {name for _, series in found for name in series}
    if metric is not None and metric not in known:
        if not known:
            raise UsageError(say.NO_METRICS())
        listed = ", ".join(sorted(known))
        raise UsageError(say.METRIC_NOT_REPORTED(metric=metric, known=listed))
    return [
        Compared(
            job=job.name,
            state=job.state,
            nodes=job.spec.nodes,
            steps=job.steps,
            took=job.elapsed,
            options=_options(masked(job.spec)),
            metrics={
                name: _course(points) for name, points in series.items() if metric in (None, name)
            },
        )
        for job, series in found
    ]


def key(metric: str) -> str:
    """Return where a row of `compare` has a metric: beside one of its own names, ``took_``."""
    return f"{metric}_" if metric in _OWN else metric


def differences(*jobs: Job | str) -> dict[str, list[str]]:
    """Return the options in which jobs differ, each with its values in the order of the jobs.

    What may be secret is masked, with a number where it differs: ``TOKEN=… (1)``.
    """
    specs = [_job(job).spec for job in jobs]
    given, shown = map(_options, specs), (_options(masked(spec)) for spec in specs)
    pairs = list(zip(given, shown, strict=True))
    names = dict.fromkeys(name for one, _ in pairs for name in one)
    found = {
        name: [(one.get(name, ""), mask.get(name, "")) for one, mask in pairs] for name in names
    }
    return {name: _told_apart(pairs) for name, pairs in found.items() if len(set(pairs)) > 1}


def _told_apart(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return what may be shown of values, numbered where different ones look alike."""
    alike: dict[str, list[str]] = {}
    for value, shown in dict.fromkeys(pairs):
        alike.setdefault(shown, []).append(value)
    return [
        f"{shown} ({alike[shown].index(value) + 1})" if len(alike[shown]) > 1 else shown
        for value, shown in pairs
    ]


def _job(job: Job | str) -> Job:
    # Not the newest of that name: runs of one cell are what is compared most.
    return Job(layout.find(job)) if isinstance(job, str) else job


def _course(series: Sequence[Point]) -> Course:
    # A value that is no number any more is neither the least nor the greatest.
    numbers = [point for point in series if not math.isnan(point.value)] or series[-1:]
    return Course(
        last=series[-1].value,
        lowest=min(numbers, key=lambda point: point.value),
        highest=max(numbers, key=lambda point: point.value),
    )


def _series(job: Job) -> dict[str, list[Point]]:
    """Return the values of each metric, in the order of the reports."""
    found: dict[str, tuple[int, list[Point]]] = {}
    for line in job.metrics():
        for name, value in line["values"].items():
            rank, series = found.get(name, (line["rank"], []))
            if line["rank"] < rank:
                rank, series = line["rank"], []
            if line["rank"] == rank:
                series.append(Point(_number(value), line["step"]))
            found[name] = (rank, series)
    return {name: series for name, (_, series) in found.items()}


def _number(value: object) -> Number:
    """Return a number; those that JSON does not have were written as their names."""
    try:
        return value if isinstance(value, int) else float(str(value))
    except ValueError:
        return math.nan


def _options(spec: JobSpec) -> dict[str, str]:
    return {
        name: " ".join(map(_word, value)) if isinstance(value, tuple) else str(value)
        for name, value in spec.given().items()
        if name != "name"
    }


def _word(item: Any) -> str:
    return "=".join(item) if isinstance(item, tuple) else str(item)
