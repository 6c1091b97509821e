"""The exceptions; each says what happened, where, and what to do.

::

    JaxTrainError
    ├── UsageError        an option, value or name is invalid; nothing was started
    ├── CaptureError      something that the cell needs can't be sent; nothing was started
    ├── BackendError      the backend refused the job or could not start it
    │   └── BackendUnavailable   it is temporarily unavailable; retry later
    ├── JobNotFound       there is no job of this name
    ├── JobDirError       a job directory is damaged, or has a format that this version can't read
    ├── ResultError       a result is missing, damaged or refused
    │   └── ResultsWithheld   somebody else submitted the job, and it is not trusted
    ├── JobFailed         the job failed or was cancelled; ``failure`` says how
    ├── JobDetached       the wait was interrupted; the job continues
    └── WorkerError       in the job: a rank gives up before the cell runs (worker.exceptions)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_jax_trainer.messages import Text

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.failure import Failure


class JaxTrainError(Exception):
    """Base class of the errors that this package raises.

    Parameters
    ----------
    message
        What happened and where, in sentences.
    hint
        What to do about it, on a line of its own; by default the message's own hint.

    Attributes
    ----------
    id
        The id of the message in the catalogue; None if the text is not from there.
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
    """An option, value or name is invalid; nothing was started."""


class CaptureError(JaxTrainError):
    """Something that the cell needs can't be sent; nothing was started."""


class BackendError(JaxTrainError):
    """The backend refused the job or could not start it."""


class BackendUnavailable(BackendError):  # noqa: N818
    """The backend is temporarily unavailable; the same request may succeed later."""


class JobNotFound(JaxTrainError, LookupError):  # noqa: N818
    """There is no job of this name."""


class JobDirError(JaxTrainError):
    """A job directory is damaged, or has a format that this version can't read."""


class ResultError(JaxTrainError):
    """A result is missing, damaged or refused."""


class ResultsWithheld(ResultError):  # noqa: N818
    """Somebody else submitted the job: its results may run code, and you have not trusted it."""


class ResultWarning(UserWarning):
    """A result was loaded as a dictionary, because its class is not imported here."""


class JobFailed(JaxTrainError):  # noqa: N818
    """The job failed or was cancelled.

    Attributes
    ----------
    name
        The job's name.
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
    """The wait was interrupted; the job continues."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()
