"""What the cluster shows of one job.

Names and messages in it were written by others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    MESSAGE,
    ApiObject,
    Event,
    Job,
    JobSet,
    Pod,
    TrainJob,
    Workload,
)
from jupyter_jax_trainer.states import Phase
from jupyter_jax_trainer.text import uncoloured


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What is known of a job at one moment.

    Attributes
    ----------
    trainjob
        The TrainJob; None when it is gone.
    jobs
        Its Jobs.
    jobset
        Its JobSet; None where it may not be read.
    pods
        Its pods, each in the last version seen: those too that are gone since.
    events
        Events of all of these.
    workloads
        Kueue's Workloads of the TrainJob; empty where there is no Kueue or they may not be read.
    others
        The Workloads of other jobs in the same queue.
    nodes
        The ranks asked for.
    now
        The time.
    max_restarts
        How often all ranks may start again.
    states
        What each rank is doing by its own account: ``Waiting``, ``Starting``, ``Arrived``,
        ``Joined``, ``Running``, ``Finished``, ``Failed`` or ``Stopped``.
    """

    trainjob: TrainJob | None
    jobs: Sequence[Job]
    jobset: JobSet | None
    pods: Sequence[Pod]
    events: Sequence[Event]
    workloads: Sequence[Workload]
    nodes: int
    now: float
    max_restarts: int = 0
    states: Sequence[Phase] = ()
    others: Sequence[Workload] = ()

    @property
    def suspended(self) -> bool:
        """Whether the TrainJob is to be suspended."""
        return self.trainjob is not None and self.trainjob.suspended

    @cached_property
    def current(self) -> dict[int, Pod]:
        """The newest pod of each rank that has one."""
        found: dict[int, Pod] = {}
        for pod in sorted(self.pods, key=lambda one: one.created):
            rank = pod.rank
            if rank is not None:
                found[rank] = pod
        return found

    @cached_property
    def live(self) -> dict[int, Pod]:
        """The pods of `made` that have not succeeded yet."""
        return {rank: pod for rank, pod in self.made.items() if pod.phase != "Succeeded"}

    @cached_property
    def made(self) -> dict[int, Pod]:
        """The newest pod of each rank, those left out that have failed or are being deleted."""
        return {
            rank: pod
            for rank, pod in self.current.items()
            if pod.deleted is None and pod.phase != "Failed"
        }

    @cached_property
    def initializers(self) -> list[Pod]:
        """The pods that fetch data or a model before the training begins, the oldest first."""
        found = [pod for pod in self.pods if not pod.trains]
        return sorted(found, key=lambda one: one.created)

    def events_of(self, thing: ApiObject | None, *reasons: str) -> list[Event]:
        """Return the events of an object, the oldest first; those of a namesake are left out."""
        if thing is None:
            return []
        uid = thing.uid
        found = [one for one in self.events if one.reason in reasons and one.about.uid == uid]
        return sorted(found, key=lambda one: one.time)

    def last_event(self, things: Iterable[ApiObject | None], *reasons: str) -> Event | None:
        """Return the newest event of some objects."""
        found = [event for thing in things for event in self.events_of(thing, *reasons)]
        return max(found, key=lambda one: one.time, default=None)

    def jobset_event(self, *reasons: str) -> Event | None:
        """Return the newest event of the JobSet, which has the TrainJob's name.

        Without the right to read it, one is known by being younger than the TrainJob.
        """
        if self.jobset is not None or self.trainjob is None:
            return self.last_event([self.jobset], *reasons)
        about, born = ("JobSet", self.trainjob.name), int(self.trainjob.created)
        found = [
            one
            for one in self.events
            if one.reason in reasons
            and (one.about.kind, one.about.name) == about
            and one.time >= born
        ]
        return max(found, key=lambda one: one.time, default=None)


def line(value: object, most: int = 120) -> str:
    """Make text from the cluster harmless: one line, no colours or control characters, cut."""
    text = " ".join(uncoloured(str(value)[:MESSAGE]).split())
    if not text.isprintable():  # private and unassigned characters, joiners
        text = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
