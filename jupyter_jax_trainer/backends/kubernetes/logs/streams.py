"""The log streams of a job: a container's attempts one after another, all containers at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from functools import partial

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api.client import Client
from jupyter_jax_trainer.backends.kubernetes.api.objects import TRAINER, Pod
from jupyter_jax_trainer.backends.kubernetes.logs.logstream import Attempt, LogStream
from jupyter_jax_trainer.backends.kubernetes.logs.messages import Gap, Message, NodeSays
from jupyter_jax_trainer.backends.kubernetes.logs.spool import ContainerLog, Spool, remove_wal
from jupyter_jax_trainer.backends.kubernetes.submit.restarts import attempt_of
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import follow as say

OnMessage = Callable[[int, Message, int], None]


class Streams:
    """Follows the logs of a job: its ranks', and those of all other containers.

    Parameters
    ----------
    client
        The cluster.
    directory, nodes
        The job, and how many ranks it has.
    key
        With which its ranks sign their messages; None leaves these unread.
    applied
        Of each rank, which messages a follower before this one has applied.
    on_message
        Called with rank, message and its place in the rank's log, in a stream's thread.
    on_problem
        Called with a sentence.
    on_text
        Called with a rank, the length of its log and the time, when there is more of it.

    Attributes
    ----------
    proven
        The uids of the pods that are surely the job's. What others say is left out; their logs are
        kept.
    unproven
        Whether one of the others was read.
    """

    def __init__(
        self,
        client: Client,
        directory: JobDir,
        nodes: int,
        key: bytes | None,
        applied: Mapping[int, Mapping[str, int]],
        on_message: OnMessage,
        on_problem: Callable[[str], None],
        on_text: Callable[[int, int, float], None] = lambda *_: None,
    ) -> None:
        self._on_text = on_text
        self.proven: set[str] = set()
        self.unproven = False
        self._client = client
        self._directory = directory
        self._nodes = nodes
        self._key = key
        self._applied = applied
        self._on_message = on_message
        self._on_problem = on_problem
        # All by whose log it is: a rank, or the name of another container's.
        self._logs: dict[int | str, ContainerLog] = {}
        self._attempts: dict[int | str, list[Attempt]] = {}
        self._running: dict[int | str, tuple[Attempt, LogStream, Spool]] = {}
        self._restarts: dict[str, int] = {}  # by pods' uids, how often all ranks had started again
        self._over: set[Attempt] = set()
        self._ended_well: set[Attempt] = set()  # by their exit codes
        self._lost: set[Attempt] = set()
        self._done: set[Attempt] = set()

    @property
    def changed(self) -> bool:
        """Whether a stream has come to its end since the last `sync`."""
        return any(stream.finished for _, stream, _ in self._running.values())

    @property
    def length(self) -> int:
        """How much has been written of the ranks' logs."""
        return sum(log.length for source, log in self._logs.items() if isinstance(source, int))

    @property
    def idle(self) -> bool:
        """Whether all logs of ranks that there are have been read."""
        return all(self._is_read(source) for source in self._attempts if isinstance(source, int))

    @property
    def others_idle(self) -> bool:
        """Whether those of the other containers have been, too."""
        return all(self._is_read(source) for source in self._attempts)

    def _is_read(self, source: int | str) -> bool:
        return self._done.issuperset(self._attempts[source])

    def sync(self, pods: Mapping[str, Pod], present: Collection[str]) -> None:
        """Start and end streams as the pods are.

        Parameters
        ----------
        pods
            All pods that were ever seen, by uid.
        present
            Those that are in the cluster now.
        """
        for uid, pod in pods.items():
            self._note(uid, pod, uid not in present)
        for source, attempts in self._attempts.items():
            self._advance(source, attempts)

    def _note(self, uid: str, pod: Pod, gone: bool) -> None:
        """Note the attempts of a pod's containers, and which of them are over."""
        rank = pod.rank
        if rank is not None and rank >= self._nodes:
            return
        self._restarts[uid] = attempt_of(pod)
        for state in pod.states:
            restarts, ended = state.restarts, state.ended
            source = pod.log_of(state.name)
            known = self._attempts.setdefault(source, [])
            for number in range(restarts + state.has_started):
                attempt = Attempt(pod.name, uid, state.name, number)
                if attempt not in known:
                    known.append(attempt)
                    # The node keeps no more than the log before this one.
                    if number < restarts - 1:
                        self._lost.add(attempt)
                if number == restarts and ended is not None and ended.raw_code == 0:
                    self._ended_well.add(attempt)
                if gone or number < restarts or ended is not None:
                    self._end(source, attempt)

    def _end(self, source: int | str, attempt: Attempt) -> None:
        if attempt not in self._over:
            self._over.add(attempt)
            running = self._running.get(source)
            if running is not None and running[0] == attempt:
                running[1].wake()

    def _advance(self, source: int | str, attempts: list[Attempt]) -> None:
        """Begin with the next attempt when the one before is read."""
        if source in self._running:
            attempt, stream, _ = self._running[source]
            if stream.is_alive():
                return
            del self._running[source]
            self._done.add(attempt)
            if not stream.complete and not stream.refused:
                self._on_problem(say.LOG_END_GONE(log=_whose(attempt)))
        for attempt in attempts:
            if attempt not in self._done:
                if self._start(source, attempt):
                    return
                self._done.add(attempt)

    def _start(self, source: int | str, attempt: Attempt) -> bool:
        """Start to read an attempt; False where there is nothing (more) of it to be read."""
        if source not in self._logs:
            on_text = partial(self._on_text, source) if isinstance(source, int) else lambda *_: None
            self._logs[source] = ContainerLog(self._directory, source, self._key, on_text)
        if isinstance(source, int) and attempt.uid in self.proven:
            take, applied = partial(self._on_message, source), self._applied.get(source, {})
        elif isinstance(source, int):
            self.unproven = True
            take, applied = partial(self._take_unproven, source), {}
        else:
            take, applied = partial(self._take_other, source), {}
        spool = Spool(self._logs[source], attempt.stream, take, applied)
        if spool.done:
            return False
        if attempt in self._lost:
            with contextlib.suppress(OSError):
                spool.gap(say.LOG_GONE(number=attempt.number + 1))
                spool.close()
            self._on_problem(say.LOG_OF_GONE(number=attempt.number + 1, log=_whose(attempt)))
            return False
        worker = isinstance(source, int) and self._key is not None
        if (begins := self._begins_anew(source, attempt)) and spool.is_new:
            with contextlib.suppress(OSError):
                spool.gap(begins)
        stream = LogStream(
            self._client,
            spool,
            attempt,
            lambda: attempt in self._over,
            self._on_problem,
            lambda: worker and attempt in self._ended_well,
        )
        self._running[source] = (attempt, stream, spool)
        stream.start()
        return True

    def _begins_anew(self, source: int | str, attempt: Attempt) -> str | None:
        """Return a heading for a later attempt; None for the first."""
        if attempt.number:
            return say.ATTEMPT(number=attempt.number + 1, pod=attempt.pod)
        if number := self._restarts.get(attempt.uid):
            return say.RESTART(number=number, pod=attempt.pod)
        return say.STARTED_AGAIN(pod=attempt.pod) if self._logs[source].length else None

    def _take_unproven(self, rank: int, message: Message, place: int) -> None:
        """Take only what the reader itself adds, from a pod that may be somebody else's."""
        if isinstance(message, (Gap, NodeSays)):
            self._on_message(rank, message, place)

    def _take_other(self, source: str, message: Message, _place: int) -> None:
        """Take a message from a log of no rank: only its node's words count."""
        if isinstance(message, NodeSays):
            self._on_problem(say.NODE_REPORTS(log=source, text=message.text))

    def close(self) -> None:
        """End all streams, and forget how to go on: the job is over."""
        for _, stream, _ in self._running.values():
            stream.stop()
        for source, (_, stream, spool) in self._running.items():
            stream.join(timeouts.LOG_END.seconds)
            if isinstance(source, str) and not stream.finished and not stream.is_alive():
                with contextlib.suppress(OSError):
                    spool.gap(say.LATER_OUTPUT_LOST())
        for log in self._logs.values():
            log.close()
        remove_wal(self._directory)


def _whose(attempt: Attempt) -> str:
    """Name the container for a person; the training one goes without saying."""
    if attempt.container == TRAINER:
        return say.POD(pod=attempt.pod)
    return say.CONTAINER(container=attempt.container, pod=attempt.pod)
