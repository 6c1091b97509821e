"""``jaxtrain convert``: JAXJobs in a file, TrainJobs out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.installation import install_command
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.text import plain


def convert(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """Print what the JAXJobs of a file become, and say beside it what changes.

    Those that have ended are left out, unless they are wanted, too.

    Raises
    ------
    UsageError
        The file can't be read, or holds none, or one that the training operator would refuse.
    """
    from jupyter_jax_trainer.backends.kubernetes import jaxjob
    from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import to_yaml

    (name,) = words
    jobs = [job for job in _objects(name) if job.get("kind") == "JAXJob"]
    if not jobs:
        raise UsageError(say.NO_JAXJOB(file=name))
    runtime, ended = values.get("runtime"), values.get("all", False)
    found = [jaxjob.convert(job, runtime, ended=ended) for job in jobs]
    if documents := [document for one in found for document in one.documents]:
        context.print(to_yaml(documents).rstrip("\n"))
    for job, one in zip(jobs, found, strict=True):
        print(plain(f"JAXJob {job['metadata']['name']}\n{one.report()}"), file=sys.stderr)


def _objects(name: str) -> list[Mapping[str, Any]]:
    try:
        import yaml
    except ImportError:
        raise UsageError(say.NO_YAML(), install_command("kubernetes")) from None
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        documents = [one for one in yaml.safe_load_all(text) if isinstance(one, Mapping)]
    except (OSError, UnicodeError) as error:
        raise UsageError(say.CANNOT_READ(file=name, error=error)) from None
    except yaml.YAMLError as error:
        raise UsageError(say.NOT_YAML(file=name, error=error)) from None
    lists = [one["items"] for one in documents if isinstance(one.get("items"), list)]
    return documents + [one for items in lists for one in items if isinstance(one, Mapping)]
