"""The commands about jobs of the past: what is kept of them, and how they compare."""

from __future__ import annotations

from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.commands.which import all_named
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.options.table import Given


def keep(context: Context, values: Given, words: list[str]) -> None:
    """Mark jobs that `prune` and the bounds of the environment leave alone."""
    from jupyter_jax_trainer.jobdir.layout import JobDir

    for job in all_named(words):
        mark = JobDir(job.directory).keep
        if values.flag("off"):
            mark.unlink(missing_ok=True)
            context.print(say.NOT_KEPT(name=job.name))
        else:
            mark.touch(mode=0o600)
            context.print(say.KEPT(name=job.name))


def prune(context: Context, values: Given, words: list[str]) -> None:
    """Delete jobs that ended long ago, or as many as take too much space."""
    from jupyter_jax_trainer.commands.listing import ended_table
    from jupyter_jax_trainer.jobdir import retention
    from jupyter_jax_trainer.jobdir.files import disk_use
    from jupyter_jax_trainer.text import counted, size

    given = retention.Bounds(values.number("older_than"), values.whole("larger_than"))
    bounds = given or retention.Bounds.of_environment()
    if not bounds:
        raise UsageError(say.PRUNE_WHAT(days=retention.DAYS, bytes=retention.BYTES))
    going = retention.surplus(bounds)
    if not going:
        context.print(say.NOTHING_TO_PRUNE())
        return
    total = size(sum(disk_use(one.directory.path) for one in going))
    jobs = counted(len(going), "job")
    context.print(ended_table(going, context.width))
    if values.flag("dry_run"):
        context.print(say.WOULD_PRUNE(jobs=jobs, size=total))
        return
    answer = True if values.flag("yes") else context.ask(say.ASK_PRUNE(jobs=jobs, size=total))
    if answer is None:
        raise UsageError(say.WOULD_PRUNE(jobs=jobs, size=total))
    if answer:
        context.print(say.PRUNED(jobs=counted(sum(map(retention.remove, going)), "job")))
    else:
        context.print(say.NOTHING_DELETED())


def compare(context: Context, values: Given, words: list[str]) -> None:
    """Lay jobs beside each other."""
    from jupyter_jax_trainer.commands.listing import comparison_table
    from jupyter_jax_trainer.jobdir import comparison

    found, metric = all_named(words), values.text("metric")
    rows = comparison.compared(*found, metric=metric)
    options = comparison.differences(*found)
    context.print(comparison_table(rows, options, metric, context.width))
