"""The supervisor: starts the ranks of one job, listens to them, and writes the job's directory."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from jupyter_jax_trainer import machine, timeouts
from jupyter_jax_trainer.backends.local import processes, workers
from jupyter_jax_trainer.backends.local.plan import plan_of
from jupyter_jax_trainer.backends.local.ranks import LocalRank
from jupyter_jax_trainer.backends.local.rollcall import RollCall
from jupyter_jax_trainer.backends.local.slots import Ticket, Turn
from jupyter_jax_trainer.backends.silence import SilenceWatch
from jupyter_jax_trainer.channel.listener import Asked, Listener
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.jobdir.failure import (
    CANCELLED,
    Failure,
    RankEnd,
    after_restarts,
    diagnose,
    may_run_again,
    positions,
    summary,
)
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.resources import problem_record, samples_record
from jupyter_jax_trainer.jobdir.state import (
    compiled_record,
    error_record,
    new_rank,
    position_record,
    profile_record,
    program_record,
    spent_record,
)
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.messages import channel as of_channel
from jupyter_jax_trainer.messages import jobs
from jupyter_jax_trainer.messages import local as say
from jupyter_jax_trainer.states import Phase, State
from jupyter_jax_trainer.text import ranks_text
from jupyter_jax_trainer.worker.processes import end_descendants, memory_kills

_KILLS = "/proc/vmstat"  # counts processes that were ended for lack of memory
_TICK = 0.05  # seconds between looks at the logs, the clock and the cancel file
# What is needed later only: ranks start sooner without. It is imported when they have started: a
# later version of this package may be installed before they end.
_LATER = ("jupyter_jax_trainer.jobdir.endrunner", "jupyter_jax_trainer.logs.reader")
_STARTED = 5.0  # seconds after which they have
_LAST_WORDS = 20  # lines of the log of a rank that ended without an exception


@dataclass
class _Stop:
    """The job is being ended: why, and since when."""

    since: float
    failure: Failure | None = None
    cancelled: str | None = None
    released: bool = False
    signalled: bool = False
    killed: bool = False


@dataclass
class Supervisor:
    """Runs one job from the queue to its end.

    Parameters
    ----------
    directory
        The job's directory, with manifest and bundle.
    start_rank
        How ranks are started.
    keeper
        The process that watches over this one.
    """

    directory: JobDir
    start_rank: workers.Starter
    keeper: int
    ranks: list[LocalRank] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.manifest = self.directory.read_manifest()
        host = os.uname().nodename
        self.record = Recorder(
            self.directory,
            [new_rank(number, host=host) for number in range(self.manifest["spec"]["nodes"])],
        )
        self._selector = selectors.DefaultSelector()
        self._order = 0
        self._stop: _Stop | None = None
        self._ticket: Ticket | None = None
        self._started = time.monotonic()
        self._roll_call = RollCall()
        self._farewell: str | None = None  # the reason of a successful end
        self._late = False  # the job has had its time
        self._has_all = False  # that it will need of this package
        self._beat_at = 0.0
        self._memory_kills = memory_kills(_KILLS)
        self._wake_on_signals()

    def _wake_on_signals(self) -> None:
        """Let the end of a child wake the selector at once."""
        reader, writer = socket.socketpair()
        for end in (reader, writer):
            end.setblocking(False)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        self._wakeup = reader, writer
        self._selector.register(reader, selectors.EVENT_READ, self._on_wakeup)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_wakeup(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wakeup[0].recv(4096)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._cancel(say.SIGNALLED(signal=signal.Signals(number).name))

    # -- the job's life ----------------------------------------------------------------------

    def run(self) -> None:
        """Run the job to its end; the last state is on disk when this returns."""
        with self._open_to_requests():
            ticket = self._wait_for_turn()
            if ticket is not None:
                try:
                    self._spawn()
                    self._started = time.monotonic()
                    processes.adopt_orphans()
                    while not self._is_over() or self._start_again():
                        self._step()
                finally:
                    end_descendants()
                    ticket.close()
        self._write_end()

    @contextlib.contextmanager
    def _open_to_requests(self) -> Iterator[None]:
        """Let others ask about the ranks; a job runs without that, too."""
        with contextlib.ExitStack() as open_things:
            try:
                listener = Listener(self.manifest["uid"], self._selector, self._on_request)
                open_things.callback(listener.close)
            except (OSError, JaxTrainError) as error:
                self.record.event("warning", say.NO_REQUESTS(error=error))
            yield

    def _on_request(self, asked: Asked) -> None:
        if asked.request["ask"] == "profile":
            self._profile(asked)
        else:
            self._roll_call.ask(self.ranks, asked)

    def _profile(self, asked: Asked) -> None:
        """Have all ranks profiled."""
        record = self._book()
        if self._stop is not None or record.state["state"] != State.RUNNING:
            asked.answer(refused=of_channel.NOT_RUNNING())
            return
        name = record.begin_profile()
        if name is None:
            asked.answer(refused=of_channel.TOO_MANY_PROFILES())
            return
        home = str(JobDir(self.directory.path.with_name(record.job)).profiles)
        for rank in self.ranks:
            rank.tell(kind="profile", name=name, seconds=asked.request["seconds"], home=home)
        asked.answer(profile={"job": record.job, "name": name})

    def _wait_for_turn(self) -> Ticket | None:
        """Wait in the queue; None when the job was cancelled there."""
        plan = plan_of(self.manifest)
        ticket = Ticket(
            self.directory.path.parent.parent / "queue",
            self.manifest["name"],
            plan["cores"],
            plan["gpus"],
            plan["all_gpus"],
            plan["limit"],
        )
        self._ticket = ticket
        while True:
            turn = ticket.turn()
            if isinstance(turn, Turn):
                self._gpus = turn.devices
                self.record.change(State.STARTING)
                return ticket
            self.record.change(State.QUEUED, turn)
            self._poll_controls()
            if self._stop is not None:
                ticket.close()
                return None
            self._while_waiting()
            self._serve()

    def _while_waiting(self) -> None:
        """Do what there is to do in the queue."""
        self._roll_call.is_over(self.ranks)

    def _serve(self) -> None:
        """Take what comes, from ranks and from others, for a moment."""
        for key, _ in self._selector.select(_TICK):
            key.data()

    def _spawn(self) -> None:
        plan = plan_of(self.manifest)
        for number in range(self.manifest["spec"]["nodes"]):
            env = workers.environment(os.environ, self.directory, self.manifest, number, self._gpus)
            started = workers.start(self.start_rank, self.directory, env, plan["cwd"], number)
            rank = LocalRank(number, started, RankEnd(rank=number))
            self.ranks.append(rank)
            listen = partial(self._listen, rank)
            self._selector.register(started.channel, selectors.EVENT_READ, listen)
            self.record.rank(number).update({"pid": started.pid, "state": Phase.STARTING})
        self._silence = SilenceWatch(self.manifest["spec"].get("hang_timeout"))
        self._asked = False  # because of a silence
        self._join_limit = plan["rendezvous_timeout"]
        self._join_by = time.monotonic() + self._join_limit

    def _is_over(self) -> bool:
        return all(rank.gone for rank in self.ranks)

    def _start_again(self) -> bool:
        """Start all ranks again if one was killed from outside, and tell whether that was done."""
        stop, most = self._stop, self.manifest["spec"].get("max_restarts") or 0
        if stop is None or stop.failure or stop.cancelled or self.record.restarts >= most:
            return False
        failure = diagnose([rank.end for rank in self.ranks])
        if not may_run_again(failure):
            return False
        self._clear_ranks()
        self.record.restart(most, summary(failure))
        self._spawn_anew(self.record.restarts, self.record.about_restart())
        return True

    def _clear_ranks(self) -> None:
        """Clear away what is left of ranks that are gone."""
        end_descendants()
        for rank in self.ranks:
            if rank.process.channel.fileno() >= 0:
                self._selector.unregister(rank.process.channel)
                rank.process.channel.close()
        self.record.index_logs(last=True)

    def _spawn_anew(self, restarts: int, why: str | None) -> None:
        """Start ranks in place of those that are gone."""
        for rank in self.ranks:
            self._mark_log(rank.number, why)
            self.record.rank(rank.number).update({"restarts": restarts, "exit": None})
        self.record.change(State.STARTING, why)
        self.ranks.clear()
        self._stop, self._late = None, False
        self._memory_kills = memory_kills(_KILLS)
        self._spawn()

    def _mark_log(self, rank: int, why: str | None) -> None:
        """Say in a rank's log where the next attempt begins."""
        with contextlib.suppress(OSError), self.directory.log(rank).open("ab+") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - 1))
            start = b"" if log.read(1) in (b"", b"\n") else b"\n"
            log.write(start + f"[jaxtrain: {why}]\n".encode())

    def _step(self) -> None:
        self._serve()
        self._reap()
        self._poll_controls()
        self._roll_call.is_over(self.ranks)
        self._check_clock()
        self._advance_stop()
        self._index_logs(self.record)
        self._look_for_silence()
        self.record.save()
        self._import_the_rest()

    def _import_the_rest(self) -> None:
        if self._has_all or time.monotonic() - self._started < _STARTED:
            return
        self._has_all = True
        for name in _LATER:
            with contextlib.suppress(Exception):  # it is tried again when it is needed
                import_module(name)

    # -- what the ranks say ------------------------------------------------------------------

    def _listen(self, rank: LocalRank) -> None:
        """Read all that a rank has sent."""
        channel = rank.process.channel
        if channel.fileno() < 0:
            return
        records = rank.receive()
        if records is None:
            self._selector.unregister(channel)
            channel.close()
            return
        for record in records:
            try:
                self._take(rank, record)
            except (ValueError, TypeError, KeyError, AttributeError):
                self.record.event("warning", say.BAD_RECORD(), rank.number)

    def _index_logs(self, record: Recorder) -> None:
        """Note how far the logs have grown, once what was displayed before is noted."""
        sizes = record.log_sizes()
        for rank in self.ranks:
            self._listen(rank)
        record.index_logs(sizes)

    def _take(self, rank: LocalRank, message: Any) -> None:
        kind = message.pop("kind")
        if kind == "coordinator":
            for other in self.ranks:
                if other is not rank:
                    other.tell(kind="coordinator", **message)
        elif kind == "arrived":
            rank.state = Phase.ARRIVED
        elif kind == "joined":
            rank.end.joined = True
            rank.state = Phase.JOINED
        elif kind == "running":
            rank.state = Phase.RUNNING
            rank.has_run = True
            if all(r.has_run for r in self.ranks):
                self.record.change(State.RUNNING, self.record.about_restart())
        elif kind == "reports":
            self._book().reports(rank.number, message["reports"])
        elif kind == "display":
            self._book().display(rank.number, message)
        elif kind == "results":
            self._book().results(message["results"])
        elif kind == "compiled":
            found, problem = compiled_record(message), message["problem"]
            self._book().compiled(rank.number, found, problem)
        elif kind == "profiled":
            self._book().profiled(str(message["name"]), profile_record(rank.number, message))
        elif kind == "resources":
            self.record.resources(rank.number, samples_record(message), problem_record(message))
        elif kind == "spent":
            self._book().spent(rank.number, *spent_record(message))
        elif kind == "program":
            self._book().program(rank.number, program_record(message))
        elif kind == "finished":
            rank.end.finished = True
            rank.finished_at = time.monotonic()
            rank.state = Phase.FINISHED
        elif kind == "error":
            rank.end.error = error_record(message)
            rank.end.order = self._next()
            rank.state = Phase.FAILED
            self.record.event("error", f"{message['type']}: {message['message']}", rank.number)
            self._begin_stop()
        elif kind == "where":
            rank.where = position_record(message)
        elif kind == "stopped":
            rank.end.stopped = True
            rank.state = Phase.STOPPED
        if self.record.state["ranks"][rank.number]["state"] != rank.state:
            self.record.rank(rank.number)["state"] = rank.state

    def _book(self) -> Recorder:
        """Return the recorder of what the ranks' code reports."""
        return self.record

    def _next(self) -> int:
        self._order += 1
        return self._order

    # -- ends --------------------------------------------------------------------------------

    def _reap(self) -> None:
        """Note which ranks have ended; other children are orphans that were adopted."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for rank in self.ranks:
                if rank.process.pid == pid:
                    self._note_end(rank, os.waitstatus_to_exitcode(status))

    def _note_end(self, rank: LocalRank, code: int) -> None:
        self._listen(rank)  # its last words
        rank.gone = True
        rank.end.exit = code
        if rank.end.error is None:
            rank.end.order = self._next()
        if code == -signal.SIGKILL and memory_kills(_KILLS) > self._memory_kills:
            rank.end.out_of_memory = True
        if self._stop is not None and self._stop.signalled and rank.end.error is None:
            rank.end.stopped = True
        if not rank.end.finished:
            rank.state = Phase.STOPPED if rank.end.stopped else Phase.FAILED
            self._begin_stop()
        elif code != 0 and not rank.end.stopped:
            said = say.EXITED_LATE(rank=rank.number, code=code)
            self.record.event("note", said, rank.number)
        self.record.rank(rank.number).update({"state": rank.state, "exit": code})

    def _begin_stop(self, failure: Failure | None = None, cancelled: str | None = None) -> None:
        """Begin to end the job; what came first stays the reason."""
        if self._stop is None:
            self._stop = _Stop(time.monotonic(), failure, cancelled)

    def _cancel(self, why: str) -> None:
        self._begin_stop(cancelled=why)

    def _advance_stop(self) -> None:
        """First let ranks stop by themselves, then ask, then kill."""
        stop = self._stop
        if stop is None:
            done = [rank.finished_at for rank in self.ranks if rank.finished_at is not None]
            all_done = len(done) == len(self.ranks)
            if all_done and time.monotonic() - max(done) > timeouts.EXIT.seconds:
                self._signal(signal.SIGKILL)
            return
        waited = time.monotonic() - stop.since
        by_itself = stop.failure is None and stop.cancelled is None
        if not stop.released and all(r.gone or r.end.error or r.end.stopped for r in self.ranks):
            stop.released = True
            for rank in self.ranks:
                rank.tell(kind="leave")
        if not stop.signalled and (not by_itself or waited > timeouts.GRACE.seconds):
            stop.signalled = True
            self._signal(signal.SIGTERM if stop.cancelled else signal.SIGKILL)
        elif stop.cancelled and not stop.killed and waited > timeouts.GRACE.seconds:
            stop.killed = True
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        for rank in self.ranks:
            rank.signal(number)

    # -- what else can happen ----------------------------------------------------------------

    def _poll_controls(self) -> None:
        if time.monotonic() >= self._beat_at:
            self._beat_at = time.monotonic() + machine.beat()
            self.directory.beat()
        if self._stop is not None:
            return
        if self.directory.cancel.exists():
            self._cancel(CANCELLED)
        elif self.directory.deleted:
            self._cancel(jobs.DIRECTORY_DELETED())
        elif os.getppid() != self.keeper:
            self._begin_stop(Failure(kind="supervisor", message=say.KEEPER_KILLED()))
        elif self.record.disk_full:
            self._begin_stop(_disk_full(self.directory.path))

    def _check_clock(self) -> None:
        now = time.monotonic()
        apart = [r for r in self.ranks if not r.end.joined and not r.gone]
        if apart and now > self._join_by:
            # The others are waiting at the rendezvous for ranks that never arrived.
            missing = [r.number for r in apart if r.state == Phase.STARTING]
            late = missing or [r.number for r in apart]
            message = say.NEVER_ARRIVED if missing else say.NEVER_JOINED
            said = message(
                ranks=ranks_text(late),
                limit=f"{self._join_limit:g} s",
                variable=timeouts.RENDEZVOUS.variable,
            )
            others = [r.number for r in self.ranks if r.number not in late]
            self._begin_stop(
                Failure(kind="rendezvous", message=said, others=others, hint=said.hint)
            )
        timeout = self.manifest["spec"].get("timeout")
        if timeout and now - self._started > timeout:
            self._time_out(timeout)

    def _look_for_silence(self) -> None:
        """After a long silence, say where the ranks are, or end the job."""
        watch = self._silence
        if self._stop is not None or not all(rank.has_run for rank in self.ranks):
            watch.hear()
            return
        watch.look(self.record.printed, self.record.reported)
        if self._asked and self._roll_call.is_over(self.ranks):
            self._asked = False
            places = [(rank.end, rank.where) for rank in self.ranks]
            self.record.look_at_programs(places)
            found = watch.take(places)
            if found is not None and found.failure is not None:
                self._begin_stop(found.failure)
            elif found is not None and found.is_news:
                self.record.event("silence", found.text)
        elif not self._asked and watch.asks(self.record.has_doubts):
            self._asked = True
            self._roll_call.ask(self.ranks)
        if watch.said is not None:
            self.record.change(State.RUNNING, watch.said.text, watch.said.hint)
        elif self.record.state["state"] == State.RUNNING:
            self.record.change(State.RUNNING, self.record.about_restart())

    def _time_out(self, timeout: float) -> None:
        """Ask the ranks where they are, give them a moment to answer, then end the job."""
        if not self._late:
            self._late = True
            self._roll_call.ask(self.ranks)
        if not self._roll_call.is_over(self.ranks):
            return
        stuck = any(r.end.finished for r in self.ranks)
        where = positions([(rank.end, rank.where) for rank in self.ranks])
        self._begin_stop(
            Failure(
                kind="timeout",
                message=say.TIMED_OUT_AT(timeout=timeout, where=where)
                if where
                else say.TIMED_OUT(timeout=timeout),
                hint=jobs.WAITED_FOR_FINISHED() if stuck else say.GIVE_IT_MORE(),
            )
        )

    def _write_end(self) -> None:
        self.record.index_logs(last=True)
        ends = [rank.end for rank in self.ranks]
        stop = self._stop
        if stop is not None and stop.cancelled:
            self.record.end(State.CANCELLED, stop.cancelled)
        elif stop is not None and stop.failure is not None:
            self.record.end(State.FAILED, stop.failure.message, failure=stop.failure)
        elif all(end.finished for end in ends):
            self.record.end(State.SUCCEEDED, self._farewell)
        else:
            failure = after_restarts(diagnose(ends), self.record.restarts)
            if failure.error is None and failure.rank is not None:
                from jupyter_jax_trainer.logs.reader import last_lines

                failure.log = last_lines(self.directory.log(failure.rank), _LAST_WORDS)
            self.record.end(State.FAILED, summary(failure), failure=failure)


def _disk_full(path: Path) -> Failure:
    said = say.DISK_FULL(path=path)
    return Failure(kind="disk", message=said, hint=said.hint)
