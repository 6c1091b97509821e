"""How jobs, their details and their logs look as plain text."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jupyter_jax_trainer.channel.places import grouped
from jupyter_jax_trainer.errors import JaxTrainError, JobDirError
from jupyter_jax_trainer.jobdir import session
from jupyter_jax_trainer.jobdir.describe import compiled_text
from jupyter_jax_trainer.jobdir.failure import failed
from jupyter_jax_trainer.jobdir.files import disk_use
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.timing import (
    Lateness,
    functions_text,
    lateness,
    seconds_text,
    timeline,
    timeline_text,
)
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.options.spec import masked
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.text import (
    MAX_REASON,
    age,
    closed,
    collapse_carriage_returns,
    counted,
    duration,
    metric,
    plain,
    runs_text,
    shorten,
    size,
)
from jupyter_jax_trainer.text import table as lay_out
from jupyter_jax_trainer.trust import policy

if TYPE_CHECKING:
    from jupyter_jax_trainer.backends.base import ClusterJob
    from jupyter_jax_trainer.channel.protocol import RankPlace
    from jupyter_jax_trainer.jobdir.comparison import Compared, Point
    from jupyter_jax_trainer.jobdir.job import Job
    from jupyter_jax_trainer.jobdir.retention import Ended
    from jupyter_jax_trainer.jobdir.state import ResultInfo
    from jupyter_jax_trainer.logs.reader import LogLine
    from jupyter_jax_trainer.runtime import Runtime

_LABEL = 10
_METRICS = 4
_EVENTS = 8


@dataclass(frozen=True, slots=True)
class View:
    """What a list shows of one job."""

    name: str
    state: str
    active: bool
    age: str | None = None
    ran: str | None = None
    nodes: int | None = None
    progress: str | None = None
    reason: str | None = None
    size: str | None = None


def view(job: Job, *, sized: bool = False) -> View:
    """Look at a job; one that can't be read is a line in a list like others."""
    try:
        state = job.state
        return View(
            name=job.name,
            state=state,
            active=job.active,
            age=age(job.created),
            ran=duration(job.elapsed),
            nodes=job.spec.nodes,
            progress=progress(job),
            reason=None if state in (State.RUNNING, State.SUCCEEDED) else _clip(job.reason),
            size=size(space([job])) if sized else None,
        )
    except (JaxTrainError, KeyError, TypeError, ValueError) as error:
        reason = error.message if isinstance(error, JaxTrainError) else str(error)
        return View(name=job.name, state="damaged", active=False, reason=reason)


def views(jobs: Iterable[Job], *, all_cells: bool) -> Iterator[list[View]]:
    """Look at jobs, each with the cells of a session below it: those that have not ended, or all.

    With all of them come the sizes. Cells whose session's job was deleted are jobs like others.
    """
    found = list(jobs)
    cells: dict[str, list[Job]] = {}
    for job in found:
        if uid := _session(job):
            cells.setdefault(uid, []).append(job)
    uids = {_uid(job) for job in found} if cells else set()
    for job in found:
        if _session(job) in uids:
            continue
        own = cells.get(_uid(job) or "", [])
        whole = view(job, sized=all_cells)
        if own:
            total = size(space([job, *own])) if all_cells else None
            whole = replace(whole, progress=counted(len(own), "cell"), size=total)
        below = own if all_cells else _not_ended(job, own)
        yield [whole, *(_below(view(cell, sized=all_cells)) for cell in below)]


def _session(job: Job) -> str | None:
    with contextlib.suppress(JobDirError):
        cell_of = job.manifest.get("cell_of")
        return cell_of["uid"] if cell_of else None
    return None


def _uid(job: Job) -> str | None:
    with contextlib.suppress(JobDirError):
        return job.uid
    return None


def _not_ended(job: Job, cells: Iterable[Job]) -> list[Job]:
    """Return the cells that run or wait, as the session says: asking all of them takes long."""
    with contextlib.suppress(JobDirError):
        record = session.known(JobDir(job.directory))
        names = {record["running"], *record["waiting"]}
        return [cell for cell in cells if cell.name in names and cell.active]
    return []


def _below(cell: View) -> View:
    return replace(cell, name=f"└ {cell.name}")


def _clip(reason: str | None) -> str | None:
    return reason and shorten(reason, MAX_REASON)


def space(jobs: Iterable[Job]) -> int:
    """Count the bytes that jobs take on the disk."""
    return sum(disk_use(job.directory) for job in jobs)


def jobs_table(jobs: Iterable[View], columns: int, *, sizes: bool = False) -> str:
    """Lay out jobs, one a line."""
    headers = ["NAME", "STATE", "AGE", "TOOK", "NODES", "PROGRESS", "REASON"]
    fields = ["name", "state", "age", "ran", "nodes", "progress", "reason"]
    if sizes:
        headers.insert(5, "SIZE")
        fields.insert(5, "size")
    rows = [[getattr(job, field) for field in fields] for job in jobs]
    return lay_out(rows, headers, columns=columns)


