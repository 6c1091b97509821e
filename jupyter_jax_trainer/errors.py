"""Errors of jupyter_jax_trainer: one family, each says what happened, where, and what to do.

::

    JaxTrainError
    ├── UsageError        an option, a value or a name is wrong; nothing was started
    ├── CaptureError      something that the cell needs cannot travel; nothing was started
    ├── BackendError      the backend refused the job or could not start it
    ├── JobNotFound       there is no job of that name
    ├── JobDirError       a job directory is damaged or of a format that this version cannot read
    ├── ResultError       a result is missing, damaged or not there yet
    │   └── ResultsWithheld   the job is somebody else's, and not trusted
    ├── JobFailed         the job ended, and not well; ``failure`` says how
    └── JobDetached       the wait was interrupted; the job goes on
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.failure import Failure


_MAX_MESSAGE = 2_000  # characters
_MAX_TRACEBACK = 20_000


class JaxTrainError(Exception):
    """Base of all errors that this package raises on purpose.

    Parameters
    ----------
    message
        What happened and where, as one or more full sentences.
    hint
        What to do about it. Shown on a line of its own.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = self._shown(message)
        self.hint = hint and self._shown(hint)
        super().__init__(self.message)

    def _shown(self, text: str) -> str:
        """Take out what may be secret: an error in a cell is saved with the notebook."""
        from jupyter_jax_trainer import masking

        return masking.text(text)

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message

    def _render_traceback_(self) -> list[str]:
        """Give IPython the message alone: our own stack would tell a notebook user nothing."""
        from jupyter_jax_trainer.text import RED, RESET, plain

        first, *rest = plain(str(self)).splitlines() or [""]
        return [f"{RED}{type(self).__name__}{RESET}: {first}", *rest]


class UsageError(JaxTrainError, ValueError):
    """An option, a value or a name is wrong; nothing was started."""


class CaptureError(JaxTrainError):
    """Something that the cell needs cannot travel; nothing was started."""


class BackendError(JaxTrainError):
    """The backend refused the job or could not start it."""


class JobNotFound(JaxTrainError, LookupError):  # noqa: N818
    """There is no job of that name."""


class JobDirError(JaxTrainError):
    """A job directory is damaged, or of a format that this version cannot read."""


class ResultError(JaxTrainError):
    """A result is missing, damaged or not there yet."""


class ResultsWithheld(ResultError):  # noqa: N818
    """The job is somebody else's, and to load its results may run code: nobody has agreed."""


class ResultWarning(UserWarning):
    """A result came, but not just as it was: a class of it is not imported here."""


class JobFailed(JaxTrainError):  # noqa: N818
    """The job ended, and not well.

    Attributes
    ----------
    failure
        What failed, on which rank, with the traceback.
    """

    def __init__(self, name: str, failure: Failure) -> None:
        from jupyter_jax_trainer.jobdir.failure import format_failure

        self.name = name
        self.failure = failure
        super().__init__(format_failure(_shortened(failure), job=name))

    def _shown(self, text: str) -> str:
        return text  # the cell's own words, as they stand in its log

    def _render_traceback_(self) -> list[str]:
        from jupyter_jax_trainer.jobdir.failure import coloured
        from jupyter_jax_trainer.text import RED, RESET

        first, *rest = coloured(str(self))
        return [f"{RED}{type(self).__name__}{RESET}: {first}", *rest]


def _shortened(failure: Failure) -> Failure:
    """Cut what a cell can make as long as it likes."""
    from dataclasses import replace

    from jupyter_jax_trainer.text import shorten

    rest = "" if failure.rank is None else f": rank {failure.rank}'s log has them"
    error = failure.error
    if error and error.get("traceback"):
        error = {**error, "traceback": shorten(error["traceback"], _MAX_TRACEBACK, rest)}
    return replace(failure, message=shorten(failure.message, _MAX_MESSAGE, rest), error=error)


class JobDetached(JaxTrainError):  # noqa: N818
    """The wait was interrupted; the job goes on without it."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


@contextlib.contextmanager
def about_the_store() -> Iterator[None]:
    """Make one sentence of it when the directory of all jobs can't be used.

    Raises
    ------
    BackendError
        In place of an `OSError` of a file there, or above it. Others stay as they are.
    """
    from jupyter_jax_trainer.jobdir import store

    try:
        yield
    except OSError as error:
        home, name = store.home(), error.filename
        path = Path(name) if isinstance(name, str) else None
        if path is None or not (path.is_relative_to(home) or home.is_relative_to(path)):
            raise
        raise BackendError(
            f"The job store {home} can't be used: {error.strerror or error}.",
            "JAXTRAIN_HOME can name another directory, one that you can write to.",
        ) from None
