"""``jaxtrain convert``: JAXJobs in a file, TrainJobs out."""

from __future__ import annotations

import sys
from pathlib import Path

from jupyter_jax_trainer.backends import registry
from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.options.table import Given
from jupyter_jax_trainer.text import plain


def convert(context: Context, values: Given, words: list[str]) -> None:
    """Print what the JAXJobs of a file become, and say beside it what changes.

    Those that have ended are left out, unless they are wanted, too.

    Raises
    ------
    UsageError
        The file can't be read, or holds none, or one that the training operator would refuse.
    """
    (name,) = words
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise UsageError(say.CANNOT_READ(file=name, error=reason)) from None
    runtime, ended = values.text("runtime"), values.flag("all")
    found = registry.cluster().convert(text, name, runtime, ended=ended)
    if found.yaml:
        context.print(found.yaml)
    for report in found.reports:
        print(plain(report), file=sys.stderr)
