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

from typing import TYPE_CHECKING

from jupyter_jax_trainer.messages import Text

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.failure import Failure


class JaxTrainError(Exception):
    """Base of all errors that this package raises on purpose.

    Parameters
    ----------
    message
        What happened and where, as one or more full sentences.
    hint
        What to do about it, if not the hint of the message. Shown on a line of its own.

    Attributes
    ----------
    id
        Of the message in the catalogue; None where the words are not ours.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.id: str | None = None
        if isinstance(message, Text):
            self.id, hint = message.id, hint or message.hint
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
        """Return IPython the message alone: our own stack would tell a notebook user nothing."""
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
    name
        The job's.
    failure
        What failed, on which rank, with the traceback.
    """

    def __init__(self, message: str, name: str, failure: Failure) -> None:
        self.name = name
        self.failure = failure
        super().__init__(message)

    def _shown(self, text: str) -> str:
        return text  # the cell's own words, as they stand in its log

    def _render_traceback_(self) -> list[str]:
        from jupyter_jax_trainer.text import RED, RESET, coloured

        first, *rest = coloured(str(self))
        return [f"{RED}{type(self).__name__}{RESET}: {first}", *rest]


class JobDetached(JaxTrainError):  # noqa: N818
    """The wait was interrupted; the job goes on without it."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()
