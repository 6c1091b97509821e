"""A cell of a session, as the one who runs the session has it."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import PurePath
from typing import TypedDict

from jupyter_jax_trainer.backends.silence import SilenceWatch
from jupyter_jax_trainer.backends.stall import MeetWatch, StallWatch
from jupyter_jax_trainer.errors import JobDirError
from jupyter_jax_trainer.jobdir.failure import EndRecord, Failure, RankEnd
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import CellOf, submitted_of
from jupyter_jax_trainer.jobdir.state import new_rank
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.messages import session as say
from jupyter_jax_trainer.options.amounts import ranks_in
from jupyter_jax_trainer.states import Phase, State
from jupyter_jax_trainer.worker.records import ErrorRecord


class SavedCell(TypedDict):
    """A running cell as saved; instead of times, only whether they are set."""

    name: str
    number: int
    ends: list[EndRecord]
    checked: list[int]
    held: list[tuple[int, int]]
    since: bool
    interrupted: bool


class Cell:
    """A cell: its job directory, and what its ranks have said.

    Parameters
    ----------
    directory
        Its job directory.
    lock
        The open file that holds the lock of that.
    nodes
        How many ranks there are.

    Attributes
    ----------
    number
        Its number in the session; 0 while it waits.
    chosen
        The ranks that run it; None for all.
    ends
        How each rank has ended it, by ranks; those that have not are missing.
    checked
        Ranks that were found in step after it.
    since
        When the first rank failed, or the check began, on the monotonic clock.
    interrupted
        When its ranks were told to stop, on the same clock.
    held
        How many reports each rank has made that waits to hear where to stop.
    stall
        Notices ranks that wait for others in vain.
    meeting
        Notices the same once all have ended it.
    silence
        Notices ranks of which nothing is heard.
    asked
        The ranks were asked where they are, for one of these.

    Raises
    ------
    JobDirError
        It is no cell.
    """

    def __init__(self, directory: JobDir, lock: int, nodes: int) -> None:
        self.directory = directory
        self.manifest = directory.read_manifest()
        self._lock = lock
        self.record = Recorder(directory, [new_rank(number) for number in range(nodes)])
        rank = self.manifest["spec"].get("rank")
        self.chosen = None if rank is None else ranks_in(rank, nodes)
        self.number = 0
        self.ends: dict[int, RankEnd] = {}
        self.checked: set[int] = set()
        self.since: float | None = None
        self.interrupted: float | None = None
        self.held: dict[int, int] = {}
        self.stall = StallWatch()
        self.meeting = MeetWatch()
        self.silence = SilenceWatch(self.manifest["spec"].get("hang_timeout"))
        self.asked = False

    @property
    def name(self) -> str:
        """The name of its job."""
        return self.directory.path.name

    @property
    def cell_of(self) -> CellOf:
        """Its session, and who sent it."""
        return self.manifest["cell_of"]

    def known_to(self, other: Cell) -> str:
        """Return its name as shown for a cell that waits for it: with its notebook, if another."""
        origin = submitted_of(self.manifest)
        place = origin and (origin.get("notebook") or origin.get("script"))
        if self.cell_of["kernel"] == other.cell_of["kernel"] or not place:
            return self.name
        return say.OF_ANOTHER(cell=self.name, place=PurePath(place).name)

    @property
    def cancelled(self) -> bool:
        """Whether somebody wants it to end, or has deleted it."""
        return self.directory.cancel.exists() or self.directory.deleted

    @property
    def failed(self) -> bool:
        """Whether a rank has failed."""
        return any(end.error is not None for end in self.ends.values())

    @property
    def began(self) -> bool:
        """Whether its code was run: all that came with it has been taken over."""
        errors = (end.error for end in self.ends.values())
        return all(error is None or error["cell_line"] is not None for error in errors)

    @property
    def agreed(self) -> bool:
        """Whether the ranks that run it, and have ended, did so alike: with one error, or none."""
        ends = self.ends.items()
        ran = [end for rank, end in ends if self.chosen is None or rank in self.chosen or end.error]
        return len({_outcome(end.error) for end in ran}) <= 1

    def begin(self, number: int) -> None:
        """Note that its ranks are about to run it."""
        self.number = self.record.state["cell"] = number
        for rank in self.record.state["ranks"]:
            rank["state"] = Phase.RUNNING
        self.silence.hear()
        self.record.change(State.RUNNING)

    def take_held(self, rank: int, reports: int) -> int | None:
        """Note how many reports a rank has made; give where all stop, once all have said it."""
        if self.chosen is not None and rank not in self.chosen:
            return None
        self.held[rank] = reports
        return self.stop_at

    @property
    def stop_at(self) -> int | None:
        """The report at which all ranks that run it stop, once all have said how many they made."""
        running = len(self.chosen or self.record.state["ranks"])
        if len(self.held) < running or not self.stops_at_a_report:
            return None
        return 1 + max(self.held.values())

    @property
    def stops_at_a_report(self) -> bool:
        """Whether its ranks may come to a report at which they stop."""
        return not self.held or min(self.held.values()) > 0

    def take_end(self, rank: int, error: ErrorRecord | None, order: int) -> None:
        """Note how a rank has ended it."""
        end = RankEnd(rank=rank, order=order, joined=True, finished=error is None, error=error)
        if error is not None:
            said = f"{error['type']}: {error['message']}"
            self.record.event("error", said, rank)
            self.since = self.since or time.monotonic()
        self.ends[rank] = end
        self.record.rank(rank)["state"] = Phase.FINISHED if error is None else Phase.FAILED

    def saved(self) -> SavedCell:
        """Return what another process needs to go on."""
        return {
            "name": self.name,
            "number": self.number,
            "ends": [end.to_json() for end in self.ends.values()],
            "checked": [*self.checked],
            "held": [*self.held.items()],
            "since": self.since is not None,
            "interrupted": self.interrupted is not None,
        }

    def resume(self, saved: SavedCell) -> None:
        """Go on where another process was killed."""
        now = time.monotonic()
        self.number = saved["number"]
        self.ends = {end["rank"]: RankEnd.from_json(end) for end in saved["ends"]}
        self.checked, self.held = set(saved["checked"]), dict(saved["held"])
        self.since = now if saved["since"] else None
        self.interrupted = now if saved["interrupted"] else None

    def postpone(self, seconds: float) -> None:
        """Give its ranks so much more time."""
        self.meeting.begin()
        if self.since is not None:
            self.since += seconds
        if self.interrupted is not None:
            self.interrupted += seconds

    def end(self, state: State, reason: str | None = None, failure: Failure | None = None) -> None:
        """Write its end, and release its directory."""
        if state != State.SUCCEEDED:
            for rank in self.record.state["ranks"]:
                if rank["state"] == Phase.RUNNING:
                    rank["state"] = Phase.STOPPED
        from jupyter_jax_trainer.jobdir import pieces  # a supervisor starts sooner without it

        self.record.end(state, reason, failure)
        with contextlib.suppress(OSError):  # it never runs again; the session may go on for days
            self.directory.bundle.unlink()
            pieces.forget(self.directory.bundle)
        os.close(self._lock)


def opened(directory: JobDir, lock: int, uid: str, nodes: int) -> Cell | None:
    """Return the cell of a received lock; None if its session or the lock doesn't match.

    Parameters
    ----------
    uid
        That of the session.
    """
    with contextlib.suppress(OSError, JobDirError, KeyError):
        same = os.path.samestat(os.fstat(lock), directory.lock.stat())
        if same and directory.read_manifest()["cell_of"]["uid"] == uid:
            return Cell(directory, lock, nodes)
    os.close(lock)
    return None


def _outcome(error: ErrorRecord | None) -> tuple[str, int | None] | None:
    """Return what of an error has to be equal on all ranks."""
    return None if error is None else (error["type"], error["cell_line"])
