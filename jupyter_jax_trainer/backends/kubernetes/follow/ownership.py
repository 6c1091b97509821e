"""Whose the channel of a job is: this store's epoch, which is on disk before the pods hear of it.

Of all job stores that know a job, the one of the latest epoch asks its ranks; process 1 of rank 0
refuses the others. The epoch of a take-over is the time in milliseconds, so that it is later than
those of the past, even if pods have restarted and forgotten them. Where clocks differ, process 1
tells the epoch in force, and the taker's is the next one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import NotRequired, TypedDict, cast

from jupyter_jax_trainer.backends.kubernetes.api import identity
from jupyter_jax_trainer.backends.kubernetes.follow.line import Line, Refused, Target
from jupyter_jax_trainer.errors import JobDirError
from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest
from jupyter_jax_trainer.messages import Text
from jupyter_jax_trainer.messages import channel as say

# Without a take-over the store that submitted a job comes before those that attached it.
_ATTACHED, _SUBMITTED = 0, 1
_TRIES = 3  # others may take over at the same time


class _Saved(TypedDict):
    """What ``owner.json`` holds."""

    epoch: int
    refused_by: NotRequired[int | None]


class Ownership:
    """What this store knows of the owner of a job's channel.

    Parameters
    ----------
    directory, manifest
        The job.
    on_event
        Called with the kind of an event, and what has happened.
    """

    def __init__(
        self, directory: JobDir, manifest: Manifest, on_event: Callable[[str, str], None]
    ) -> None:
        self._directory = directory
        self._on_event = on_event
        self._guard = threading.Lock()
        self._epoch = _SUBMITTED if identity.submitted_here(manifest) else _ATTACHED
        self._refused_by: int | None = None
        with contextlib.suppress(JobDirError, FileNotFoundError):
            saved = cast(_Saved, files.read_json(directory.owner, {"epoch": int}))
            self._epoch, self._refused_by = saved["epoch"], saved.get("refused_by")

    @property
    def epoch(self) -> int:
        """The epoch of this store."""
        return self._epoch

    @property
    def refusal(self) -> Text | None:
        """Why the pods refuse this store; None while they don't."""
        by = self._refused_by
        if by is None or by < self._epoch:
            return None
        said = say.TAKEN_OVER if by > _SUBMITTED else say.ASKED_ELSEWHERE
        return said(job=self._directory.path.name)

    @property
    def barrier(self) -> Text | None:
        """Why nothing may be told to the ranks; None where this store is the owner."""
        if self._epoch == _ATTACHED:
            return say.ASKED_ELSEWHERE(job=self._directory.path.name)
        return self.refusal

    @property
    def is_wanted(self) -> bool:
        """Whether the user wants this store to take over."""
        return self._directory.take_over.exists()

    def note_refusal(self, refused: Refused, epoch: int) -> None:
        """Note that the pods refuse this store: from now on it doesn't ask.

        Parameters
        ----------
        refused
            What they say.
        epoch
            This store's when they were asked.
        """
        if epoch != self._epoch or self.refusal is not None:
            return  # it has taken over meanwhile, or knows
        by = max(refused.epoch, epoch)
        with contextlib.suppress(OSError):  # then the next follower asks once more
            self._save(epoch, by)
        self._refused_by = by
        if (refusal := self.refusal) is not None:
            self._on_event("warning", refusal)

    def take_over(self, line: Line, target: Target) -> None:
        """Become the owner; if this process dies here, the next follower does it again.

        Raises
        ------
        OSError, ApiError, Unreachable
            It could not be done now.
        """
        epoch = max(self._epoch + 1, int(1000 * time.time()))
        for _ in range(_TRIES):
            self._save(epoch, None)
            try:
                line.claim(target, epoch)
            except Refused as refused:
                epoch = max(epoch, refused.epoch) + 1
            else:
                self._directory.take_over.unlink(missing_ok=True)
                self._on_event("note", say.TOOK_OVER())
                return
        raise OSError(say.NOT_TAKEN())

    def forget(self) -> None:
        """Delete what is on disk: the job has ended."""
        self._directory.owner.unlink(missing_ok=True)
        self._directory.take_over.unlink(missing_ok=True)

    def _save(self, epoch: int, refused_by: int | None) -> None:
        """Write it durably: the next follower has to know what the pods do."""
        saved: _Saved = {"epoch": epoch, "refused_by": refused_by}
        with self._guard:
            files.write_json(self._directory.owner, saved, durable=True)
            self._epoch, self._refused_by = epoch, refused_by
