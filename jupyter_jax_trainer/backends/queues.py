"""What a page is told of the queues of a cluster, for people to choose from."""

from __future__ import annotations

from typing import TypedDict


class FreeRecord(TypedDict):
    """What is left of how much of a queue's own quota, of one flavor."""

    flavor: str
    resource: str
    total: str
    free: str


class QueueRecord(TypedDict):
    """A queue.

    Attributes
    ----------
    problem
        Why it takes no jobs; None where it does.
    waiting, admitted
        How many jobs.
    free
        None where that may not be read.
    """

    name: str
    problem: str | None
    waiting: int
    admitted: int
    free: list[FreeRecord] | None


class PriorityRecord(TypedDict):
    """A priority that a job can have."""

    name: str
    value: int | None
    description: str | None


class QueuesRecord(TypedDict):
    """The queues of a namespace, and the version of what has them.

    Attributes
    ----------
    keeps_patches
        It is known to keep what is patched into a job's runtime.
    """

    version: str | None
    keeps_patches: bool
    queues: list[QueueRecord]
    priorities: list[PriorityRecord]
