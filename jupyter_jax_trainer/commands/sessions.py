"""What the commands about sessions do."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.jobdir import session as records
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.session import SessionRecord, Variable
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.options.table import Given
from jupyter_jax_trainer.text import age, counted, duration, joined, runs_text, size, table
from jupyter_jax_trainer.worker.whereabouts import look_at

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.job import Job

_MOST = 10  # names that a line lists


def session(context: Context, values: Given, words: list[str]) -> None:
    """List the sessions, or show one."""
    from jupyter_jax_trainer import sessions

    if words:
        context.print(_details(sessions.session(words[0]).job))
        return
    found = sessions.live()
    if not found:
        context.print(say.NO_SESSIONS())
        return
    rows = [_row(job, _record(job)) for job in found]
    context.print(table(rows, ("SESSION", "STATE", "NODES", "CELL", "IDLE"), context.width))


def variables(context: Context, values: Given, words: list[str]) -> None:
    """Show the variables of a session."""
    from jupyter_jax_trainer import sessions

    found = sessions.session(words[0]).vars()
    if not found:
        context.print(say.NO_VARIABLES(session=words[0]))
        return
    rows = [
        (name, one["type"], one["sharding"], _bytes(one), one["cell"], _ranks(one))
        for name, one in found.items()
        if one["kind"] != "module"
    ]
    headers = ("VARIABLE", "TYPE", "SHARDING", "PER DEVICE", "CELL", "RANKS")
    context.print(table(rows, headers, context.width))


def restart(context: Context, values: Given, words: list[str]) -> None:
    """Restart the ranks of a session."""
    from jupyter_jax_trainer import sessions

    sessions.session(words[0]).restart()
    context.print(say.SESSION_RESTARTS(session=words[0]))


def save(context: Context, values: Given, words: list[str]) -> None:
    """Save the arrays of a session."""
    from jupyter_jax_trainer import sessions

    saved = sessions.session(words[0]).save()
    names = joined(saved["names"], most=_MOST)
    context.print(say.SAVED(names=names, size=size(saved["size"])))
    if saved["left_out"]:
        context.print(say.NOT_SAVED(names=joined(saved["left_out"], most=_MOST)))


def restore(context: Context, values: Given, words: list[str]) -> None:
    """Bring back what a session has saved."""
    from jupyter_jax_trainer import sessions

    session = sessions.session(words[0])
    saved = session.restore()
    names = joined(saved["names"], most=_MOST)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(saved["time"]))
    context.print(say.RESTORED(names=names, time=when, age=age(saved["time"])))
    if missing := [name for name in saved["left_out"] if name not in session.vars()]:
        context.print(say.NOT_RESTORED(names=joined(missing, most=_MOST)))


def prolong(context: Context, values: Given, words: list[str]) -> None:
    """Let a session be idle for longer."""
    from jupyter_jax_trainer import sessions

    sessions.session(words[0]).prolong(*words[1:])
    context.print(say.SESSION_PROLONGED(session=words[0]))


def interrupt(context: Context, values: Given, words: list[str]) -> None:
    """Stop the cell that runs in a session."""
    from jupyter_jax_trainer import sessions

    sessions.session(words[0]).interrupt()
    context.print(say.SESSION_INTERRUPTED(session=words[0]))


def _record(job: Job) -> SessionRecord:
    return records.known(JobDir(job.directory))


def _row(job: Job, record: SessionRecord) -> tuple[object, ...]:
    return job.spec.session, job.state, job.spec.nodes, record["running"], _idle(record)


def _idle(record: SessionRecord) -> str | None:
    """Return for how long a session has been idle, and for how long it may be."""
    since = record["idle_since"]
    if since is None:
        return None
    spent, ends = duration(time.time() - since), record.get("idle_ends")
    if ends is None:
        return spent
    return say.IDLE_OF(spent=spent, left=duration(ends - time.time()))


def _details(job: Job) -> str:
    record = _record(job)
    rows: list[tuple[object, ...]] = [(say.SESSION(), f"{job.spec.session} ({job.state})")]
    if reason := job.reason:
        rows.append(("", reason))
    rows += _pairs(job, record)
    width = max(len(str(title)) for title, _ in rows)
    lines = [f"{title!s:<{width}}  {text}" for title, text in rows]
    ranks = [
        (rank.rank, rank.state, rank.pid, _memory(rank.pid), rank.restarts or None)
        for rank in job.ranks
    ]
    lines += ["", table(ranks, ("RANK", "STATE", "PID", "MEMORY", "RESTARTS"))]
    if cells := _last_cells(job):
        lines += ["", table(cells, ("CELL", "STATE", "AGE", "TOOK"))]
    return "\n".join(lines)


def _last_cells(job: Job) -> list[tuple[object, ...]]:
    from jupyter_jax_trainer import sessions

    found = sessions.cells_of(job)[:_MOST]
    return [(one.name, one.state, age(one.created), duration(one.elapsed)) for one in found]


def _pairs(job: Job, record: SessionRecord) -> Iterable[tuple[object, ...]]:
    if job.name != job.spec.session:
        yield say.ITS_JOB(), job.name
    if record["running"]:
        yield say.RUNS(), record["running"]
    if record["waiting"]:
        yield say.WAIT(), joined(record["waiting"], most=_MOST)
    if idle := _idle(record):
        yield say.IDLE(), idle
    known = [one for one in record["variables"].values() if one["kind"] != "module"]
    total = sum(one["size"] or 0 for one in known)
    yield say.VARIABLES(), f"{counted(len(known), 'variable')}, {size(total)}"
    if (back := record.get("restored")) is not None:
        names = joined(back["names"], most=_MOST)
        yield say.CAME_BACK(), say.AS_SAVED(names=names, age=age(back["time"]))
    if record["lost"]:
        yield say.LOST(), joined(record["lost"], most=_MOST)


def _ranks(variable: Variable) -> str | None:
    """Return which ranks have a variable, or have it from its last cell; None for all."""
    on = variable.get("bound_on") or variable.get("ranks")
    if on is None:
        return None
    only = runs_text(on)
    return only if on == variable.get("ranks") else say.DIFFERS(ranks=only)


def _bytes(variable: Variable) -> str | None:
    if variable["deleted"]:
        return say.BUFFERS_GONE()
    found = variable["device_size"] if variable["device_size"] is not None else variable["size"]
    return None if found is None else size(found)


def _memory(pid: int | None) -> str | None:
    memory = None if pid is None else look_at(pid)[1]
    return None if memory is None else size(memory)
