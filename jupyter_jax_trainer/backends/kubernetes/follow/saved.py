"""What one follower keeps for the next: how ranks have ended, and what they still hold."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NotRequired, TypedDict, cast

from jupyter_jax_trainer.backends.kubernetes.api.observed import line
from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import PodEnd
from jupyter_jax_trainer.backends.kubernetes.follow.fetch import Held
from jupyter_jax_trainer.backends.kubernetes.follow.profiles import HeldProfile
from jupyter_jax_trainer.backends.kubernetes.logs.messages import File, Stopped
from jupyter_jax_trainer.backends.sequencer import Saved
from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.failure import EndRecord, RankEnd
from jupyter_jax_trainer.jobdir.files import LineReader
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.records import Display, Event, Metric, Resource
from jupyter_jax_trainer.jobdir.state import ErrorRecord, FailureState

_WORDS = 500  # characters that are kept of what a rank was told
_TAIL = 200  # lines at the end of a file, among which the last frames of all ranks are found


class SavedRanks(TypedDict):
    """What is kept of the ranks of a session, and of its cells."""

    cells: Saved
    processes: dict[str, str]
    running: list[int]
    spans_of: int
    begins: dict[str, int]
    cuts: dict[str, int]
    gone: list[EndRecord]
    restart: str | None
    in_charge: NotRequired[bool]
    held: Held | None
    idle: float | None


class _Saved(TypedDict):
    """What the file holds."""

    ends: list[EndRecord]
    held: NotRequired[Held | None]
    stored: NotRequired[File | None]
    profiles: NotRequired[list[HeldProfile]]
    submitting: NotRequired[bool]
    ports: NotRequired[list[int | None]]
    awaiting: NotRequired[list[int]]
    ahead: NotRequired[list[float]]
    session: NotRequired[SavedRanks | None]
    hung: NotRequired[FailureState | None]


class Kept:
    """The file ``follower.json`` of a job.

    Parameters
    ----------
    directory, nodes
        The job, and how many ranks it has.

    Attributes
    ----------
    ends
        How each rank has ended, as far as it has.
    held, stored
        What rank 0 has said of results that it holds, or that are in the store.
    profiles
        What ranks have said of profiles that they hold.
    submitting
        Whether the job may lack its Secrets: its submitter died.
    ports
        Where in its pod each rank has said the channel to be.
    awaiting
        The ranks that wait for the bundle.
    ahead
        By how many seconds the clock of each rank is ahead of the cluster's.
    session
        What is kept of the cells of a session.
    hung
        Why the job is being ended, if its ranks were silent for too long.
    """

    def __init__(self, directory: JobDir, nodes: int) -> None:
        self._path = directory.path / "follower.json"
        self.ends = [RankEnd(rank=number) for number in range(nodes)]
        self.held: Held | None = None
        self.stored: File | None = None
        self.profiles: list[HeldProfile] = []
        self.submitting = False
        self.ports: list[int | None] = [None] * nodes
        self.awaiting: set[int] = set()
        self.ahead = [0.0] * nodes
        self.session: SavedRanks | None = None
        self.hung: FailureState | None = None
        self._order = 0
        with contextlib.suppress(Exception):
            self._load()

    def _load(self) -> None:
        kept = cast(_Saved, files.read_json(self._path, {"ends": list}))
        self.ends = [RankEnd.from_json(end) for end in kept["ends"]]
        self.held, self.stored = kept.get("held"), kept.get("stored")
        self.profiles = kept.get("profiles", [])
        self.submitting = kept.get("submitting", False)
        self.ports = kept.get("ports", self.ports)
        self.awaiting = set(kept.get("awaiting", ()))
        self.ahead = kept.get("ahead", self.ahead)
        self.session = kept.get("session")
        self.hung = kept.get("hung")
        self._order = max((end.order for end in self.ends if end.order < 1 << 30), default=0)

    def save(self) -> None:
        """Write the file."""
        kept: _Saved = {
            "ends": [end.to_json() for end in self.ends],
            "held": self.held,
            "stored": self.stored,
            "profiles": self.profiles,
            "submitting": self.submitting,
            "ports": self.ports,
            "awaiting": sorted(self.awaiting),
            "ahead": self.ahead,
            "session": self.session,
            "hung": self.hung,
        }
        with contextlib.suppress(OSError):
            files.write_json(self._path, kept)

    def remove(self) -> None:
        """Delete the file: the job has ended."""
        self._path.unlink(missing_ok=True)

    def begin_anew(self) -> None:
        """Forget how the ranks have ended: there will be others."""
        self.ends = [RankEnd(rank=end.rank) for end in self.ends]
        self.ports = [None] * len(self.ends)
        self.ahead = [0.0] * len(self.ends)
        self.awaiting.clear()
        self.save()

    @property
    def broken(self) -> bool:
        """Whether a rank has failed."""
        return any(end.error or ((end.exit or end.cause) and not end.finished) for end in self.ends)

    @property
    def all_finished(self) -> bool:
        """Whether all ranks have done their work."""
        return all(end.finished for end in self.ends)

    @property
    def all_have_spoken(self) -> bool:
        """Whether each rank has said how it ended."""
        return all(end.error or end.finished or end.stopped for end in self.ends)

    def note_error(self, rank: int, error: ErrorRecord) -> None:
        """Note the first error that a rank tells."""
        end = self.ends[rank]
        if end.error is None:
            # Its pod may have looked as if it was stopped, to a follower that came later.
            end.error, end.order, end.stopped = error, self.next_order(), False

    def note_stopped(self, rank: int, message: Stopped) -> None:
        """Note that a rank has stopped because of another, and what that one told it."""
        self.ends[rank].stopped = True
        first, words = message.because, message.summary
        if first is not None and 0 <= first < len(self.ends) and words is not None:
            self.ends[first].told = line(words, _WORDS)

    def note_end(self, found: PodEnd) -> bool:
        """Note how a pod has ended, once; what the rank itself has said comes first."""
        end = self.ends[found.rank]
        ended = found.exit is not None or found.cause is not None or found.stopped
        if not ended or end.exit is not None or end.cause is not None:
            return False
        end.exit = found.exit
        end.out_of_memory |= found.out_of_memory
        if found.stopped:
            end.stopped = end.error is None and not end.finished
        elif found.exit != 0 and not (end.error and found.kind == "pod-deleted"):
            # A rank that has told an error before was not ended by what came after.
            end.cause, end.hint = found.cause, found.hint
        if end.error is None:
            end.order = self.next_order()
        self.save()
        return True

    def next_order(self) -> int:
        """Return the next sequence number for errors and ends of ranks."""
        self._order += 1
        return self._order


def applied(directories: Sequence[JobDir], nodes: int) -> dict[int, dict[str, int]]:
    """Find, in what is on disk, which messages of each rank were applied last.

    Parameters
    ----------
    directories
        The job's, and those of the cells that run on its ranks.
    nodes
        How many ranks there are.
    """
    found: dict[int, dict[str, int]] = {}
    for path in [
        p for one in directories for p in (one.events, one.metrics, one.resources, one.displays)
    ]:
        for row in list(LineReader[Event | Metric | Resource | Display](path).read())[
            -_TAIL * nodes :
        ]:
            frame, rank = row.get("frame"), row.get("rank")
            if isinstance(frame, list) and len(frame) == 2 and isinstance(rank, int):
                incarnation, number = frame
                of_rank = found.setdefault(rank, {})
                of_rank[incarnation] = max(number, of_rank.get(incarnation, 0))
    return found