def trainjobs_table(rows: Iterable[ClusterJob], columns: int) -> str:
    """Lay out the TrainJobs of a cluster, one a line."""
    lines = [
        (
            row.name,
            row.state,
            age(row.created) if row.created else None,
            row.nodes,
            None if row.uid else say.MADE_ELSEWHERE(),
            _clip(row.reason),
        )
        for row in rows
    ]
    return lay_out(lines, ("NAME", "STATE", "AGE", "NODES", "MADE BY", "REASON"), columns=columns)


def ended_table(found: Iterable[Ended], columns: int) -> str:
    """Lay out jobs that are to be deleted, one a line."""
    rows = [
        (one.directory.path.name, one.state, age(one.ended), size(disk_use(one.directory.path)))
        for one in found
    ]
    return lay_out(rows, ("NAME", "STATE", "ENDED", "SIZE"), columns=columns)


def comparison_table(
    rows: Sequence[Compared],
    options: dict[str, list[str]],
    metric_name: str | None,
    columns: int,
) -> str:
    """Lay out jobs beside each other, and under them the options in which they differ."""
    names = (
        [metric_name]
        if metric_name
        else list(dict.fromkeys(name for row in rows for name in row.metrics))[:_METRICS]
    )
    headers = ["JOB", "STATE", "NODES", "STEPS", "TOOK", *(name.upper() for name in names)]
    if metric_name:
        headers += ["LOWEST", "HIGHEST"]
    lines = []
    for row in rows:
        courses = [row.metrics.get(name) for name in names]
        line: list[object] = [row.job, row.state, row.nodes, row.steps, duration(row.took)]
        line += [metric(course.last) if course else None for course in courses]
        if metric_name:
            (course,) = courses
            line += [_at_step(course.lowest), _at_step(course.highest)] if course else [None, None]
        lines.append(line)
    text = lay_out(lines, headers, columns=columns)
    if options:
        differing = [(f"--{name.replace('_', '-')}", *values) for name, values in options.items()]
        heads = ("THEY DIFFER IN", *(row.job for row in rows))
        text += "\n\n" + lay_out(differing, heads, columns=columns)
    return text


def _at_step(point: Point) -> str:
    return say.AT_STEP(value=metric(point.value), step=point.step)


def runtimes_table(runtimes: Sequence[Runtime], columns: int) -> str:
    """Lay out runtimes, one a line, and under them what keeps one from being used."""
    rows = [
        (r.name, r.backend, r.device, r.devices, _span(r.nodes), r.python, r.jax, r.description)
        for r in runtimes
    ]
    headers = ("NAME", "BACKEND", "DEVICE", "DEVICES", "NODES", "PYTHON", "JAX", "DESCRIPTION")
    problems = [say.UNUSABLE_RUNTIME(name=r.name, problem=r.problem) for r in runtimes if r.problem]
    return "\n".join([lay_out(rows, headers, columns=columns), *problems])


def progress(job: Job) -> str:
    """Return a job's last report in a few words: ``120/500 24 %  loss 0.231``."""
    last = job.progress
    if last is None:
        return ""
    words = [f"{last.step}/{last.total}" if last.total else say.STEP(step=last.step)]
    if last.fraction is not None:
        words.append(f"{100 * last.fraction:.0f} %")
    words += [f"{name} {metric(value)}" for name, value in list(last.metrics.items())[:_METRICS]]
    return " ".join(words)


def details(job: Job) -> str:
    """Describe one job in full."""
    lines = [_row("Job", job.name), _row("State", job.state)]
    if job.failure is None:
        lines += [_row("", shorten(text, MAX_REASON)) for text in (job.reason, job.hint) if text]
    lines.append(_created(job.created))
    lines.append(_row("Took", duration(job.elapsed)))
    if options := masked(job.spec).to_line():
        lines.append(_row("Options", options))
    if words := progress(job):
        lines.append(_row("Progress", words))
    if words := compiled_text(job.snapshot()["ranks"]):
        lines.append(_row("XLA", words))
    if words := functions_text(job.snapshot()["ranks"]):
        lines.append(_row("", words))
    if spent := timeline(job.snapshot(), job.created, job.ended or time.time()):
        lines.append(_row("Time", timeline_text(spent)))
    lines.append(_row("Where", place(job)))
    if cell_of := job.manifest.get("cell_of"):
        lines.append(_row("Session", cell_of["session"]))
    if withheld := policy.notice(job):
        lines.append(_row("Trust", withheld))
    lines.append(_row("Directory", str(job.directory)))
    if steps := job.initializers:
        cells = [(s.name, s.state, s.exit, s.restarts or None, s.pod, s.host) for s in steps]
        lines += ["", lay_out(cells, ("BEFORE", "STATE", "EXIT", "RESTARTS", "POD", "NODE"))]
    if job.ranks:
        lines += ["", ranks_table(job)]
    if late := lateness(job.snapshot()["ranks"]):
        lines += ["", lateness_table(late)]
    if names := job.containers:
        logs = job.directory / "logs"
        sizes = [(name, size((logs / f"{name}.log").stat().st_size)) for name in names]
        lines += ["", lay_out(sizes, ("OTHER CONTAINER", "LOG"))]
    if job.sent:
        items = [(item["name"], item["type"], size(item["size"])) for item in job.sent]
        lines += ["", lay_out(items, ("SENT", "TYPE", "SIZE"))]
    if job.results_info:
        lines += ["", results_table(job)]
    if events := job.events()[-_EVENTS:]:
        lines += ["", "EVENTS"]
        for event in events:
            lines.append(f"{_clock(event['time'])}  {shorten(event['message'], MAX_REASON)}")
    if job.failure is not None:
        lines += ["", str(failed(job.name, job.failure))]
    return plain("\n".join(lines))


