"""The states of jobs and of their ranks."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """The state of a job."""

    QUEUED = "Queued"
    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"

    @property
    def ended(self) -> bool:
        """Whether it is final."""
        return self in ENDED


ENDED = (State.SUCCEEDED, State.FAILED, State.CANCELLED)


class Phase(StrEnum):
    """What a rank is doing, or how it ended; an initializer has some of these, too."""

    WAITING = "Waiting"  #: no process yet
    STARTING = "Starting"
    ARRIVED = "Arrived"  #: at the rendezvous
    JOINED = "Joined"  #: jax.distributed is up
    RUNNING = "Running"
    FINISHED = "Finished"
    FAILED = "Failed"
    STOPPED = "Stopped"  #: because of another rank, or by the backend


class Unstarted(StrEnum):
    """What is shown in place of a state while there is no job."""

    SENDING = "Sending"
    NOT_STARTED = "Not started"
