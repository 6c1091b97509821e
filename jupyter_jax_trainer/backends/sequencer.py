"""Has the ranks of a session run one cell after another, wherever they are.

All ranks run the same cells in the same order. A cell ends when all of them have ended it alike,
and have met after it; where they part ways they are restarted.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NotRequired, Protocol, TypedDict

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends import sessioncell
from jupyter_jax_trainer.backends.holdings import Holdings, SavedHoldings
from jupyter_jax_trainer.backends.idle import IdleClock
from jupyter_jax_trainer.backends.sessioncell import Cell, SavedCell
from jupyter_jax_trainer.errors import JobDirError
from jupyter_jax_trainer.jobdir import session
from jupyter_jax_trainer.jobdir.failure import (
    CANCELLED,
    Failure,
    RankEnd,
    diagnose,
    positions,
    summary,
)
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import CellOf, packages_in
from jupyter_jax_trainer.jobdir.state import FailureState
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.messages import Message, Text, jobs
from jupyter_jax_trainer.messages import session as say
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.text import joined, span
from jupyter_jax_trainer.worker.records import ErrorRecord, Instruction, Position

_PAUSE = 1.0  # seconds between steps that mean this process was suspended
_NAMED = 10  # variables that a sentence lists

Place = tuple[RankEnd, Position | None]  # how a rank has ended the cell, and where it is


class Saved(TypedDict):
    """What is kept for another process, which goes on with the cells."""

    number: int
    ready: bool
    stopping: bool
    parted: FailureState | None
    cell: SavedCell | None
    waiting: list[str]
    holdings: SavedHoldings
    allowed: NotRequired[float]


class Ranks(Protocol):
    """The ranks of a session, as their owner exposes them; no method blocks."""

    @property
    def record(self) -> Recorder:
        """What is written of the session's job."""

    @property
    def ends(self) -> bool:
        """Whether the session is about to end."""

    @property
    def hears(self) -> bool:
        """Whether what ranks say arrives: else their silence means nothing."""

    def save(self) -> None:
        """Keep what is known for another process, if one can go on."""

    def begin(self, cell: Cell) -> None:
        """Have all ranks run a cell."""

    def withdraw(self, cell: Cell) -> bool:
        """Take the cell that runs back, if no rank has heard of it; return whether that is so."""

    def tell(self, instruction: Instruction) -> None:
        """Tell all ranks something about the cell that runs."""

    def interrupt(self, cell: Cell) -> None:
        """Interrupt the cell on all ranks, wherever they are."""

    def ask_where(self) -> None:
        """Ask all ranks where they are."""

    def places(self) -> Sequence[Position | None] | None:
        """Return where each rank is, by what it has answered; None while they are being asked."""

    def stop(self) -> None:
        """Stop all ranks, so that they are restarted: `lose` is called, and then `restarted`."""

    def rest(self) -> None:
        """Begin to be idle."""

    def end(self, cell: Cell) -> None:
        """Write what is left of a cell's log: it has ended, or its ranks are gone."""


