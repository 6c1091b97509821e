"""Writes the job directory, for the one process that runs or follows the job."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jupyter_jax_trainer import masking
from jupyter_jax_trainer.jobdir.failure import Failure
from jupyter_jax_trainer.jobdir.files import (
    LineWriter,
    open_regular,
    write_json,
    write_private,
)
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.records import Display, Event
from jupyter_jax_trainer.jobdir.state import (
    InitializerState,
    JobState,
    RankState,
    ResultInfo,
    about_restart,
    first_state,
)
from jupyter_jax_trainer.log import log
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.text import plain
from jupyter_jax_trainer.worker.records import Report

_SAVE_INTERVAL = 0.1  # seconds between states that differ in progress alone
_RESERVE = 64 << 10  # bytes kept free for the last state when the disk is full
_SENTENCE = 1000  # characters of a message that are kept when space is short
_TAIL = 64 << 10  # bytes in which the end of a line is looked for
_FULL = (errno.ENOSPC, errno.EDQUOT)


def _shown(said: str | None) -> str | None:
    return None if said is None else masking.text(said)


class Recorder:
    """State, events, metrics, displays and the log index of one job.

    Sentences are written without what may be secret, for everything that shows a job reads them
    here; a cell's own words, its traceback and its log, are kept as they are.

    Parameters
    ----------
    directory
        Where.
    ranks
        What is known of each rank.
    state
        A state to go on from, of a writer that is gone.

    Attributes
    ----------
    disk_full
        True once a write has failed for lack of space.
    """

    def __init__(
        self, directory: JobDir, ranks: list[RankState], state: JobState | None = None
    ) -> None:
        self.disk_full = False
        self._directory = directory
        self._events = LineWriter(directory.events)
        self._metrics = LineWriter(directory.metrics)
        self._displays = LineWriter(directory.displays)
        self._index = LineWriter(directory.log_index)
        self._indexed = [0] * len(ranks)
        self._saved_at = 0.0
        self._saved = True
        self._dirty = False
        self._reserve = directory.reserve
        self._guard(lambda: write_private(self._reserve, b"\0" * _RESERVE))
        self.state: JobState = state or first_state(State.QUEUED, ranks=ranks, entered=False)

    def _guard(self, write: Callable[[], object]) -> bool:
        """Do a write, and tell whether it was done; a full disk must not end the supervisor."""
        try:
            write()
            return True
        except OSError as error:
            if error.errno not in (*_FULL, errno.ENOENT):
                raise
            # A deleted directory (ENOENT) is seen by the supervisor's own look.
            self.disk_full |= error.errno in _FULL
            return False

    def change(self, state: State, reason: str | None = None, hint: str | None = None) -> None:
        """Go to a state, or change its reason."""
        reason, hint = _shown(reason), _shown(hint)
        entered = self.state["state"] != state or not self.state["history"]
        if entered:
            self.state["history"].append({"state": state, "time": time.time()})
        elif self.state["reason"] == reason:
            return
        self.state.update({"state": state, "reason": reason, "hint": hint})
        self._save_now()  # before the event, which may take the last space
        if entered:
            self.event("state", f"{state}: {reason}" if reason else state)

    def end(self, state: State, reason: str | None = None, failure: Failure | None = None) -> None:
        """Go to the last state; space that was kept for it is freed."""
        assert state.ended
        self._directory.sweep()
        progress = self.state["progress"]
        if state == State.SUCCEEDED and progress and progress["total"] == progress["step"] + 1:
            progress["fraction"] = 1.0  # the cell counts its steps from 0
        if failure is not None and failure.error is None:
            failure = replace(
                failure, message=masking.text(failure.message), hint=_shown(failure.hint)
            )
        self.state["failure"] = failure.to_json() if failure else None
        self.change(state, reason, failure.hint if failure else None)
        if not self._saved and failure is not None:
            # Not even that much space is left: keep the sentence, without the traceback.
            short = replace(failure, error=None, message=failure.message[:_SENTENCE])
            self.state["failure"] = short.to_json()
            self.state["reason"] = reason[:_SENTENCE] if reason else None
            self._save_now()

    @property
    def restarts(self) -> int:
        """How often all ranks have started again."""
        return len(self.state.get("restarts", ()))

    def restart(self, most: int, reason: str) -> None:
        """Note that all ranks start again.

        Parameters
        ----------
        most
            How often they may.
        reason
            Why, in plain words.
        """
        self.state.setdefault("restarts", []).append(
            {
                "time": time.time(),
                "most": most,
                "reason": masking.text(reason),
                "reached": self._forget_progress(),
                "step": None,
            }
        )
        self._save_now()
        self.event("restart", say.ALL_START_AGAIN(restart=self.about_restart()))

    def begin_anew(self) -> None:
        """Note that other ranks come: the job was suspended, or gave way to another one."""
        if (reached := self._forget_progress()) is not None:
            self.state["paused_at"] = reached
        self._dirty = True

    def _forget_progress(self) -> int | None:
        """Forget how far the ranks were; give the step that they had reached."""
        progress, self.state["progress"] = self.state["progress"], None
        return progress["step"] if progress else None

    def about_restart(self) -> str | None:
        """Return why all ranks have started again, and then at which step they go on."""
        return about_restart(self.state.get("restarts", ()))

    def _note_first_step(self, step: int) -> None:
        """Note at which step the ranks go on that have started again, or were resumed."""
        if (reached := self.state.pop("paused_at", None)) is not None:
            self.event("restart", say.RESUMED(step=step, reached=reached))
        if not self.restarts or self.state["restarts"][-1]["step"] is not None:
            return
        self.state["restarts"][-1]["step"] = step
        self.event("restart", str(self.about_restart()))
        if self.state["state"] == State.RUNNING:
            self.change(State.RUNNING, self.about_restart())

    def rank(self, number: int) -> RankState:
        """Return what is known of a rank, for a change that the next `save` writes."""
        self._dirty = True
        return self.state["ranks"][number]

    def initializers(self, found: list[InitializerState]) -> None:
        """Note how those are that fetch data or a model before the training begins."""
        if found != self.state.get("initializers", []):
            self.state["initializers"] = found
            self._dirty = True

    def event(
        self, kind: str, message: str, rank: int | None = None, frame: list[Any] | None = None
    ) -> None:
        """Add an event; `frame` says which message of a log it came from."""
        message = masking.text(message)
        log("info", f"{self._directory.path.name}: {' '.join(plain(message).split())}")
        line: Event = {"time": time.time(), "kind": kind, "rank": rank, "message": message}
        if frame is not None:
            line["frame"] = frame
        self._guard(lambda: self._events.write(line))

    def reports(self, rank: int, reports: list[Report], frame: list[Any] | None = None) -> None:
        """Add what ``report()`` was given; rank 0's last one is the job's progress."""
        more = {"rank": rank} if frame is None else {"rank": rank, "frame": frame}
        self._guard(lambda: self._metrics.write(*({**line, **more} for line in reports)))
        if rank != 0 or not reports:
            return
        last = reports[-1]
        before = self.state["progress"]
        totals = [line["total"] for line in reports if line["total"]]
        total = totals[-1] if totals else before["total"] if before else None
        fraction = min(1.0, last["step"] / total) if total else None
        metrics = dict(before["metrics"]) if before else {}
        for line in reports:
            metrics.update(line["values"])
        self.state["progress"] = {
            "step": last["step"],
            "total": total,
            "fraction": fraction,
            "metrics": metrics,
            "time": last["time"],
        }
        self._note_first_step(reports[0]["step"])
        self._dirty = True

    def display(self, rank: int, shown: Display) -> None:
        """Add what a rank displayed."""
        self._guard(lambda: self._displays.write({**shown, "rank": rank}))

    def results(self, table: list[ResultInfo]) -> None:
        """Note which variables were brought back."""
        self.state["results"] = table
        self._dirty = True

    def index_logs(self, last: bool = False) -> None:
        """Note how far each log has grown, at line ends; with `last`, whatever its end."""
        now = round(time.time(), 3)
        lines = []
        for rank, known in enumerate(self._indexed):
            try:
                size = os.stat(self._directory.log(rank)).st_size
            except FileNotFoundError:
                continue
            if size <= known:
                continue
            end = size if last else self._line_end(rank, known, size)
            if end > known:
                self._indexed[rank] = end
                lines.append([rank, end, now])
        if lines:
            self._guard(lambda: self._index.write(*lines))

    def _line_end(self, rank: int, known: int, size: int) -> int:
        """Find the end of the last whole line; a line without an end is cut after 64 KiB."""
        start = max(known, size - _TAIL)
        with open_regular(self._directory.log(rank)) as file:
            file.seek(start)
            tail = file.read(size - start)
        end = tail.rfind(b"\n") + 1
        if end:
            return start + end
        return size if size - known >= _TAIL else known

    def save(self) -> None:
        """Write the state if it has changed; changes of progress alone are written rarely."""
        if self._dirty and time.monotonic() - self._saved_at > _SAVE_INTERVAL:
            self._save_now()

    def _save_now(self) -> None:
        self._dirty = False
        self._saved_at = time.monotonic()
        self._saved = self._guard(self._write_state)
        if not self._saved and self.disk_full:
            self._reserve.unlink(missing_ok=True)
            self._saved = self._guard(self._write_state)

    def _write_state(self) -> None:
        # The end is written once, and whoever reads it deletes what it came from.
        durable = self.state["state"].ended
        write_json(self._directory.state, self.state, durable=durable)
