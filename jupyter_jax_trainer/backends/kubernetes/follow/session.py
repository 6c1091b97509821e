"""The ranks of a session in their pods: what they are told to do, and what they say.

They are told through the channel, each thing once: it has a number, and a rank leaves out what it
has heard. What they say comes in their logs, in order with what they print; so the log of a cell is
what stands between two messages.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api import identity
from jupyter_jax_trainer.backends.kubernetes.api.client import Client
from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import starved
from jupyter_jax_trainer.backends.kubernetes.follow import fetch, profiles
from jupyter_jax_trainer.backends.kubernetes.follow.errands import Errands, Restart, Tell, Where
from jupyter_jax_trainer.backends.kubernetes.follow.line import Reach
from jupyter_jax_trainer.backends.kubernetes.follow.ownership import Ownership
from jupyter_jax_trainer.backends.kubernetes.follow.ranks import Ranks
from jupyter_jax_trainer.backends.kubernetes.follow.saved import SavedRanks
from jupyter_jax_trainer.backends.kubernetes.logs import messages
from jupyter_jax_trainer.backends.kubernetes.logs.messages import Message
from jupyter_jax_trainer.backends.sequencer import Sequencer, farewell
from jupyter_jax_trainer.backends.sessioncell import Cell
from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.jobdir.failure import Failure, RankEnd
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.states import Phase, State
from jupyter_jax_trainer.worker.records import ErrorRecord, Instruction, Position, Whereabouts

# The order of what a rank is told of one cell.
_STEPS = ("cell", "hold", "stop_at", "interrupt", "check")
_ROOM = 8  # numbers for each cell
_LATE = 2.0  # seconds between looks after which this process itself was held up
_PIECE = 1 << 20


class Session:
    """A session that is followed: its cells, and the ranks on which they run.

    Parameters
    ----------
    directory, manifest
        The session's job.
    client, ownership
        The cluster, and whose the channel is.
    ranks
        What is known of the ranks.
    guard
        Held while something is taken or looked at.
    reach
        Gives where the channel is.

    Attributes
    ----------
    trouble
        Why the cluster has not answered for a while.
    """

    def __init__(
        self,
        directory: JobDir,
        manifest: Manifest,
        client: Client,
        ownership: Ownership,
        ranks: Ranks,
        guard: threading.RLock,
        reach: Callable[[], Reach],
    ) -> None:
        self.trouble: str | None = None
        self._directory, self._uid = directory, manifest["uid"]
        self._nodes = manifest["spec"]["nodes"]
        self._memory = manifest["spec"].get("memory")
        self._most = manifest["spec"].get("max_restarts") or 0
        self._client, self._known, self._guard = client, ranks, guard
        self._ownership = ownership
        # One that takes over is so after a check of the ranks: what their logs say may be old.
        self._in_charge = identity.submitted_here(manifest)
        self._probe: int | None = None
        self._checked: set[int] = set()
        self._reach = reach
        self._processes: dict[int, str] = {}  # of each rank, the one that speaks
        self._running: set[int] = set()
        # Of the cell with this number, by ranks: where in the session's log its own begins and
        # ends.
        self._spans_of = 0
        self._begins: dict[int, int] = {}
        self._cuts: dict[int, int] = {}
        self._gone: dict[int, RankEnd] = {}
        self._restart: str | None = None  # its id
        self._restarted_at: float | None = None
        self._idle: float | None = None
        self._places: Sequence[Position | None] | None = None
        self._telling: Tell | None = None  # of the cell
        self._held: fetch.Held | None = None  # results of the cell
        self._fetching: fetch.Fetch | None = None
        self._said_trouble = False
        self._doubted = -timeouts.DRAIN.seconds
        self._looked_at = time.monotonic()
        self._cells = Sequencer(directory, self)
        self._errands = Errands(client, ownership, lambda: reach().target)
        if ranks.kept.session is not None:
            self._resume(ranks.kept.session)
        self._cells.publish()

    def start(self) -> None:
        """Begin to tell the ranks."""
        self._errands.start()

    # -- what others ask ---------------------------------------------------------------------

    def accept(self, name: str, lock: int | None) -> str | None:
        """Take a cell, and run it if it is its turn; give why not, if it is refused."""
        with self._guard:
            if (barrier := self._ownership.barrier) is not None:
                if lock is not None:
                    os.close(lock)
                return barrier
            refused = self._cells.accept(name, lock)
            self._cells.step()
            return refused

    def restart(self) -> str | None:
        """Restart the ranks; give why not, if that is refused."""
        with self._guard:
            if self._probe is not None and self._all_run and self._ownership.barrier is None:
                # This store has taken over, and the ranks don't answer: nobody else has them.
                self._in_charge, self._probe = True, None
                self._cells.ready = True
            return self._cells.restart()

    def prolong(self, seconds: float | None) -> str | None:
        """Let the session be idle for longer; give why not, if that is refused."""
        with self._guard:
            refused = self._cells.prolong(seconds)
            if refused is None:
                self._tell_prolonged()
            return refused

    def _tell_prolonged(self) -> None:
        """Tell the pods for how long the session may be idle from now on."""
        left: Mapping[str, JsonValue] = {"kind": "prolong", "seconds": self._cells.idle_left}
        self._errands.put(Tell(left, dict(self._processes)))

    def has(self, cell: str) -> bool:
        """Return whether a cell waits or runs here."""
        with self._guard:
            return cell in self._cells.names

    @property
    def running(self) -> JobDir | None:
        """The job of the cell that runs."""
        return None if self._cells.cell is None else self._cells.cell.directory

    @property
    def farewell(self) -> str | None:
        """Why the session has ended well."""
        return None if self._idle is None else farewell(self._idle)

    def look(self) -> None:
        """Look after the cells; called often."""
        with self._guard:
            now = time.monotonic()
            late = now - self._looked_at > _LATE
            self._looked_at = now
            if late or self.trouble is not None or self._errands.trouble is not None:
                self._doubted = now
            if (
                self._restarted_at is not None
                and now - self._restarted_at > timeouts.LOG_END.seconds
            ):
                self._note_restart()
            self._look_at_owner()
            if not self._cells.ready:
                self._cells.look()
            self._cells.step()
            cell = self._cells.cell
            if cell is not None:
                self._say_trouble(cell)
                self._fetch(cell)

    def _look_at_owner(self) -> None:
        """Let go of the ranks where another store has taken over; check them where this one has."""
        barrier = self._ownership.barrier
        if barrier is not None and self._in_charge:
            self._in_charge = False
            self._restart = self._restarted_at = None
            self._errands.clear()
            self._cells.give_up(barrier)
        elif barrier is None and not self._in_charge and self._probe is None and self._all_run:
            self._probe = self._cells.probe()
            self._checked.clear()
            told = {"kind": "check", "cell": self._probe}
            self._tell(told)

    @property
    def _all_run(self) -> bool:
        return len(self._running) == self._nodes

    def _say_trouble(self, cell: Cell) -> None:
        """Say what keeps the ranks from hearing of a cell, and when that is over."""
        trouble = self._errands.trouble or None
        if trouble is not None or self._said_trouble:
            cell.record.change(State.RUNNING, trouble)
        self._said_trouble = trouble is not None

    def leave(self, why: str) -> None:
        """Note that the pods go, and others may come in their place."""
        with self._guard:
            self._errands.clear()
            self._restart = self._restarted_at = None
            self._processes.clear()
            self._running.clear()
            self._gone.clear()
            self._cells.leave(why)

    @property
    def running_cell(self) -> Cell | None:
        """The cell that runs."""
        return self._cells.cell

    def finish(self) -> None:
        """End the cells that are left: the session has ended."""
        with self._guard:
            self._errands.close()
            self._cells.finish()

    # -- what the cells need -----------------------------------------------------------------

    @property
    def record(self) -> Recorder:
        """What is written of the session's job."""
        return self._known.record

    @property
    def ends(self) -> bool:
        """Whether the session is about to end."""
        lost = self._known.kept.broken and not self._known.will_start_again(self._most)
        return self._idle is not None or lost or self._directory.cancel.exists()

    @property
    def hears(self) -> bool:
        """Whether what ranks say arrives."""
        return time.monotonic() - self._doubted > timeouts.DRAIN.seconds

    def save(self) -> None:
        """Keep what is known for the next follower."""
        saved: SavedRanks = {
            "cells": self._cells.saved(),
            "processes": {str(rank): one for rank, one in self._processes.items()},
            "running": sorted(self._running),
            "spans_of": self._spans_of,
            "begins": {str(rank): at for rank, at in self._begins.items()},
            "cuts": {str(rank): at for rank, at in self._cuts.items()},
            "gone": [end.to_json() for end in self._gone.values()],
            "restart": self._restart,
            "in_charge": self._in_charge,
            "held": self._held,
            "idle": self._idle,
        }
        self._known.kept.session = saved
        self._known.kept.save()

    def begin(self, cell: Cell) -> None:
        """Have all ranks run a cell."""
        is_new = self._spans_of != cell.number
        if is_new:
            self._spans_of = cell.number
            self._held = self._fetching = None
            self._begins.clear()
            self._cuts.clear()
            for rank in self.record.state["ranks"]:
                place = {"pod": rank.get("pod"), "host": rank.get("host")}
                cell.record.rank(rank["rank"]).update(place)  # type: ignore[typeddict-item]
            self.save()
        told: dict[str, Any] = {"kind": "cell", "cell": cell.number, "name": cell.name}
        told["digest"] = cell.manifest["digest"]
        self._telling = self._tell(told, cell, may_be_known=not is_new)

    def withdraw(self, cell: Cell) -> bool:
        """Take a cell back of which no rank has heard; return whether that is so."""
        return self._telling is not None and self._telling.withdraw()

    def tell(self, instruction: Instruction) -> None:
        """Tell all ranks something about the cell that runs."""
        self._tell(instruction)
        self.save()

    def interrupt(self, cell: Cell) -> None:
        """Interrupt the cell on all ranks."""
        self.tell({"kind": "interrupt", "cell": cell.number})

    def ask_where(self) -> None:
        """Ask all ranks where they are."""
        self._places = None
        self._errands.put(Where(self._on_places))

    def _on_places(self, found: Sequence[Whereabouts]) -> None:
        where = {one["rank"]: one["where"] for one in found}
        with self._guard:
            self._places = [where.get(rank) for rank in range(self._nodes)]

    def places(self) -> Sequence[Position | None] | None:
        """Return where each rank is; None while they are being asked."""
        return self._places

    def _tell(
        self, told: Mapping[str, Any], cell: Cell | None = None, *, may_be_known: bool = True
    ) -> Tell:
        order = _ROOM * told["cell"] + _STEPS.index(told["kind"])
        bundle = None if cell is None else cell.directory.bundle
        full = {**told, "order": order}
        on_no_room = partial(self._on_no_room, told["cell"])
        errand = Tell(full, dict(self._processes), bundle, on_no_room, may_be_known)
        self._errands.put(errand)
        return errand

    def _on_no_room(self, number: int, begun: bool) -> None:
        failure = Failure(kind="disk", message=say.NO_ROOM_FOR_CELL())
        with self._guard:
            if self._cells.cell is None or self._cells.cell.number != number:
                return  # it was taken back
            if begun:
                self._cells.part(failure)
            else:
                self._cells.refuse(failure)

    def stop(self) -> None:
        """Stop all ranks, and restart them."""
        # Before `lose` saves what is known: another follower has to go on with the restart.
        self._restart = f"{self._uid[:16]}-{self._cells.restarts + 1}"
        self._processes.clear()
        self._running.clear()
        self._errands.clear()
        self._cells.lose()
        for rank in range(self._nodes):
            self.record.rank(rank).update(
                {"state": Phase.STARTING, "restarts": self._cells.restarts}
            )
        self._errands.put(Restart(self._restart, self._on_restart))
        self.save()

    def _on_restart(self) -> None:
        with self._guard:
            self._restarted_at = time.monotonic()
            self._note_hellos()

    def _note_hellos(self) -> None:
        """Go on once all ranks have said their first word: until there the log is the cell's."""
        if self._restarted_at is not None and len(self._processes) == self._nodes:
            self._note_restart()

    def _note_restart(self) -> None:
        self._restart = self._restarted_at = None
        ends = [
            self._gone.get(rank) or RankEnd(rank=rank, stopped=True) for rank in range(self._nodes)
        ]
        self._gone.clear()
        self._cells.restarted(ends)
        if self._in_charge and self._all_run and len(self._processes) == self._nodes:
            self._cells.start()  # they said so before it was known that they are new

    def rest(self) -> None:
        """Do nothing: the pods stay."""

    def end(self, cell: Cell) -> None:
        """Write what is left of a cell's log."""
        self._errands.forget(cell.directory.bundle)
        for rank in self._begins:
            self._copy(cell, rank, None, time.time())
        cell.record.index_logs(last=True)
        self._held = self._fetching = None
        table = cell.record.state["results"]
        if table:
            cell.record.results(fetch.settle(cell.directory, table, None))

    # -- what the ranks say ------------------------------------------------------------------

    def take(self, rank: int, message: Message, offset: int) -> None:
        """Take a message of a rank; called in the order of its log, by the thread that reads it."""
        with self._guard:
            try:
                taken = self._take(rank, message, offset)
            except (ValueError, TypeError, KeyError, AttributeError):
                self.record.event("warning", say.BAD_RECORD(), rank)
                return
            except FileNotFoundError:  # the job of the cell was deleted
                return
            if not taken:
                self._known.take(rank, message, offset)
                self._cells.step()

    def _take(self, rank: int, message: Message, offset: int) -> bool:
        """Take what is about a cell, or about ranks that can be restarted; tell whether."""
        cell, kept = self._cells.cell, self._known.kept
        inside = cell is not None and rank in self._begins and rank not in self._cuts
        match message:
            case messages.Began():
                if cell is not None and message.cell == cell.number:
                    self._begins.setdefault(rank, offset)
                    self.save()
                elif self._cells.note_other(message.cell):
                    self._probe = None
            case messages.Ended():
                bound = {
                    "cell": message.cell,
                    "bound": message.bound,
                    "gone": message.gone,
                    "variables": message.variables,
                    "saved": message.saved,
                    "parted": message.parted,
                }
                if cell is None or message.cell != cell.number:
                    self._cells.take_other(rank, bound)
                else:
                    self._cuts.setdefault(rank, offset)
                    order = kept.next_order()
                    error = self._with_hint(message.error)
                    self._cells.take_end(rank, message.cell, error, bound, order)
            case messages.HeldReports():
                self._cells.take_held(rank, message.cell, message.reports)
            case messages.Checked() if message.cell == self._probe:
                self._checked.add(rank)
                if len(self._checked) == self._nodes and message.agreed:
                    self._in_charge, self._probe = True, None
                    self._gone.clear()
                    self._cells.start()
                self._cells.step()
            case messages.Checked():
                self._cells.take_check(rank, message.cell, message.agreed)
            case messages.SavedBeforeEnd() if message.saved is not None:
                self._cells.take_saved(message.saved)
            case messages.Restored() if message.saved is not None and not self._cells.ready:
                if self._processes.get(rank) == message.incarnation:
                    bound = {"cell": 0, "bound": message.bound, "gone": []}
                    described = {**bound, "variables": message.variables}
                    self._cells.take_restored(rank, described, message.saved)
            case messages.Gone():
                end = self._gone.setdefault(rank, RankEnd(rank=rank, joined=True))
                end.exit, end.out_of_memory = message.exit, message.out_of_memory
                if message.out_of_memory:
                    said = starved(self._memory)
                    end.cause, end.hint = said.reason, said.hint
                end.order = min(end.order, kept.next_order())
                self._lost()
            case messages.Failed() if rank in self._running:
                end = self._gone.setdefault(rank, RankEnd(rank=rank, joined=True))
                end.error, end.order = message.error, kept.next_order()
                self.save()
            case messages.Idle():
                self._idle = message.seconds
                self.save()
            case messages.Hello():
                self._greet(rank, message, offset)
                return False
            case messages.Reported() if inside and cell is not None:
                cell.record.reports(rank, message.reports, message.frame)
            case messages.Sampled():
                self._known.take(rank, message, offset)
                self._cells.share_usage()
            case messages.Displayed() if inside and cell is not None:
                place = offset - self._begins[rank]
                cell.record.display(rank, {**message.display, "log_offset": place})
            case messages.TimeSpent() if inside and cell is not None:
                cell.record.spent(rank, message.spent, message.pace)
            case messages.ToCompile() if inside and cell is not None:
                cell.record.program(rank, message.program)
            case messages.ResultPart() if inside and cell is not None:
                fetch.add_part(cell.directory, message.part)
            case messages.Results() if inside and cell is not None:
                cell.record.results(message.table)
            case messages.ResultHeld() if inside and cell is not None:
                self._held = {
                    **message.file,
                    "port": message.port,
                    "seconds": message.seconds,
                    "rank": rank,
                    "since": time.time(),
                }
                self.save()
                self._fetch(cell)
            case messages.ProfilePart() if inside and cell is not None:
                profiles.add_part(cell.directory, rank, message.name, message.part)
            case messages.ProfileTaken() if inside and cell is not None:
                taken = message.taken
                cell.record.profiled(taken["name"], profiles.settle(cell.directory, rank, taken))
            case messages.ProfileHeld() if inside and cell is not None:
                self._known.note_held_profile(rank, message, cell.name)
            case messages.Message(kind="running"):
                self._running.add(rank)
                self._known.take(rank, message, offset)
                if self._in_charge and self._all_run and not self._cells.stopping:
                    self._cells.start()
                self._cells.step()
            case _:
                return False
        return True

    def _with_hint(self, error: ErrorRecord | None) -> ErrorRecord | None:
        """Say what to do about a package that came too late: they go with the first cell alone."""
        if error is None or error["type"] != ModuleNotFoundError.__name__ or error["hint"]:
            return error
        return {**error, "hint": say.PACKAGES_AT_FIRST(session=self._directory.path.name)}

    def _greet(self, rank: int, message: Message, offset: int) -> None:
        """Take the first word of a process of a rank, perhaps of one that nobody has started."""
        known = self._processes.get(rank)
        if known == message.incarnation:
            return
        unasked = known is not None and self._cells.ready and not self._cells.stopping
        if unasked:
            end = self._gone.setdefault(rank, RankEnd(rank=rank, joined=True))
            end.cause = say.STARTED_BY_NODE()
            self._lost()
        elif rank in self._begins:
            self._cuts.setdefault(rank, offset)
        if not self._in_charge:
            self._probe = None
            self._cells.forget(rank)
        if not unasked:
            self._processes[rank] = message.incarnation
            self._running.discard(rank)
        self.save()
        self._note_hellos()

    def _lost(self) -> None:
        """Have all ranks restarted, because one is gone."""
        if self._cells.ready:
            self._cells.part(None)
        self.save()

    # -- a cell's log and results --------------------------------------------------------------

    def on_text(self, rank: int, length: int, seen: float) -> None:
        """Take what is new in the log of a rank, all messages up to there are known."""
        with self._guard:
            cell = self._cells.cell
            if cell is not None and rank in self._begins:
                self._copy(cell, rank, length, seen)

    def _copy(self, cell: Cell, rank: int, length: int | None, seen: float) -> None:
        """Bring the log of a cell up to date with the session's."""
        begin, cut = self._begins[rank], self._cuts.get(rank)
        with contextlib.suppress(OSError), self._directory.log(rank).open("rb") as source:
            limits = (os.fstat(source.fileno()).st_size, length, cut)
            end = min(limit for limit in limits if limit is not None)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            target = os.open(cell.directory.log(rank), flags, 0o600)
            try:
                have = os.fstat(target).st_size
                source.seek(begin + have)
                left = end - begin - have
                while left > 0 and (piece := source.read(min(_PIECE, left))):
                    os.write(target, piece)
                    left -= len(piece)
                now = os.fstat(target).st_size
            finally:
                os.close(target)
            if now > have:
                cell.record.index(rank, now, seen)

    def _fetch(self, cell: Cell) -> None:
        """Fetch results that a rank holds; it ends the cell when they are here."""
        held = self._held
        if held is None or self._fetching is not None:
            return
        if (target := self._reach().target) is None:
            return
        pod = self.record.state["ranks"][held["rank"]].get("pod")
        if pod is None:
            return

        def problem(words: str) -> None:
            with self._guard:
                cell.record.event("warning", words)

        self._fetching = fetch.Fetch(
            self._client, pod, held, target.key, cell.directory.result, problem, mine=True
        )
        self._fetching.start()

    # -- after a follower that was killed --------------------------------------------------------

    def _resume(self, saved: SavedRanks) -> None:
        self._processes = {int(rank): one for rank, one in saved["processes"].items()}
        self._running = set(saved["running"])
        self._spans_of = saved["spans_of"]
        self._begins = {int(rank): at for rank, at in saved["begins"].items()}
        self._cuts = {int(rank): at for rank, at in saved["cuts"].items()}
        self._gone = {end["rank"]: RankEnd.from_json(end) for end in saved["gone"]}
        self._restart, self._idle = saved["restart"], saved["idle"]
        self._in_charge = saved.get("in_charge", True)
        self._held = saved["held"]
        self._doubted = time.monotonic()
        self._cells.resume(saved["cells"], JobDir.take_lock)
        if self._restart is not None:
            self._errands.put(Restart(self._restart, self._on_restart))
        self._cells.retell()
        if self._cells.is_prolonged:
            self._tell_prolonged()  # they may not have heard of it
