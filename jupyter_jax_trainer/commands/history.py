"""The commands about jobs of the past: what is kept of them, and how they compare."""

from __future__ import annotations

from typing import Any

from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.commands.which import all_named
from jupyter_jax_trainer.errors import UsageError


def keep(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """Mark jobs that `prune` and the bounds of the environment leave alone."""
    from jupyter_jax_trainer.jobdir.layout import JobDir

    for job in all_named(words):
        mark = JobDir(job.directory).keep
        if values.get("off"):
            mark.unlink(missing_ok=True)
            context.print(f"Job {job.name} is no longer kept.")
        else:
            mark.touch(mode=0o600)
            context.print(f"Job {job.name} is kept: only `delete {job.name}` removes it.")


def prune(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """Delete jobs that ended long ago, or as many as take too much space."""
    from jupyter_jax_trainer.commands.listing import ended_table
    from jupyter_jax_trainer.jobdir import retention
    from jupyter_jax_trainer.jobdir.files import disk_use
    from jupyter_jax_trainer.text import size

    given = retention.Bounds(values.get("older_than"), values.get("larger_than"))
    bounds = given or retention.Bounds.of_environment()
    if not bounds:
        raise UsageError(
            "prune needs to know what may stay.",
            f"For instance: prune --older-than 30d. {retention.DAYS} and {retention.BYTES} can set "
            "it for good.",
        )
    going = retention.surplus(bounds)
    if not going:
        context.print("There is nothing to delete.")
        return
    total = size(sum(disk_use(one.directory.path) for one in going))
    what = f"{len(going)} job{'s' * (len(going) > 1)} with logs, results and checkpoints, {total}"
    context.print(ended_table(going, context.width))
    if values.get("dry_run"):
        context.print(f"This would delete {what}.")
        return
    answer = True if values.get("yes") else context.ask(f"Delete {what}?")
    if answer is None:
        raise UsageError(f"This would delete {what}.", "If that is meant, add --yes.")
    gone = sum(map(retention.remove, going)) if answer else 0
    context.print(f"{gone} job{'s' * (gone != 1)} deleted." if answer else "Nothing was deleted.")


def compare(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """Lay jobs beside each other."""
    from jupyter_jax_trainer.commands.listing import comparison_table
    from jupyter_jax_trainer.jobdir import comparison

    found, metric = all_named(words), values.get("metric")
    rows = comparison.compare(*found, metric=metric)
    options = comparison.differences(*found)
    context.print(comparison_table(rows, options, metric, context.width))
