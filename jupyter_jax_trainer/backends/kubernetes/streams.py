"""The log streams of a job: one rank's attempts one after another, all ranks at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.client import Client
from jupyter_jax_trainer.backends.kubernetes.logstream import Attempt, LogStream
from jupyter_jax_trainer.backends.kubernetes.seen import TRAINER, rank_of
from jupyter_jax_trainer.backends.kubernetes.spool import RankLog, Spool, remove_wal
from jupyter_jax_trainer.jobdir import JobDir

OnMessage = Callable[[int, dict[str, Any], int], None]


class Streams:
    """Follows the logs of a job.

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
    """

    def __init__(
        self, client: Client, directory: JobDir, nodes: int, key: bytes | None,
        applied: Mapping[int, Mapping[str, int]], on_message: OnMessage,
        on_problem: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._client = client
        self._directory = directory
        self._key = key
        self._applied = applied
        self._on_message = on_message
        self._on_problem = on_problem
        self._logs: dict[int, RankLog] = {}
        self._attempts: dict[int, list[Attempt]] = {number: [] for number in range(nodes)}
        self._over: set[Attempt] = set()
        self._running: dict[int, tuple[Attempt, LogStream]] = {}
        self._done: set[Attempt] = set()

    @property
    def changed(self) -> bool:
        """Whether a stream has come to its end since the last `sync`."""
        return any(stream.finished for _, stream in self._running.values())

    @property
    def length(self) -> int:
        """How much has been written of all logs."""
        return sum(log.length for log in self._logs.values())

    @property
    def idle(self) -> bool:
        """Whether all logs that there are have been read."""
        return all(
            attempt in self._done for attempts in self._attempts.values() for attempt in attempts
        )

    def sync(self, pods: Mapping[str, dict[str, Any]], present: Collection[str]) -> None:
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
        for rank, attempts in self._attempts.items():
            self._advance(rank, attempts)

    def _note(self, uid: str, pod: dict[str, Any], gone: bool) -> None:
        """Note the attempts of a pod, and which of them are over."""
        rank = rank_of(pod)
        if rank is None or rank not in self._attempts:
            return
        for status in (pod.get("status") or {}).get("containerStatuses") or []:
            if status.get("name") != TRAINER:
                continue
            state, restarts = status.get("state") or {}, int(status.get("restartCount") or 0)
            started = "waiting" not in state
            name = str(pod["metadata"]["name"])
            attempts = [
                Attempt(name, uid, TRAINER, number) for number in range(restarts + started)
            ]
            for attempt in attempts:
                if attempt not in self._attempts[rank]:
                    # The node keeps no more than the log before this one.
                    if attempt.number < restarts - 1:
                        self._done.add(attempt)
                    self._attempts[rank].append(attempt)
                if gone or attempt.number < restarts or "terminated" in state:
                    self._end(rank, attempt)

    def _end(self, rank: int, attempt: Attempt) -> None:
        if attempt not in self._over:
            self._over.add(attempt)
            running = self._running.get(rank)
            if running is not None and running[0] == attempt:
                running[1].wake()

    def _advance(self, rank: int, attempts: list[Attempt]) -> None:
        """Begin with the next attempt when the one before is read."""
        if rank in self._running:
            attempt, stream = self._running[rank]
            if stream.is_alive():
                return
            del self._running[rank]
            self._done.add(attempt)
            if not stream.complete and not stream.refused:
                self._on_problem(
                    f"the end of the log of pod {attempt.pod} was gone before it could be read"
                )
        for attempt in attempts:
            if attempt not in self._done:
                if not self._start(rank, attempt):
                    self._done.add(attempt)
                    continue
                return

    def _start(self, rank: int, attempt: Attempt) -> bool:
        """Start to read an attempt; False where an earlier follower has read all of it."""
        if rank not in self._logs:
            self._logs[rank] = RankLog(self._directory, rank, self._key)
        spool = Spool(
            self._logs[rank], attempt.stream, partial(self._on_message, rank),
            self._applied.get(rank, {}),
        )  # fmt: skip
        if spool.done:
            return False
        stream = LogStream(
            self._client, spool, attempt, lambda: attempt in self._over, self._on_problem
        )
        self._running[rank] = (attempt, stream)
        stream.start()
        return True

    def close(self) -> None:
        """End all streams, and forget how to go on: the job is over."""
        for _, stream in self._running.values():
            stream.stop()
        for _, stream in self._running.values():
            stream.join(5)
        for log in self._logs.values():
            log.close()
        remove_wal(self._directory)
