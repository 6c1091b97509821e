"""A job for other people: ``report`` and ``export``."""

from __future__ import annotations

from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.commands.which import named
from jupyter_jax_trainer.messages import sharing as say
from jupyter_jax_trainer.options.table import Given


def report(context: Context, values: Given, words: list[str]) -> None:
    """Write a job's report."""
    from jupyter_jax_trainer.sharing.report import save_report

    path = save_report(named(words), values.text("output"))
    context.print(say.WRITTEN(path=path))


def export(context: Context, values: Given, words: list[str]) -> None:
    """Write a folder that runs a job again."""
    from jupyter_jax_trainer.sharing.export import export_job

    place = export_job(named(words[:1]), *words[1:])
    context.print(say.EXPORTED(path=place))
