"""The ranks of a followed job: what they say, and what their pods show, goes into its directory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from jupyter_jax_trainer.backends.kubernetes.api.objects import Pod
from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import Seen, rank_ends
from jupyter_jax_trainer.backends.kubernetes.follow import fetch, profiles
from jupyter_jax_trainer.backends.kubernetes.follow.saved import Kept
from jupyter_jax_trainer.backends.kubernetes.logs import messages
from jupyter_jax_trainer.backends.kubernetes.logs.messages import Message
from jupyter_jax_trainer.backends.kubernetes.logs.textreader import lost
from jupyter_jax_trainer.backends.kubernetes.submit.images import Contents
from jupyter_jax_trainer.jobdir.failure import diagnose, may_run_again, summary
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.state import RankState, new_rank
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.states import Phase
from jupyter_jax_trainer.worker.records import Position

_PHASES = {  # by the kinds of messages that tell them
    "arrived": Phase.ARRIVED,
    "joined": Phase.JOINED,
    "running": Phase.RUNNING,
    "finished": Phase.FINISHED,
    "stopped": Phase.STOPPED,
}
_HELD = 4096  # profiles that are noted
_FREQUENT = (  # and no change of state
    "reports",
    "display",
    "where",
    "compiled",
    "resources",
    "spent",
    "program",
    "result_part",
    "profile_part",
)


class Ranks:
    """The ranks of one job.

    Parameters
    ----------
    directory, nodes
        The job, and how many it has.
    guard
        Held while something is taken.
    on_problem
        Called with a sentence.

    Attributes
    ----------
    record, kept
        What is written of the job, and what is kept for the next follower.
    spoken
        A rank has said something that may change the job's state.
    image
        What rank 0 has said of its image, until somebody takes it.
    cached
        Whether the job's packages are in the cache of its pods, likewise.
    """

    def __init__(
        self,
        directory: JobDir,
        nodes: int,
        guard: threading.RLock,
        on_problem: Callable[[str], None],
    ) -> None:
        ranks = [new_rank(number) for number in range(nodes)]
        self.record = Recorder(directory, ranks, directory.read_state())
        self.kept = Kept(directory, nodes)
        self.spoken = False
        self.image: Contents | None = None
        self.cached: bool | None = None
        self._directory = directory
        self._guard = guard
        self._on_problem = on_problem

    @property
    def where(self) -> dict[int, Position]:
        """What each rank of this attempt said last of where it was."""
        said = {rank["rank"]: rank.get("where") for rank in self.record.state["ranks"]}
        return {rank: where for rank, where in said.items() if where is not None}

    def states(self) -> list[Phase]:
        """Return what each rank is doing."""
        return [rank["state"] for rank in self.record.state["ranks"]]

    def take(self, rank: int, message: Message, offset: int) -> None:
        """Take a message of a rank; called in the order of its log, by the thread that reads it."""
        with self._guard:
            try:
                self._take(rank, message, offset)
            except (ValueError, TypeError, KeyError, AttributeError):
                self.record.event("warning", say.BAD_RECORD(), rank)

    def _take(self, rank: int, message: Message, offset: int) -> None:
        kind, frame, end = message.kind, message.frame, self.kept.ends[rank]
        match message:
            case messages.Odd():
                raise ValueError(f"a message of kind {kind!r} has another form")
            case messages.Reported():
                self.record.reports(rank, message.reports, frame)
            case messages.Displayed():
                self.record.display(rank, {**message.display, "log_offset": offset})
            case messages.Failed():
                error = message.error
                self.kept.note_error(rank, error)
                self.record.rank(rank)["state"] = Phase.FAILED
                self.record.event("error", f"{error['type']}: {error['message']}", rank, frame)
            case messages.Awaits():
                self.kept.ports[rank] = message.channel
                self.kept.awaiting.add(rank)
            case messages.Hello():
                self.kept.ports[rank] = message.channel
                self.kept.awaiting.discard(rank)
            case messages.Killed():
                end.out_of_memory |= message.out_of_memory
            case messages.Located():
                self.record.rank(rank)["where"] = {**message.where, "time": time.time()}
            case messages.Gap():
                gap = say.LOST_LINES(lines=lost(message.lines, message.size))
                self.record.event("gap", gap, rank, frame)
            case messages.FramesLost():
                gap = say.LOST_MESSAGES(first=message.first, last=message.last)
                self.record.event("gap", gap, rank, frame)
            case messages.NodeSays():
                self._on_problem(say.NODE_REPORTS(log=say.RANK(rank=rank), text=message.text))
            case messages.ResultPart():
                fetch.add_part(self._directory, message.part)
            case messages.ResultHeld():
                self.kept.held = {
                    **message.file,
                    "port": message.port,
                    "seconds": message.seconds,
                    "rank": rank,
                    "since": time.time(),
                }
            case messages.ResultStored():
                self.kept.stored = message.file
            case messages.ProfilePart():
                profiles.add_part(self._directory, rank, message.name, message.part)
            case messages.ProfileTaken():
                taken = message.taken
                self.record.profiled(taken["name"], profiles.settle(self._directory, rank, taken))
            case messages.ProfileHeld():
                self.note_held_profile(rank, message, self.record.job)
            case messages.Results():
                self.record.results(message.table)
            case messages.Compiled():
                self.record.compiled(rank, message.found, message.problem)
            case messages.Sampled():
                ahead = self.kept.ahead[rank]
                for sample in message.samples:
                    sample["time"] -= ahead
                self.record.resources(rank, message.samples, message.problem, frame)
            case messages.TimeSpent():
                self.record.spent(rank, message.spent, message.pace)
            case messages.ToCompile():
                self.record.program(rank, message.program)
            case messages.ImageSeen():
                if rank == 0:
                    self.image = message.contents
            case messages.Cached():
                if rank == 0:
                    self.cached = message.problem is None
                    if message.problem is not None:
                        self._on_problem(say.NOT_CACHED(problem=message.problem))
            case _ if kind in _PHASES:
                end.joined |= kind == "joined"
                end.finished |= kind == "finished"
                if isinstance(message, messages.Stopped):
                    self.kept.note_stopped(rank, message)
                self.record.rank(rank)["state"] = _PHASES[kind]
            case _ if kind == "result_lost":
                self.record.event("error", say.NOT_FETCHED_IN_TIME(), rank, frame)
            case _:
                return  # lines: nothing to write
        if kind not in _FREQUENT:
            self.spoken = True
            self.kept.save()
            self.record.save()

    def note_held_profile(self, rank: int, message: messages.ProfileHeld, job: str) -> None:
        """Note that a rank holds a profile, of this job or of a cell on its ranks."""
        if len(self.kept.profiles) >= _HELD:
            return
        self.kept.profiles.append(
            {
                **message.file,
                "port": message.port,
                "seconds": message.seconds,
                "rank": rank,
                "since": time.time(),
                "job": job,
                "taken": message.taken,
            }
        )
        self.kept.save()
        self.spoken = True

    def note_pods(self, seen: Seen, pods: Sequence[Pod]) -> None:
        """Take over what pods say of the ranks: those that are gone, too, say how they went."""
        self._note_clocks(seen)
        ends = rank_ends(replace(seen, pods=pods))
        for found in sorted(ends, key=lambda end: (end.at is None, end.at or 0.0)):
            if not 0 <= found.rank < len(self.kept.ends):
                continue
            known = self.record.state["ranks"][found.rank]
            now: RankState = {
                **known,
                "pod": found.pod,
                "host": found.node,
                "restarts": found.restarts + self.record.restarts,
            }
            if self.kept.note_end(found):
                now["exit"] = found.exit
                if known["state"] not in (Phase.FINISHED, Phase.FAILED, Phase.STOPPED):
                    now["state"] = (
                        Phase.FINISHED
                        if found.exit == 0
                        else Phase.STOPPED
                        if found.stopped
                        else Phase.FAILED
                    )
            elif known["state"] == Phase.WAITING and found.running:
                now["state"] = Phase.STARTING
            if now != known:
                self.record.rank(found.rank).update(now)

    def _note_clocks(self, seen: Seen) -> None:
        """Note which ranks have another time; one that is ahead shows it only when it starts."""
        for known in self.record.state["ranks"]:
            rank, pod = known["rank"], seen.current.get(known["rank"])
            if pod is None:
                continue
            ahead = pod.clock_ahead(seen.now)
            if ahead or pod.name != known["pod"]:
                self.kept.ahead[rank] = ahead

    @property
    def why_lost(self) -> str:
        """Why they have to start again, as far as that is known."""
        return summary(diagnose(self.kept.ends)) if self.kept.broken else say.POD_LOST()

    @property
    def lost_one(self) -> bool:
        """Whether a rank has ended for no fault of the cell."""
        return self.kept.broken and may_run_again(diagnose(self.kept.ends))

    def will_start_again(self, most: int) -> bool:
        """Return whether one is lost and the cluster starts all again, `most` times at most."""
        return self.record.restarts < most and self.lost_one

    @property
    def begun(self) -> bool:
        """Whether anything is known of them."""
        return bool(self.record.state["ranks"] != self._new_ranks(self.record.restarts))

    def begin_anew(self) -> None:
        """Forget the ranks: there will be others, after a suspension or a restart."""
        self.kept.begin_anew()
        self.record.begin_anew()
        self._renew(self.record.restarts)

    def start_again(self, attempt: int, most: int) -> None:
        """Note that all ranks start again, and why; forget those before.

        If the follower dies here, no restart is noted yet, and the next follower does it again.
        """
        reason = self.why_lost
        self.kept.begin_anew()
        self._renew(attempt)  # written with the restart, never after it
        while self.record.restarts < attempt:  # more than one while there was no follower
            self.record.restart(most, reason)
            reason = say.POD_LOST()

    def _renew(self, restarts: int) -> None:
        for rank in self._new_ranks(restarts):
            self.record.rank(rank["rank"]).update({**rank, "where": None})

    def _new_ranks(self, restarts: int) -> list[RankState]:
        return [new_rank(number, restarts=restarts) for number in range(len(self.kept.ends))]
