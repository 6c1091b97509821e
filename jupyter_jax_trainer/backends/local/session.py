"""The supervisor of a session: it holds the ranks, and has them run one cell after another.

A session is a job whose ranks stay. Each of its cells has a job directory of its own, which this
process writes while it has the lock of that.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_jax_trainer.backends.local.plan import plan_of
from jupyter_jax_trainer.backends.local.ranks import LocalRank
from jupyter_jax_trainer.backends.local.supervisor import Supervisor
from jupyter_jax_trainer.backends.sequencer import Sequencer, farewell
from jupyter_jax_trainer.backends.sessioncell import Cell
from jupyter_jax_trainer.channel.listener import Asked
from jupyter_jax_trainer.jobdir.failure import Failure
from jupyter_jax_trainer.jobdir.state import error_record
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.messages import channel
from jupyter_jax_trainer.worker.records import Instruction, Position


@dataclass
class SessionSupervisor(Supervisor):
    """Runs a session from the queue to its end."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._cells = Sequencer(self.directory, self)
        self._cells.publish()

    def _on_request(self, asked: Asked) -> None:
        match asked.request["ask"]:
            case "run":
                lock = asked.take_file()
                asked.answer(refused=self._cells.accept(asked.request["cell"], lock))
            case "restart":
                asked.answer(refused=self._cells.restart())
            case "prolong":
                asked.answer(refused=self._cells.prolong(asked.request.get("seconds")))
            case "profile" if self._cells.cell is None:
                asked.answer(refused=channel.NO_CELL_RUNS())
            case _:
                super()._on_request(asked)

    def _while_waiting(self) -> None:
        super()._while_waiting()
        self._cells.look()

    def _step(self) -> None:
        super()._step()
        if self._cells.cell is not None:
            self._index_logs(self._cells.cell.record)
        cells = self._cells
        if self._stop is None and not cells.ready and all(rank.has_run for rank in self.ranks):
            cells.start()
        cells.step()
        if self._stop is None and 0 < cells.idle_limit < cells.idle_for:
            self._farewell = farewell(cells.idle_limit)
            for rank in self.ranks:
                rank.tell(kind="end")

    def _look_for_silence(self) -> None:
        """Leave that to the cells: a session says nothing by itself."""

    def _book(self) -> Recorder:
        """Return the recorder of the running cell, or else the session's."""
        return self.record if self._cells.cell is None else self._cells.cell.record

    def _take(self, rank: LocalRank, message: Any) -> None:
        match message["kind"]:
            case "ended":
                told = message["error"]
                error = None if told is None else error_record(told)
                order = self._next()
                self._cells.take_end(rank.number, message["cell"], error, message, order)
            case "held":
                self._cells.take_held(rank.number, message["cell"], message["reports"])
            case "checked":
                self._cells.take_check(rank.number, message["cell"], message["agreed"])
            case "resources":
                super()._take(rank, message)
                self._cells.share_usage()
            case _:
                super()._take(rank, message)

    # -- what the cells need -----------------------------------------------------------------

    @property
    def ends(self) -> bool:
        """Whether the session is about to end."""
        stop = self._stop
        return bool(
            self._farewell or (stop and (stop.failure or stop.cancelled or not self._cells.ready))
        )

    @property
    def hears(self) -> bool:
        """Whether what ranks say arrives."""
        return True

    def save(self) -> None:
        """Keep nothing: the ranks end with this process."""

    def begin(self, cell: Cell) -> None:
        """Have the ranks run a cell."""
        if self._ticket is not None:
            self._ticket.take(plan_of(self.manifest)["cores"])
        for rank in self.ranks:
            cell.record.rank(rank.number)["pid"] = rank.process.pid
            rank.tell(
                kind="cell",
                cell=cell.number,
                name=cell.name,
                bundle=str(cell.directory.bundle),
                digest=cell.manifest["digest"],
                log=str(cell.directory.log(rank.number)),
                result=str(cell.directory.result),
            )

    def tell(self, instruction: Instruction) -> None:
        """Tell all ranks something."""
        for rank in self.ranks:
            rank.tell(**instruction)

    def interrupt(self, cell: Cell) -> None:
        """Interrupt the cell on all ranks; a signal could come before the cell does."""
        self.tell({"kind": "interrupt", "cell": cell.number})

    def ask_where(self) -> None:
        """Ask all ranks where they are."""
        self._roll_call.ask(self.ranks)

    def places(self) -> Sequence[Position | None] | None:
        """Return where each rank is; None while they are being asked."""
        over = self._roll_call.is_over(self.ranks)
        return [rank.where for rank in self.ranks] if over else None

    def withdraw(self, cell: Cell) -> bool:
        """Tell that the ranks have heard of a cell: nothing has to be sent before."""
        return False

    def rest(self) -> None:
        """Let others use the cores."""
        if self._ticket is not None:
            self._ticket.take(0)

    def end(self, cell: Cell) -> None:
        """Index what is left of a cell's log."""
        cell.record.index_logs(last=True)

    def stop(self) -> None:
        """Stop all ranks, so that they are restarted."""
        self._begin_stop()

    # -- their end ---------------------------------------------------------------------------

    def _begin_stop(self, failure: Failure | None = None, cancelled: str | None = None) -> None:
        """Begin to end the session, or its ranks, which then have nothing more to say."""
        super()._begin_stop(failure, cancelled)
        stop = self._stop
        if stop and self._cells.ready and not (stop.signalled or stop.failure or stop.cancelled):
            stop.signalled = True
            self._signal(signal.SIGKILL)
            self._cells.lose()

    def _start_again(self) -> bool:
        """Restart the ranks in place, unless they never came up or the session ends."""
        if self._stop is None or self.ends:
            return False
        self._clear_ranks()
        self._spawn_anew(*self._cells.restarted([rank.end for rank in self.ranks]))
        return True

    def _write_end(self) -> None:
        """Write the end of the session, and of the cells that it has not run."""
        super()._write_end()
        self._cells.finish()