class Sequencer:
    """The cells of a session: those that wait, and the one that runs.

    Parameters
    ----------
    directory
        The session's job.
    ranks
        What runs them.

    Attributes
    ----------
    ready
        All ranks wait for a cell, or run one.
    stopping
        They are being restarted.
    cell
        The cell that runs.
    """

    def __init__(self, directory: JobDir, ranks: Ranks) -> None:
        self.ready = self.stopping = False
        self.cell: Cell | None = None
        manifest = directory.read_manifest()
        self._directory, self._ranks = directory, ranks
        self._name, self._uid = directory.path.name, manifest["uid"]
        self._nodes = manifest["spec"]["nodes"]
        self._session = manifest["spec"].get("session") or self._name
        self._waiting: deque[Cell] = deque()
        self._number = 0
        self._known = session.first(manifest["spec"].get("idle"))
        self._idle = IdleClock(self._known["idle"], manifest["plan"].get("idle_most"))
        self._holdings = Holdings(self._nodes)
        self._stepped = time.monotonic()
        self._parted: Failure | None = None  # why the ranks are restarted
        self._others: set[int] = set()  # cells that another store has had run

    # -- what others ask ---------------------------------------------------------------------

    def accept(self, name: str, lock: int | None) -> str | None:
        """Take a cell into the queue; give why not, if it is refused.

        Parameters
        ----------
        name, lock
            The name of its job, and the open file with the lock of that.
        """
        if lock is None:
            return say.NO_CELL()
        if any(one.name == name for one in self._all()):
            os.close(lock)  # its sender has not heard that it was taken
            return None
        directory = JobDir(self._directory.path.parent / name)
        cell = sessioncell.opened(directory, lock, self._uid, self._nodes)
        if cell is None:
            return say.NO_CELL()
        if self._ranks.ends:
            cell.end(State.CANCELLED, say.SESSION_IS_OVER(session=self._name))
            return say.SESSION_ENDS()
        self._waiting.append(cell)
        self._ranks.save()
        self.publish()
        self.say_wait()
        return None

    def restart(self) -> str | None:
        """Restart the ranks; give why not, if that is refused."""
        if not self.ready:
            return self._suspended or say.RANKS_START()
        self.part(Failure(kind="cancelled", message=say.RESTART_ASKED()))
        return None

    def prolong(self, seconds: float | None) -> str | None:
        """Let the session be idle for longer; give why not, if that is refused.

        Parameters
        ----------
        seconds
            From now; 0 for ever, None for as long as its limit is.
        """
        if not self._is_idle:
            return self._suspended or say.NOT_IDLE()
        if (refused := self._idle.prolong(seconds)) is not None:
            return refused
        left = self._idle.left
        told = say.PROLONGED(time=span(left)) if left > 0 else say.PROLONGED_FOR_EVER()
        self._ranks.record.event("idle", told)
        self._say_nothing()
        self._ranks.save()
        self.publish()
        return None

    # -- between and in cells ----------------------------------------------------------------

    def look(self) -> None:
        """Take back cells that were cancelled, and say what the others wait for."""
        self._take_back()
        self.say_wait()

    def start(self) -> None:
        """Note that all ranks wait for a cell."""
        self.ready = True
        self._rest()
        self._known["variables"] = self._holdings.variables()
        self._ranks.save()
        self.publish()

    def step(self) -> None:
        """Begin the next cell, or look after the one that runs."""
        self._take_back()
        self._note_pause()
        if self.stopping or self._ranks.ends:
            return
        if self.cell is not None:
            self._look_after(self.cell, time.monotonic())
        elif self.ready and self._waiting:
            self._begin(self._waiting.popleft())
        elif self.ready and self._idle.warns():
            told = say.ENDS_SOON(time=span(self._idle.left), session=self._session)
            self._ranks.record.event("idle", told)
            self._ranks.record.change(State.RUNNING, told, told.hint)

    def _note_pause(self) -> None:
        """Extend the ranks' deadlines by the time this process was suspended: they were, too."""
        now = time.monotonic()
        pause, self._stepped = now - self._stepped, now
        if self.cell is not None and pause > _PAUSE:
            self.cell.postpone(pause)

    @property
    def idle_for(self) -> float:
        """Seconds for which no cell has run; 0 while the session is not idle."""
        return self._idle.spent if self._is_idle else 0.0

    @property
    def idle_limit(self) -> float:
        """How long it may be idle, in seconds; 0 for ever."""
        return self._idle.allowed

    @property
    def idle_left(self) -> float:
        """Seconds until an idle session ends; 0 for never."""
        return self._idle.left if self._idle.allowed else 0.0

    @property
    def is_prolonged(self) -> bool:
        """Whether it is idle, and may be so for another time than its limit."""
        return self._is_idle and self._idle.is_prolonged

    @property
    def _is_idle(self) -> bool:
        return self.ready and self.cell is None and not self._waiting

    def _rest(self) -> None:
        self._idle.begin()
        self._ranks.rest()

    def _begin(self, cell: Cell) -> None:
        self._number += 1
        self.cell = cell
        cell.begin(self._number)
        self._ranks.save()
        self.publish()
        self._say_nothing()
        self._ranks.begin(cell)
        self.say_wait()

    def _say_nothing(self) -> None:
        """Withdraw the warning that the session is about to end."""
        record = self._ranks.record
        record.change(State.RUNNING, record.about_restart())

    def _look_after(self, cell: Cell, now: float) -> None:
        """Interrupt a cell that is to end, and see that its ranks end it in time."""
        cell.record.save()
        self._look_where(cell)
        if cell.cancelled and cell.interrupted is None:
            if self._ranks.withdraw(cell):
                self._take_back_begun(cell)
                return
            # Ranks first say how many reports they have made, so that all stop at the same one.
            cell.interrupted = now
            self._ranks.tell({"kind": "hold", "cell": cell.number})
        elif cell.interrupted is not None and cell.since is None:
            late = now - cell.interrupted > timeouts.INTERRUPT.seconds
            if late or not cell.stops_at_a_report:
                cell.since = now  # from now on they have to end alike, and soon
                self._ranks.interrupt(cell)
        # Ranks that merely meet may be slow, unless they wait for each other in vain.
        soon = cell.failed or cell.interrupted or cell.meeting.in_vain
        limit = timeouts.AGREE if soon else timeouts.MEET
        if cell.since is not None and now - cell.since > limit.seconds:
            if self._ranks.hears:
                self.part(None)
            else:
                cell.since = now

    def _look_where(self, cell: Cell) -> None:
        """Ask where the ranks are when some may wait in vain, or nothing was heard for long."""
        spoke = cell.silence.said is not None
        cell.silence.look(cell.record.printed, cell.record.reported)
        places = self._ranks.places() if cell.asked else None
        if places is not None:
            cell.asked = False
            if self._meets(cell):
                cell.meeting.take([at for n, at in enumerate(places) if n not in cell.checked])
                return
            ends = (cell.ends.get(rank, RankEnd(rank=rank)) for rank in range(self._nodes))
            found = list(zip(ends, places, strict=True))
            cell.record.look_at_programs(found)
            why = self._look_for_stall(cell, found) if cell.ends else None
            self._look_for_silence(cell, found, why)
        elif not self._ranks.hears or cell.failed or cell.interrupted:
            cell.silence.hear()
        elif (
            cell.meeting.asks()
            if self._meets(cell)
            else cell.stall.asks(len(cell.ends), self._nodes)
            or cell.silence.asks(cell.record.has_doubts)
        ):
            cell.asked = True
            self._ranks.ask_where()
        if spoke and cell.silence.said is None:
            cell.record.change(State.RUNNING)

    def _look_for_stall(self, cell: Cell, places: Sequence[Place]) -> Text | None:
        """Have the ranks restarted when some wait in vain for others that have ended the cell.

        A rank busy with work of its own, such as writing a file, may take any time. Returns what to
        say of the wait, before the restart, too.
        """
        waited = cell.stall.take([at for end, at in places if end.rank not in cell.ends])
        where, limit = positions(places), span(cell.stall.limit)
        if waited is None:
            return None
        if waited < cell.stall.limit:
            return say.WAITS_IN_VAIN(where=where, time=limit)
        message = say.WAITED_IN_VAIN(where=where, time=limit)
        hint = jobs.WAITED_FOR_FINISHED()
        self.part(Failure(kind="timeout", message=message, hint=hint))
        return message

    def _look_for_silence(self, cell: Cell, places: Sequence[Place], why: Text | None) -> None:
        """After a long silence, say where the ranks are, or restart them.

        Parameters
        ----------
        why
            What else is to be said of them.
        """
        found = cell.silence.take(places)
        if found is not None and found.failure is not None:
            self.part(found.failure)
        elif found is not None and found.is_news:
            cell.record.event("silence", found.text)
        said = cell.silence.said
        if why is not None or said is None:
            cell.record.change(State.RUNNING, why)
        else:
            cell.record.change(State.RUNNING, said.text, said.hint)

    def say_wait(self) -> None:
        """Say what each cell waits for."""
        ahead = [] if self.cell is None else [self.cell]
        for cell in self._waiting:
            hint = None
            if ahead:
                reason = say.BEHIND_CELLS(
                    names=joined([one.known_to(cell) for one in ahead], most=4)
                )
            elif self.ready:
                reason = None
            else:
                why = self._ranks.record.state["reason"] or say.RANKS_STARTING()
                reason = say.WAITS_FOR_SESSION(session=self._name, why=why)
                hint = say.RESUME(session=self._session) if self._suspended else None
            cell.record.change(State.QUEUED, reason, hint)
            ahead.append(cell)

    @property
    def _suspended(self) -> Text | None:
        """What is said of a session that somebody has suspended; None for others."""
        if self._ranks.record.state["state"] == State.SUSPENDED:
            return say.IS_SUSPENDED(session=self._session)
        return None

    def _take_back(self) -> None:
        """End cells that were cancelled while they waited."""
        for cell in [cell for cell in self._waiting if cell.cancelled]:
            if cell in self._waiting:  # it may have gone with one before it
                self._waiting.remove(cell)
                cell.end(State.CANCELLED, CANCELLED)
                self._hand_back(say.CELL_TAKEN_BACK(cell=cell.name), cell.cell_of)

    def _take_back_begun(self, cell: Cell) -> None:
        """End the cell that runs: it was cancelled, and no rank has begun it."""
        self.cell = None
        self._rest()
        self._end(cell, State.CANCELLED, CANCELLED)
        self._hand_back(say.CELL_TAKEN_BACK(cell=cell.name), cell.cell_of)

    def _hand_back(self, why: str, after: CellOf | None = None) -> None:
        """End waiting cells unrun: all, or those that the same kernel sent after a cell.

        They rely on what that cell would have left behind.
        """
        for cell in list(self._waiting):
            if after is None or cell.cell_of["kernel"] == after["kernel"]:
                self._waiting.remove(cell)
                cell.end(State.CANCELLED, why)
        self.publish()
        self._ranks.save()

    # -- what the ranks say ------------------------------------------------------------------

    def take_end(
        self, rank: int, number: int, error: ErrorRecord | None, said: Any, order: int
    ) -> None:
        """Note how a rank has ended a cell.

        Parameters
        ----------
        number
            Of the cell.
        said
            Which variables it has bound, as `Holdings.take` has it.
        order
            Its place among what ranks have said, and how they ended.

        Raises
        ------
        KeyError, TypeError, AttributeError
            It says nothing of its variables.
        """
        cell = self._numbered(number)
        if cell is None:
            return
        if not self.stopping:
            self._holdings.take(rank, said, cell.chosen)
        if said.get("saved"):
            self._known["saved"] = said["saved"]
        if said.get("parted") and all(said["parted"]):
            names, others = (joined(one, most=_NAMED) for one in said["parted"])
            cell.record.warn("sharing", say.NO_LONGER_SHARED(names=names, others=others))
        cell.take_end(rank, error, order)
        if not cell.agreed:
            self.part(None)
        elif len(cell.ends) == self._nodes:
            self._check(cell)
        self._ranks.save()

    # -- another store that has the ranks ------------------------------------------------------

    def note_other(self, number: int) -> bool:
        """Note that the ranks begin a cell; return whether another store has had it run."""
        if number > self._number:
            self._number = number
            self._others.add(number)
        return number in self._others

    def take_other(self, rank: int, said: Any) -> None:
        """Note how a rank has ended such a cell, as `Holdings.take` has it."""
        if said["cell"] in self._others:
            self._holdings.take(rank, said, None)
            self._known["variables"] = self._holdings.variables()
            self.publish()

    def probe(self) -> int:
        """Return a number for a check of the ranks that is none of a cell."""
        self._number += 1
        return self._number

    def forget(self, rank: int) -> None:
        """Forget what a rank has: another process has taken its place."""
        self._holdings.drop(rank)
        self._known["variables"] = self._holdings.variables()

    def give_up(self, why: str) -> None:
        """End all cells: another store has taken the ranks over."""
        self.ready = self.stopping = False
        self._parted = None
        cell, self.cell = self.cell, None
        if cell is not None:
            self._end(cell, State.FAILED, why, Failure(kind="cluster", message=why))
        self._hand_back(why)

    # -- ranks that leave, and what comes back -----------------------------------------------

    def take_saved(self, saved: session.Saved) -> None:
        """Note what ranks have saved because they are about to leave."""
        self._known["saved"] = saved
        told = say.SAVED_BEFORE_END(names=joined(saved["names"], most=_NAMED))
        self._ranks.record.event("restart", told)
        self.publish()

    def take_restored(self, rank: int, said: Any, saved: session.Saved) -> None:
        """Note that a rank has begun with what others before it had saved.

        Parameters
        ----------
        said
            Which variables those are, as `Holdings.take` has it.
        """
        self._holdings.take(rank, said, None)
        if rank == 0:
            lost = [name for name in self._known["lost"] if name not in saved["names"]]
            self._known.update({"saved": saved, "restored": saved, "lost": lost})
            names = joined(saved["names"], most=_NAMED)
            told = [say.BEGINS_AS_SAVED(names=names, time=_clock(saved["time"]))]
            if lost:
                told.append(say.DID_NOT_COME_BACK(names=joined(lost, most=_NAMED)))
            self._ranks.record.event("restart", " ".join(told))
        self._ranks.save()

    def take_held(self, rank: int, number: int, reports: int) -> None:
        """Note how many reports a rank has made of a cell that is to stop at one of them."""
        cell = self._numbered(number)
        if cell is None:
            return
        stop_at = cell.take_held(rank, reports)
        if stop_at is not None:
            self._ranks.tell({"kind": "stop_at", "cell": number, "reports": stop_at})
        self._ranks.save()

    def take_check(self, rank: int, number: int, agreed: bool) -> None:
        """Note whether a rank was in step with the others after a cell."""
        cell = self._numbered(number)
        if cell is None:
            return
        if not agreed:
            self.part(None)
            return
        cell.checked.add(rank)
        if len(cell.checked) == self._nodes:
            self._close(cell)
        else:
            self._ranks.save()

    def share_usage(self) -> None:
        """Have the cell that runs show what the ranks use."""
        state = self._ranks.record.state
        if self.cell is not None and "usage" in state:
            self.cell.record.use(state["usage"], state.get("tight", []))

    def _numbered(self, number: int) -> Cell | None:
        """Return the cell that runs, if it has this number."""
        return self.cell if self.cell is not None and self.cell.number == number else None

    def _check(self, cell: Cell) -> None:
        """Have the ranks meet, to check that all have dispatched the same work."""
        if self._nodes == 1:
            self._close(cell)
            return
        cell.since = time.monotonic()
        cell.meeting.begin()
        self._ranks.tell({"kind": "check", "cell": cell.number})

    def _meets(self, cell: Cell) -> bool:
        """Return whether all ranks have ended a cell, and meet."""
        return len(cell.ends) == self._nodes

    def _close(self, cell: Cell) -> None:
        """End a cell that all ranks have ended alike: the session goes on."""
        self.cell = None
        self._rest()
        # Before the cell's end is seen: whoever sends the next one looks at the variables.
        before, now = self._known["variables"], self._holdings.variables()
        self._known["variables"] = now
        if cell.began:
            self._known.setdefault("packages", {}).update(packages_in(cell.manifest))
        self.publish()
        if not cell.failed:
            self._end(cell, State.SUCCEEDED)
            self._ranks.save()
            return
        failure = diagnose([cell.ends[min(cell.chosen or [0])]])  # all failed alike
        if (donated := _donated(cell, before, now)) is not None:
            cell.record.warn("donated", donated)
        told = (failure.hint, _read_donated(cell, before), donated)
        failure.hint = " ".join(filter(None, told)) or None
        if cell.interrupted is not None:
            self._end(cell, State.CANCELLED, CANCELLED)
        else:
            self._end(cell, State.FAILED, summary(failure), failure)
        self._hand_back(say.CELL_BEFORE_FAILED(cell=cell.name), cell.cell_of)

    def _end(
        self, cell: Cell, state: State, reason: str | None = None, failure: Failure | None = None
    ) -> None:
        self._ranks.end(cell)
        cell.end(state, reason, failure)

    def refuse(self, failure: Failure) -> None:
        """End the cell that was to run: no rank has begun it."""
        cell, self.cell = self.cell, None
        if cell is not None:
            self._rest()
            self.publish()
            self._end(cell, State.FAILED, summary(failure), failure)
            self._hand_back(say.CELL_BEFORE_FAILED(cell=cell.name), cell.cell_of)

    # -- ranks that part ways ----------------------------------------------------------------

    def part(self, why: Failure | None) -> None:
        """Have the ranks restarted: they are out of step, or were asked to."""
        if not (self.stopping or self._ranks.ends):
            self._parted = why
            self._ranks.stop()

    def leave(self, why: str) -> None:
        """Note that the ranks are gone, and that others may come in their place."""
        if self.ready and not self.stopping:
            self.lose(say.RANKS_LEFT(session=self._name, why=why))
        if self.stopping:
            self._parted = self._parted or Failure(kind="cluster", message=why)
            self.restarted(())

    def lose(self, why: str | None = None) -> None:
        """Say that the variables are gone; cells that are sent from now on bring what they need.

        Parameters
        ----------
        why
            What is said to those who sent the cells that wait.
        """
        self.stopping = True
        restarts = self._known["restarts"] + 1
        self._holdings = Holdings(self._nodes)
        self._known.update({"lost": self._data, "restarts": restarts, "restored": None})
        self._known["variables"] = {}
        self._known["packages"] = {}
        self._hand_back(why or say.RANKS_RESTARTED(session=self._name))

    def restarted(self, ends: Sequence[RankEnd]) -> tuple[int, str]:
        """Note that all ranks are gone, and others are about to start.

        Parameters
        ----------
        ends
            How they ended; nothing where their pods are gone, too.

        Returns
        -------
        int
            How often that has happened.
        str
            Why.
        """
        failure = self._parted or self._why_lost(ends)
        cell, self.cell = self.cell, None
        self.ready, self.stopping, self._parted = False, False, None
        self.publish()
        if cell is not None:
            self._fail(cell, failure, say.LAST_SAVE if ends else say.COMES_BACK)
        self._ranks.save()
        why = say.RESTARTED(reason=summary(failure))
        self._ranks.record.event("restart", why)
        return self._known["restarts"], why

    def _fail(self, cell: Cell, failure: Failure, save: Message) -> None:
        """End a cell whose ranks are gone, and name what went with them."""
        named = joined(self._known["lost"], most=_NAMED)
        if cell.interrupted is not None:
            message = say.CANCELLED_AND_LOST if named else say.CANCELLED_WITH_RANKS
            self._end(cell, State.CANCELLED, message(names=named))
            return
        if failure.kind == "cancelled":
            self._end(cell, State.CANCELLED, failure.message)
            return
        self._say_lost(failure, named, say.LOST, save)
        self._end(cell, State.FAILED, summary(failure), failure)

    def _say_lost(self, failure: Failure, named: str, lost: Message, save: Message) -> None:
        """Add to a failure which variables are lost, and what was saved.

        Parameters
        ----------
        named
            The variables.
        lost, save
            What is said of them, and of those that were saved.
        """
        if not named:
            return
        told = [failure.hint, lost(names=named)]
        if saved := self._known.get("saved"):
            names = joined(saved["names"], most=_NAMED)
            when = _clock(saved["time"])
            told.append(save(names=names, time=when, session=self._session))
        failure.hint = " ".join(filter(None, told))

    @property
    def _data(self) -> list[str]:
        return sorted(name for name, one in self._known["variables"].items() if _is_data(one))

    def _why_lost(self, ends: Sequence[RankEnd]) -> Failure:
        """Return why the ranks must restart: a rank's failure, or that they are out of step."""
        ended = {} if self.cell is None else self.cell.ends
        by_itself = [end for end in ends if not end.stopped]
        told = [end if not end.stopped else ended.get(end.rank, end) for end in ends]
        if by_itself or any(end.error for end in told):
            return diagnose(told)
        return Failure(kind="error", message=say.OUT_OF_STEP())

    # -- its end -----------------------------------------------------------------------------

    def finish(self) -> None:
        """End the cells that are left: the end of the session is written."""
        state = self._ranks.record.state
        running, waiting, found = self.cell, [*self._waiting], state["failure"]
        self.cell = None
        self._waiting.clear()
        self.publish()
        failure = None
        if state["state"] == State.FAILED and found is not None:
            failure = Failure.from_json(found)
        for cell in [*filter(None, [running]), *waiting]:
            if failure is not None and (cell is running or not self.ready):
                if cell is running:
                    named = joined(self._data, most=_NAMED)
                    self._say_lost(failure, named, say.LOST_WITH_SESSION, say.LAST_SAVE_OF_ENDED)
                self._end(cell, State.FAILED, summary(failure), failure)
            elif failure is not None:  # the ranks were up, so these cells did not cause it
                why = say.RANKS_LEFT(session=self._name, why=summary(failure))
                self._end(cell, State.CANCELLED, why)
            else:
                self._end(cell, State.CANCELLED, say.SESSION_IS_OVER(session=self._name))

    def publish(self) -> None:
        """Write what is known of the session, for those who send cells and those who look."""
        self._known.update(
            {
                "running": self.cell.name if self.cell else None,
                "waiting": [cell.name for cell in self._waiting],
                "idle_since": self._idle.since if self._is_idle else None,
                "idle_ends": self._idle.ends if self._is_idle else None,
            }
        )
        with contextlib.suppress(OSError):  # a full disk, a deleted directory: others look for it
            session.write(self._directory, self._known)

    # -- another process that goes on --------------------------------------------------------

    def saved(self) -> Saved:
        """Return what another process needs to go on."""
        return {
            "number": self._number,
            "ready": self.ready,
            "stopping": self.stopping,
            "parted": None if self._parted is None else self._parted.to_json(),
            "cell": None if self.cell is None else self.cell.saved(),
            "waiting": [one.name for one in self._waiting],
            "holdings": self._holdings.saved(),
            "allowed": self._idle.allowed,
        }

    def resume(self, saved: Saved, lock: Callable[[JobDir], int | None]) -> None:
        """Go on where another process was killed.

        Parameters
        ----------
        lock
            Takes the lock of a job, if nobody has it.
        """
        self._known = session.known(self._directory)
        self._number, self.ready, self.stopping = saved["number"], saved["ready"], saved["stopping"]
        self._holdings.resume(saved["holdings"])
        parted = saved["parted"]
        self._parted = None if parted is None else Failure.from_json(parted)
        if (since := self._known["idle_since"]) is not None:
            self._idle.resume(since, saved.get("allowed"))
        for name in saved["waiting"]:
            if (cell := self._reopen(name, lock)) is not None:
                self._waiting.append(cell)
        known = saved["cell"]
        if known is None:
            return
        if (cell := self._reopen(known["name"], lock)) is None:
            self._hand_back_after(known["name"])
            return
        self.cell = cell
        cell.resume(known)
        if self._nodes == len(cell.ends if self._nodes == 1 else cell.checked):
            self._close(cell)

    def _hand_back_after(self, name: str) -> None:
        """End what waits for a cell that did not end well, as its end was not noted any more."""
        directory = JobDir(self._directory.path.parent / name)
        with contextlib.suppress(OSError, JobDirError):
            state, of = directory.read_state(), directory.read_manifest().get("cell_of")
            ended = state is not None and state["state"].ended
            if state is not None and ended and state["state"] != State.SUCCEEDED and of:
                self._hand_back(say.CELL_BEFORE_FAILED(cell=name), of)

    def retell(self) -> None:
        """Tell the ranks once more what they may not have heard of the cell that runs."""
        cell = self.cell
        if cell is None or self.stopping:
            return
        self._ranks.begin(cell)
        if cell.interrupted is not None:
            self._ranks.tell({"kind": "hold", "cell": cell.number})
        if (stop_at := cell.stop_at) is not None:
            self._ranks.tell({"kind": "stop_at", "cell": cell.number, "reports": stop_at})
        if len(cell.ends) == self._nodes:
            self._check(cell)

    def _reopen(self, name: str, lock: Callable[[JobDir], int | None]) -> Cell | None:
        directory = JobDir(self._directory.path.parent / name)
        with contextlib.suppress(OSError, JobDirError):
            state, taken = directory.read_state(), lock(directory)
            if taken is None:
                return None
            if state is not None and not state["state"].ended:
                found = sessioncell.opened(directory, taken, self._uid, self._nodes)
                if found is not None:
                    found.record.state = state
                return found
            os.close(taken)
        return None

    @property
    def names(self) -> list[str]:
        """The jobs of the cell that runs, and of those that wait."""
        return [cell.name for cell in self._all()]

    @property
    def restarts(self) -> int:
        """How often the ranks were restarted."""
        return self._known["restarts"]

    def _all(self) -> list[Cell]:
        return [*filter(None, [self.cell]), *self._waiting]


def _clock(when: float) -> str:
    return time.strftime("%H:%M", time.localtime(when))


def _donated(
    cell: Cell, before: Mapping[str, session.Variable], now: Mapping[str, session.Variable]
) -> Text | None:
    """Say which variables a cell has lost the buffers of."""
    gone = {name: one["cell"] for name, one in now.items() if one["deleted"]}
    old = {name for name, one in before.items() if one["deleted"]}
    lost = sorted(n for n, number in gone.items() if n not in old or number == cell.number)
    return say.DONATED(names=joined(lost, most=_NAMED)) if lost else None


def _read_donated(cell: Cell, before: Mapping[str, session.Variable]) -> Text | None:
    """Say which variables a cell reads whose buffers were gone before it."""
    kept = cell.manifest.get("kept", ())
    read = [name for name in kept if name in before and before[name]["deleted"]]
    return say.READ_DONATED(names=joined(read, most=_NAMED)) if read else None


def _is_data(variable: session.Variable) -> bool:
    """Return whether the loss of a variable is worth mentioning: code is resent automatically."""
    return variable["kind"] in ("array", "value")


def farewell(idle: float) -> Text:
    """Say that a session has ended because it was idle for so many seconds."""
    return say.IDLE(time=span(idle))
