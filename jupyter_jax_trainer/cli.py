"""The command line: ``jaxtrain COMMAND``, the words of ``%jaxtrain`` in a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from jupyter_jax_trainer.errors import (
    JaxTrainError,
    JobDetached,
    JobFailed,
    JobNotFound,
    UsageError,
)
from jupyter_jax_trainer.jobdir.store import about_the_store

OK, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns
    -------
    int
        0 when it worked, 1 when the job failed or something could not be done, 2 when the words
        are wrong.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["--version"]:
        from jupyter_jax_trainer import __version__

        print(f"jaxtrain {__version__}")
        return OK
    from jupyter_jax_trainer.commands import Context, run_command

    context = Context(print=_print, ask=_ask, width=shutil.get_terminal_size((100, 24)).columns)
    try:
        with about_the_store():
            run_command(words, context)
        sys.stdout.flush()
    except JobDetached as detached:
        _print(str(detached))
    except (UsageError, JobNotFound) as error:
        return _fail(error, WRONG_USE)
    except JobFailed as error:
        return _fail(error, FAILED)
    except JaxTrainError as error:
        return _fail(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # `jaxtrain logs | head`: the reader has what it wanted. Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED if context.failed else OK


def _print(text: str) -> None:
    try:
        print(text, flush=True)
    except UnicodeEncodeError:  # a terminal that isn't UTF-8
        encoding = sys.stdout.encoding or "ascii"
        print(text.encode(encoding, "replace").decode(encoding), flush=True)


def _fail(error: JaxTrainError, code: int) -> int:
    from jupyter_jax_trainer.text import plain

    text = plain(str(error)).replace("`%jaxtrain ", "`jaxtrain ")  # hints are written for notebooks
    print(f"jaxtrain: {text}", file=sys.stderr)
    return code


def _ask(question: str) -> bool | None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    from jupyter_jax_trainer.text import plain

    try:
        return input(f"{plain(question)} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
