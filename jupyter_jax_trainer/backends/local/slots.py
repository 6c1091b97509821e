"""The queue of one machine: jobs start in order, when enough cores (or GPUs) are free.

There is no scheduler process. Every job that waits or runs holds a ticket, a locked file; each
supervisor looks at all tickets, under one lock, and sees for itself whether it is its turn. The
ticket of a job that died is unlocked, and the next one to look removes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir.locks import lock, try_lock
from jupyter_jax_trainer.jobdir.store import private_directory
from jupyter_jax_trainer.messages import local as say
from jupyter_jax_trainer.text import joined

LIMIT_VARIABLE = "JAXTRAIN_CORES"


def limit_of_cores() -> int:
    """Return how many cores the jobs of this machine may take: a set limit, else all of them."""
    given = os.environ.get(LIMIT_VARIABLE)
    if given:
        if not given.isdecimal() or not int(given):
            raise UsageError(say.CORES_NOT_A_NUMBER(variable=LIMIT_VARIABLE, value=given))
        return int(given)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass
class _Entry:
    """What one ticket says."""

    job: str
    cores: float
    gpus: int = 0
    running: bool = False
    devices: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Turn:
    """It is this job's turn; these are its GPUs."""

    devices: list[str]


class Ticket:
    """A place in the queue.

    Parameters
    ----------
    directory
        The queue's directory.
    job
        The job's name.
    cores
        What it takes of the machine's cores.
    gpus
        How many GPUs it takes.
    all_gpus
        The machine's GPUs.
    limit
        How many cores all jobs may take together.
    """

    def __init__(
        self,
        directory: Path,
        job: str,
        cores: float,
        gpus: int = 0,
        all_gpus: Sequence[str] = (),
        limit: int | None = None,
    ) -> None:
        self._directory = private_directory(directory)
        self._limit = limit_of_cores() if limit is None else limit
        self._all_gpus = list(all_gpus)
        self._entry = _Entry(job, cores, gpus)
        with self._everything():
            self._path = directory / f"{time.time_ns():020}-{job}"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
            lock(self._file)
            self._save()

    @contextlib.contextmanager
    def _everything(self) -> Iterator[None]:
        """Hold the lock of the whole queue; held for a moment only."""
        file = os.open(self._directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            lock(file)
            yield
        finally:
            os.close(file)

    def _save(self) -> None:
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(self._entry.__dict__).encode(), 0)

    def _others(self) -> list[tuple[str, _Entry]]:
        """Read the other live tickets, the oldest first, and remove dead ones."""
        found = []
        for path in sorted(self._directory.glob("[0-9]*")):
            if path == self._path:
                continue
            try:
                file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                if try_lock(file):
                    path.unlink(missing_ok=True)
                else:
                    found.append((path.name, _Entry(**json.loads(os.pread(file, 65536, 0)))))
            except (ValueError, TypeError):
                pass  # written by another version: it holds nothing that can be counted
            finally:
                os.close(file)
        return found

    def turn(self) -> Turn | str:
        """See whether this job may start.

        Returns
        -------
        Turn or str
            The turn, taken; or what the job waits for: the reason of its state.
        """
        with self._everything():
            others = self._others()
            running = [entry for _, entry in others if entry.running]
            ahead = [e.job for name, e in others if not e.running and name < self._path.name]
            taken = {device for entry in running for device in entry.devices}
            free = [gpu for gpu in self._all_gpus if gpu not in taken]
            cores = sum(entry.cores for entry in running)
            names = ", ".join(entry.job for entry in running if entry.cores or entry.devices)
            if ahead:
                return say.BEHIND(names=joined(ahead, most=4))
            if len(free) < self._entry.gpus:
                return say.WAITS_FOR_GPUS(
                    wanted=self._entry.gpus,
                    total=len(self._all_gpus),
                    free=len(free),
                    names=names,
                )
            if cores and cores + self._entry.cores > self._limit:
                free_cores = max(0.0, self._limit - cores)
                return say.WAITS_FOR_CORES(
                    wanted=self._entry.cores, total=self._limit, free=free_cores, names=names
                )
            self._entry.running = True
            self._entry.devices = free[: self._entry.gpus]
            self._save()
            return Turn(self._entry.devices)

    def take(self, cores: float) -> None:
        """Count for so many cores from now on, at once: a session that is idle takes none."""
        if cores != self._entry.cores:
            with self._everything():
                self._entry.cores = cores
                self._save()

    def close(self) -> None:
        """Give the place back."""
        self._path.unlink(missing_ok=True)
        os.close(self._file)
