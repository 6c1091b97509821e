"""Writes the job directory, for the one process that runs or follows the job."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from jupyter_jax_trainer.errors import JobDirError, UsageError
from jupyter_jax_trainer.jobdir import endhook
from jupyter_jax_trainer.jobdir.failure import Failure, RankEnd
from jupyter_jax_trainer.jobdir.files import (
    LineWriter,
    open_regular,
    write_json,
    write_private,
)
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.programs import ProgramWatch
from jupyter_jax_trainer.jobdir.records import Display, Event
from jupyter_jax_trainer.jobdir.resources import ResourceWriter, last_minute, resource
from jupyter_jax_trainer.jobdir.state import (
    CompiledState,
    InitializerState,
    JobState,
    NotFinite,
    ProfileOfRank,
    ProfileState,
    RankState,
    ResultInfo,
    Tight,
    UsageState,
    about_restart,
    first_state,
    not_taken,
)
from jupyter_jax_trainer.jobdir.timing import straggler
from jupyter_jax_trainer.jobdir.usage import MemoryWatch, Usage, tight_text
from jupyter_jax_trainer.log import log
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.text import plain
from jupyter_jax_trainer.worker.profiling import NAME
from jupyter_jax_trainer.worker.records import Pace, Position, Program, Report, Sample, Spent

_USAGE_INTERVAL = 1.0  # seconds between states that differ in what is used alone
_SAVE_INTERVAL = 0.1  # seconds between states that differ in progress alone
_RESERVE = 64 << 10  # bytes kept free for the last state when the disk is full
_SENTENCE = 1000  # characters of a message that are kept when space is short
_TAIL = 64 << 10  # bytes in which the end of a line is looked for
_UNFINISHED = 0.2  # seconds after which a line is indexed without its end
_PROFILES = 32  # of one job
_WARNINGS = 10  # that are kept
_METRICS = 10  # that are noted because they are not finite
_NOT_FINITE = {"nan": "NaN", "inf": "Inf", "-inf": "-Inf"}
_FULL = (errno.ENOSPC, errno.EDQUOT)


def _masked(said: str) -> str:
    from jupyter_jax_trainer import masking  # ranks start sooner without; imported once they run

    return masking.text(said)


def _shown(said: str | None) -> str | None:
    return None if said is None else _masked(said)


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
        self._resources = ResourceWriter(directory.resources, len(ranks))
        self._displays = LineWriter(directory.displays)
        self._index = LineWriter(directory.log_index)
        self._indexed = [0] * len(ranks)
        self._indexed_at = [0.0] * len(ranks)
        self._printed = [0] * len(ranks)
        self._reported: Counter[int] = Counter()  # reports of each rank
        self._programs = ProgramWatch()
        self._late: set[int] = set()
        self._saved_at = 0.0
        self._saved = True
        self._dirty = self._observed = False
        self._said_no_cache = self._said_no_samples = False
        self._usage, self._watch, self._used_at = Usage(), MemoryWatch(), -math.inf
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
        self.end_profiles()
        self._directory.sweep()
        progress = self.state["progress"]
        if state == State.SUCCEEDED and progress and progress["total"] == progress["step"] + 1:
            progress["fraction"] = 1.0  # the cell counts its steps from 0
        if failure is not None and failure.error is None:
            failure = replace(failure, message=_masked(failure.message), hint=_shown(failure.hint))
        if failure is not None and failure.kind == "memory" and failure.rank is not None:
            of_device = failure.error is not None and failure.error["type"] != "MemoryError"
            told = last_minute(self._directory, failure.rank, of_device=of_device)
            failure = replace(failure, usage=told)
        self.state["failure"] = failure.to_json() if failure else None
        self._note_for_hook(state)
        self.change(state, reason, failure.hint if failure else None)
        if not self._saved and failure is not None:
            # Not even that much space is left: keep the sentence, without the traceback.
            short = replace(failure, error=None, message=failure.message[:_SENTENCE])
            self.state["failure"] = short.to_json()
            self.state["reason"] = reason[:_SENTENCE] if reason else None
            self._save_now()

    def _note_for_hook(self, state: State) -> None:
        """Note that the user is to be notified; errors in that don't change how the job ends."""
        try:
            endhook.note(self._directory.path, self._directory.read_manifest(), state)
        except UsageError as error:
            self.event("warning", say.ON_END_FAILED(error=error))
        except (OSError, JobDirError) as error:
            log("warning", f"on_end: {error}")

    @property
    def printed(self) -> int:
        """How many bytes there are of the ranks' logs."""
        return sum(self._printed)

    @property
    def reported(self) -> int:
        """The most reports that any rank has made since this writer began."""
        return max(self._reported.values(), default=0)

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
        self.end_profiles()
        self.state.setdefault("restarts", []).append(
            {
                "time": time.time(),
                "most": most,
                "reason": _masked(reason),
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
        self.state.pop("not_finite", None)
        self._usage, self._watch = Usage(), MemoryWatch()
        self.state.pop("usage", None)
        self.state.pop("tight", None)
        self.state.pop("warnings", None)
        self._programs, self._late = ProgramWatch(), set()
        for rank in self.state["ranks"]:
            rank.pop("spent", None)
            rank.pop("pace", None)
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
        message = _masked(message)
        log("info", f"{self._directory.path.name}: {' '.join(plain(message).split())}")
        line: Event = {"time": time.time(), "kind": kind, "rank": rank, "message": message}
        if frame is not None:
            line["frame"] = frame
        self._guard(lambda: self._events.write(line))

    def reports(self, rank: int, reports: list[Report], frame: list[Any] | None = None) -> None:
        """Add what ``report()`` was given; rank 0's last one is the job's progress."""
        more = {"rank": rank} if frame is None else {"rank": rank, "frame": frame}
        self._guard(lambda: self._metrics.write(*({**line, **more} for line in reports)))
        self._reported[rank] += len(reports)
        self._look_for_nan(rank, reports)
        if (words := self._programs.pass_step(rank, len(reports))) is not None:
            self.warn("programs", words)
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

    def _look_for_nan(self, rank: int, reports: list[Report]) -> None:
        """Note each metric that is not finite, once until the ranks start again."""
        for line in reports:
            for name, value in line["values"].items():
                shown = _NOT_FINITE.get(value) if isinstance(value, str) else None
                known = self.state.get("not_finite", [])
                if shown is None or len(known) >= _METRICS:
                    continue
                if all(one["metric"] != name for one in known):
                    found: NotFinite = {
                        "metric": name,
                        "value": shown,
                        "step": line["step"],
                        "rank": rank,
                    }
                    from jupyter_jax_trainer.jobdir import describe

                    self.state["not_finite"] = [*known, found]
                    self._dirty = True
                    self.event("not-finite", describe.not_finite_text(found), rank)

    def resources(
        self,
        rank: int,
        samples: list[Sample],
        problem: str | None = None,
        frame: list[Any] | None = None,
    ) -> None:
        """Add what a rank used, or once why that is not known."""
        lines = [resource(sample, rank, frame) for sample in samples]
        for line in lines:
            self._usage.take(rank, line)
            host = self.state["ranks"][rank]["host"]
            for found in self._watch.take(rank, host, line):
                self._used_at = -math.inf
                self.event("memory", tight_text(found))  # which names the rank
        if lines:
            with contextlib.suppress(OSError):  # no job fails for want of room for samples
                self._resources.write(lines)
            self._use_now()
        if problem is not None and not self._said_no_samples:
            self._said_no_samples = True
            self.event("warning", say.NO_SAMPLES(problem=problem), rank)

    def _use_now(self) -> None:
        """Note what all ranks use, as often as anybody looks."""
        now = time.monotonic()
        if now - self._used_at >= _USAGE_INTERVAL:
            self._used_at = now
            self.use(self._usage.state(), self._watch.tight)

    def use(self, usage: UsageState, tight: list[Tight]) -> None:
        """Note what is used now; of a cell of a session it is what the session's ranks use."""
        self.state["usage"], self.state["tight"] = usage, tight
        self._observed = True

    def display(self, rank: int, shown: Display) -> None:
        """Add what a rank displayed."""
        self._guard(lambda: self._displays.write({**shown, "rank": rank}))

    def compiled(self, rank: int, found: CompiledState, problem: str | None) -> None:
        """Note what a rank has compiled, and once why the cache does not take it."""
        self.rank(rank)["compiled"] = found
        if problem is not None and not self._said_no_cache:
            self._said_no_cache = True
            self.event("warning", say.NO_COMPILE_CACHE(problem=problem), rank)

    @property
    def job(self) -> str:
        """The name of the job."""
        return self._directory.path.name

    def begin_profile(self) -> str | None:
        """Note that a profile is asked for and give its name; None where there are too many."""
        known = self._profiles()
        numbers = [int(one["name"]) for one in known if one["name"].isdecimal()]
        name = str(1 + max(numbers, default=0))
        return name if self._profile(name) is not None else None

    def profiled(self, name: str, found: ProfileOfRank) -> None:
        """Note what a rank has given to a profile, or why it could not."""
        profile = self._profile(name)
        if profile is None:
            return
        others = [one for one in profile["ranks"] if one["rank"] != found["rank"]]
        profile["ranks"] = sorted([*others, found], key=itemgetter("rank"))
        if len(profile["ranks"]) == len(self.state["ranks"]):
            self._end_profile(profile)

    def end_profiles(self) -> None:
        """Wait no more for ranks that have not given to a profile: they have ended."""
        for profile in self._profiles():
            if profile["whole"]:
                continue
            given = {one["rank"] for one in profile["ranks"]}
            for rank in self.state["ranks"]:
                if rank["rank"] not in given:
                    profile["ranks"].append(not_taken(rank["rank"], say.ENDED_BEFORE_PROFILE()))
            self._end_profile(profile)

    def _profiles(self) -> list[ProfileState]:
        return self.state.get("profiles", [])

    def _profile(self, name: str) -> ProfileState | None:
        """Return what is known of a profile, a new one perhaps."""
        known = self.state.setdefault("profiles", [])
        self._dirty = True
        for profile in known:
            if profile["name"] == name:
                return profile
        if len(known) >= _PROFILES or not NAME.fullmatch(name):
            return None
        made: ProfileState = {"name": name, "time": time.time(), "whole": False, "ranks": []}
        known.append(made)
        return made

    def _end_profile(self, profile: ProfileState) -> None:
        from jupyter_jax_trainer.jobdir import describe

        profile["whole"] = self._dirty = True
        self.event("profile", describe.profile_text(profile))

    def spent(self, rank: int, spent: Spent, pace: Pace | None) -> None:
        """Note how a rank spends its time, and say if others wait for one."""
        self.state["ranks"][rank].update({"spent": spent, "pace": pace})
        self._observed = True
        found = straggler(self.state["ranks"])
        if found is not None and found[0] not in self._late:
            self._late.add(found[0])
            self.warn("straggler", found[1])

    def program(self, rank: int, program: Program) -> None:
        """Note what a rank is about to compile, and say if others compile something else."""
        if (words := self._programs.take(rank, program)) is not None:
            self.warn("programs", words)
        if (wrong := self._programs.withdraw()) is not None:
            self._take_back(wrong)

    @property
    def has_doubts(self) -> bool:
        """Whether a rank runs a program that another one, which has to run it, has not compiled."""
        return self._programs.has_doubts

    def look_at_programs(self, places: Sequence[tuple[RankEnd, Position | None]]) -> None:
        """Say which program ranks hang in, and others beside.

        Parameters
        ----------
        places
            Of each rank what is known of its end, and where it is.
        """
        waiting = [
            end.rank
            for end, where in places
            if where is not None and where.get("waits") and not where.get("compiles")
        ]
        if (words := self._programs.look(waiting)) is not None:
            self.warn("programs", words)

    def _take_back(self, words: str) -> None:
        """Say no longer what has turned out to be wrong."""
        left = [one for one in self.state.get("warnings", []) if one != _masked(words)]
        self.state.pop("warnings", None)
        if left:
            self.state["warnings"] = left
        self._dirty = True

    def warn(self, kind: str, words: str) -> None:
        """Say once, and on the card until the ranks start again, what is wrong with the job."""
        known = self.state.get("warnings", [])
        if words not in known and len(known) < _WARNINGS:
            self.state["warnings"] = [*known, _masked(words)]
            self._dirty = True
            self.event(kind, words)

    def lack_channel(self, words: str | None) -> None:
        """Say on the card why the ranks' channel is unavailable; None once it works."""
        shown = _shown(words)
        if shown == self.state.get("no_channel"):
            return
        if shown is None:
            del self.state["no_channel"]
        else:
            self.state["no_channel"] = shown
        self._dirty = True

    def results(self, table: list[ResultInfo]) -> None:
        """Note which variables were brought back."""
        self.state["results"] = table
        self._dirty = True

    def log_sizes(self) -> list[int]:
        """Return how large each log is, in bytes."""
        sizes = []
        for rank, known in enumerate(self._printed):
            try:
                sizes.append(os.stat(self._directory.log(rank)).st_size)
            except FileNotFoundError:
                sizes.append(known)
        return sizes

    def index_logs(self, sizes: Sequence[int] | None = None, *, last: bool = False) -> None:
        """Note how far each log has grown, at line ends if they come soon enough.

        Parameters
        ----------
        sizes
            How large each log was when all that was displayed before was not yet noted; None for
            now. A view that shows text and displays in their order relies on it.
        last
            No more will come.
        """
        now = time.monotonic()
        seen = round(time.time(), 3)
        lines = []
        for rank, size in enumerate(self.log_sizes() if sizes is None else sizes):
            known = self._indexed[rank]
            self._printed[rank] = size
            if size <= known:
                continue
            waits = not last and now - self._indexed_at[rank] < _UNFINISHED
            end = self._line_end(rank, known, size) if waits else size
            if end > known:
                self._indexed[rank], self._indexed_at[rank] = end, now
                lines.append([rank, end, seen])
        if lines:
            self._guard(lambda: self._index.write(*lines))

    def index(self, rank: int, size: int, seen: float) -> None:
        """Note how far a log has grown, by whoever writes it."""
        self._indexed[rank] = self._printed[rank] = size
        self._guard(lambda: self._index.write([rank, size, seen]))

    def _line_end(self, rank: int, known: int, size: int) -> int:
        """Find the end of the last whole line."""
        start = max(known, size - _TAIL)
        with open_regular(self._directory.log(rank)) as file:
            file.seek(start)
            tail = file.read(size - start)
        end = tail.rfind(b"\n") + 1
        return start + end if end else known

    def save(self) -> None:
        """Write the state if it has changed; changes of progress alone are written rarely.

        A disk that has no room for what is observed of a job is no reason to end it.
        """
        if time.monotonic() - self._saved_at <= _SAVE_INTERVAL:
            return
        if self._dirty:
            self._save_now()
        elif self._observed:
            self._observed, self._saved_at = False, time.monotonic()
            with contextlib.suppress(OSError):
                self._write_state()

    def _save_now(self) -> None:
        self._dirty = self._observed = False
        self._saved_at = time.monotonic()
        self._saved = self._guard(self._write_state)
        if not self._saved and self.disk_full:
            self._reserve.unlink(missing_ok=True)
            self._saved = self._guard(self._write_state)

    def _write_state(self) -> None:
        # The end is written once, and whoever reads it deletes what it came from.
        durable = self.state["state"].ended
        write_json(self._directory.state, self.state, durable=durable)