def places_table(places: Iterable[RankPlace]) -> str:
    """Lay out where ranks are, the smallest groups first."""
    rows = [
        (
            runs_text(group.ranks),
            group.where,
            None if group.seconds is None else duration(group.seconds),
            group.process,
            None if group.memory is None else size(group.memory),
        )
        for group in grouped(places)
    ]
    return lay_out(rows, ("RANKS", "WHERE", "FOR", "PROCESS", "MEMORY"))


def trainjob_details(row: ClusterJob, namespace: str) -> str:
    """Describe a TrainJob of which this machine has no job."""
    lines = [_row("TrainJob", row.name), _row("State", row.state)]
    lines += [_row("", shorten(text, MAX_REASON)) for text in (row.reason, row.hint) if text]
    if row.created:
        lines.append(_created(row.created))
    lines.append(_row("Nodes", str(row.nodes)))
    lines.append(_row("Namespace", namespace))
    if row.uid:
        lines += ["", say.HOW_TO_ATTACH(name=row.name)]
    else:
        lines.append(_row("Made by", say.MADE_ELSEWHERE()))
    return plain("\n".join(lines))


def _created(when: float) -> str:
    made = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
    return _row("Created", f"{made} ({age(when)} ago)")


def place(job: Job) -> str:
    """Say on what a job runs: ``this machine``, or a namespace of a cluster."""
    return job.backend.place_in_full(job.manifest)


def ranks_table(job: Job) -> str:
    """Lay out the ranks: processes of this machine, or pods of a cluster."""
    if job.backend.capabilities.clusters:
        pods = [(r.rank, r.state, r.exit, r.restarts or None, r.pod, r.host) for r in job.ranks]
        return lay_out(pods, ("RANK", "STATE", "EXIT", "RESTARTS", "POD", "NODE"))
    rows = [(r.rank, r.state, r.pid, r.exit, r.restarts or None, r.host) for r in job.ranks]
    return lay_out(rows, ("RANK", "STATE", "PID", "EXIT", "RESTARTS", "HOST"))


def lateness_table(found: Iterable[Lateness]) -> str:
    """Lay out how late each rank comes to a step."""
    rows = [
        (one.rank, seconds_text(one.step), seconds_text(one.host), seconds_text(one.late))
        for one in found
    ]
    return lay_out(rows, ("RANK", "STEP", "OUTSIDE JAX", "LATE"))


def results_table(job: Job, names: Container[str] | None = None) -> str:
    """Lay out what came back from a job, and what did not; or only some of it."""
    rows = [
        (item["name"], None, item["error"], None)
        if "error" in item
        else (item["name"], item.get("type"), size(item.get("size", 0)), result_format(item))
        for item in job.results_info
        if names is None or item["name"] in names
    ]
    return lay_out(rows, ("RESULT", "TYPE", "SIZE", "FORMAT"))


def result_format(entry: ResultInfo) -> str:
    """Return how a result is kept: version 0.1 knew pickles alone."""
    return str(entry.get("format", "pickle"))


def log_lines(lines: Iterable[LogLine], *, ranks: bool, times: bool) -> Iterator[str]:
    """Make log lines fit to show, each with its rank and its time where asked for."""
    for line in lines:
        text = plain(collapse_carriage_returns(line.text.rstrip("\r\n")))
        text = closed(text)
        clock = f"{_clock(line.time):8} " if times else ""
        yield f"{clock}[{line.rank}] {text}" if ranks else f"{clock}{text}"


def _clock(seconds: float | None) -> str:
    return "" if seconds is None else time.strftime("%H:%M:%S", time.localtime(seconds))


def _row(title: str, text: str) -> str:
    return f"{title:<{_LABEL}} {text}"


def _span(nodes: tuple[int, int]) -> str:
    low, high = nodes
    return str(low) if low == high else f"{low}-{high}"
