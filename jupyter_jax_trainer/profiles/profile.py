"""One profile of a job, for its user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jupyter_jax_trainer.errors import JobNotFound, UsageError
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.state import ProfileOfRank, ProfileState
from jupyter_jax_trainer.messages import profiles as say
from jupyter_jax_trainer.profiles import reading
from jupyter_jax_trainer.profiles.summary import ProfileSummary


class Profile:
    """A profile of a job.

    Parameters
    ----------
    directory
        The job's.
    state
        What the job says of it.
    require
        Raises where the job is not trusted.
    """

    def __init__(
        self, directory: JobDir, state: ProfileState, require: Callable[[], object]
    ) -> None:
        self._directory = directory
        self._state = state
        self._require = require

    def __repr__(self) -> str:
        ranks = sum(bool(one["files"]) for one in self.ranks)
        return f"<Profile {self.name} of {self.job}: {ranks} ranks>"

    @property
    def job(self) -> str:
        """The name of the job; of a session, that of the cell."""
        return self._directory.path.name

    @property
    def name(self) -> str:
        """Its name in the job: a number, or ``cell`` or ``steps`` for one by ``--profile``."""
        return self._state["name"]

    @property
    def directory(self) -> Path:
        """The folder with a folder of each rank, ``rank-0`` and so on."""
        return self._directory.profiles / self.name

    @property
    def ranks(self) -> list[ProfileOfRank]:
        """What each rank has given: ``{rank, seconds, files, left_out, problem}``."""
        return list(self._state["ranks"])

    @property
    def time(self) -> float:
        """When it was begun."""
        return self._state["time"]

    def traces(self) -> dict[int, Path]:
        """Return the trace of each rank as XLA has recorded it, for XProf or TensorBoard.

        Raises
        ------
        ResultsWithheld
            As for `summary`.
        UsageError
            Ranks are still waited for.
        JobNotFound
            No rank has one.
        """
        self._require()
        if not self._state["whole"]:
            raise UsageError(say.NOT_FINISHED(name=self.name, job=self.job))
        found = reading.traces_of(self._directory, self._state)
        if not found:
            raise JobNotFound(say.NO_TRACES(name=self.name, job=self.job))
        return found

    def perfetto(self, rank: int) -> Path:
        """Return the file of a rank that ui.perfetto.dev opens.

        Raises
        ------
        ResultsWithheld
            As for `summary`.
        JobNotFound
            There is no trace of this rank.
        BackendError
            It can't be made into that.
        """
        self._require()
        return reading.perfetto(self._directory, self._state, rank)

    def summary(self) -> ProfileSummary:
        """Sum it up: operations, busy and idle devices, collectives and memory, by rank.

        Raises
        ------
        ResultsWithheld
            Somebody else submitted the job, and you have not trusted it.
        """
        self._require()
        return reading.summarize(self._directory, self._state)
