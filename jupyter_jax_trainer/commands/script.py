"""Run a Python file as if it were a cell: ``jaxtrain run train.py -n 2``."""

from __future__ import annotations

import contextlib
import importlib
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from jupyter_jax_trainer.commands.actions import watch
from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir.manifest import Submitted
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.options.checks import shown
from jupyter_jax_trainer.options.table import Given


def run(context: Context, values: Given, words: list[str]) -> None:
    """Submit a file and watch it, unless it is to be detached.

    Parameters
    ----------
    context
        Where the command runs.
    values
        The options, checked, and the script's own ``arguments``.
    words
        The file, and the job's name where it is given.

    Raises
    ------
    JaxTrainError
        The file can't be read, the job is refused, or it fails.
    """
    from jupyter_jax_trainer import api
    from jupyter_jax_trainer.capture import capture_cell
    from jupyter_jax_trainer.options.spec import make_spec, with_name
    from jupyter_jax_trainer.views import follow as display

    path = Path(words[0])
    source = _read(path)
    arguments = values.texts("arguments")
    values.pop("arguments", None)
    spec = api.in_session(make_spec(with_name(values, words[1:]), context.defaults))
    backend, plan = api.prepare(spec)
    namespace = {"__name__": "__main__", "__file__": str(path.absolute())}
    with _first_on_the_path(path.absolute().parent):  # where Python looks for the file's modules
        capture = capture_cell(
            source,
            namespace,
            use=spec.use,
            out=spec.out,
            file=path.name,
            on_size=lambda total: backend.check_size(total, spec),
            ledger=api.ledger(backend),
        )
    api.check(spec, backend, plan, capture)
    api.say_notes(capture, allow_large=spec.allow_large)
    if spec.dry_run:
        argv = [str(path), *arguments]
        context.print(api.dry_run(spec, backend, plan, capture, stem=path.stem, argv=argv))
        return
    origin: Submitted = {"script": str(path.absolute()), "cwd": str(Path.cwd())}
    job = api.submit(
        spec,
        backend,
        plan,
        capture,
        cell=source,
        stem=path.stem,
        origin=origin,
        argv=[str(path), *arguments],
    )
    if spec.detach:
        display.announce_detached(job)
    else:
        watch(job, context)


@contextlib.contextmanager
def _first_on_the_path(directory: Path) -> Iterator[None]:
    sys.path.insert(0, str(directory))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(directory))


def _read(path: Path) -> str:
    try:
        with tokenize.open(path) as file:  # minds the file's own encoding
            return file.read()
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise UsageError(say.CANNOT_READ(file=shown(str(path)), error=reason)) from None
