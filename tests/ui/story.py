"""A job of a cluster that there is not: a follower's own code writes down what is said to have happened."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from made_jobs import running_job

from jupyter_jax_trainer.backends.kubernetes.api.objects import RANK, ROLE, Pod
from jupyter_jax_trainer.backends.kubernetes.api.observed import Seen
from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import Verdict
from jupyter_jax_trainer.backends.kubernetes.follow.ending import failure_of
from jupyter_jax_trainer.backends.kubernetes.follow.ranks import Ranks
from jupyter_jax_trainer.backends.kubernetes.logs.spool import ContainerLog, Spool, remove_wal
from jupyter_jax_trainer.backends.kubernetes.submit import launch
from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.failure import diagnose, summary
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.states import ENDED, State
from jupyter_jax_trainer.worker.pod.frames import encode

KEY = b"6" * 64
EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
QUEUED = "waits in the queue team-a"
QUEUE_HINT = "It starts by itself when there is room."
UNSCHEDULABLE = "no node has 2 CPUs free for 2 of 2 pods"
LATE = "ERROR the heartbeat of rank 1 is late"
TRACEBACK = (
    "Traceback (most recent call last):\n"
    "  Cell, line 6\n"
    '    batch = data[step]["labels"]\n'
    "            ~~~~~~~~~~^^^^^^^^^^\n"
    "KeyError: 'labels'"
)
CELL = """import time
from jupyter_jax_trainer import report
for step in range(first, 1000):
    report(step=step, total=1000, loss=1 / step)
    batch = data[step]["labels"]
    time.sleep(0.1)
"""
ERROR = {
    "type": "KeyError",
    "message": "'labels'",
    "traceback": TRACEBACK,
    "cell": "Cell",
    "cell_line": 6,
    "secondary": False,
    "hint": None,
}


class Story:
    """The job `fit`: two ranks that start again once, and then fail.

    Attributes
    ----------
    begun
        When it was submitted.
    """

    name = "fit"

    def __init__(self, begun: int) -> None:
        self.begun = self._now = begun
        self._held = contextlib.ExitStack()
        spec = JobSpec(backend="kubernetes", nodes=2, max_restarts=2, queue="team-a", out=("loss",))
        with self.at(0):
            submitted = launch.submitted_state(spec.nodes)
            job = running_job(self.name, spec=spec, created=begun, **submitted)
            self.directory = self._held.enter_context(job)
        manifest = self.directory.read_manifest()
        plan = {
            **manifest["plan"],
            "runtime": "jax-cpu",
            "context": "one",
            "namespace": "default",
            "cluster": "c",
            "runs_once": True,
        }
        about = {"backend": "kubernetes", "plan": plan, "frame_key": KEY.decode()}
        files.write_json(self.directory.manifest, {**manifest, **about})
        self.directory.cell.write_text(CELL)
        self._ranks = Ranks(self.directory, spec.nodes, threading.RLock(), print)
        self._record = self._ranks.record
        self._logs = [ContainerLog(self.directory, rank, KEY) for rank in range(spec.nodes)]
        self._spools: list[Spool] = []
        self._said = [0, 0]
        self._attempt = 0

    @contextlib.contextmanager
    def at(self, second: int) -> Iterator[None]:
        """Let it be so many seconds after the submission."""
        self._now = self.begun + second
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time", lambda: float(self._now))
            yield

    # -- what happens --------------------------------------------------------------------------

    def waits(self) -> None:
        with self.at(1):
            self._record.change(State.QUEUED, QUEUED, QUEUE_HINT)

    def runs(self) -> None:
        """Wait for a node, fetch a data set, start, and come to step 8."""
        with self.at(65):
            self._record.change(State.PENDING, UNSCHEDULABLE)
        with self.at(95):
            fetched = {
                "name": "dataset-initializer",
                "state": "Finished",
                "exit": 0,
                "restarts": 1,
                "host": "gpu-a",
                "pod": "fit-dataset-initializer-0-0-x",
            }
            self._record.initializers([fetched])
            log = ContainerLog(self.directory, "dataset-initializer", None)
            spool = Spool(log, "uid-dataset-0", print)
            spool.begin()
            self._prints(spool, "fetched 3 files")
            spool.close()
            log.close()
            self._see(self._pod(0, "gpu-a"), self._pod(1, "gpu-b"))
            self._record.change(State.STARTING, "Python and JAX are starting")
            self._begin()
        with self.at(107):
            self._run()
        with self.at(500):
            self._train(1, 9)
            # The worker counts what it prints: 50 lines more than have come.
            self._prints(self._spools[0], LATE)
            self._says(0, "lines", count=59)

    def loses_a_node(self) -> None:
        with self.at(707):
            self._see(self._pod(0, "gpu-a"), self._pod(1, "gpu-b", exit=143, conditions=[EVICTED]))
            lost = summary(diagnose(self._ranks.kept.ends))
            self._record.change(State.STARTING, f"{lost}; {say.ALL_START_AGAIN()}")

    def goes_on(self) -> None:
        """Start again, from the step after the last checkpoint."""
        with self.at(720):
            self._attempt = 1
            self._ranks.start_again(1, 2)
            self._see(self._pod(0, "gpu-a"), self._pod(1, "gpu-c"))
            self._begin()
        with self.at(752):
            self._run()
            self._train(7, 10)

    def fails(self) -> None:
        with self.at(4477):
            self._prints(self._spools[1], *TRACEBACK.split("\n"))
            self._says(1, "error", **ERROR)
            self._prints(self._spools[0], "stops")
            self._says(0, "stopped")
            pods = self._pod(0, "gpu-a", exit=75), self._pod(1, "gpu-c", exit=1)
            self._see(*pods)
            failure = failure_of(
                self.directory, self._ranks.kept.ends, {}, Verdict(state="Failed"), pods
            )
            self._record.end(State.FAILED, summary(failure), failure)
        self._end_logs()
        self._ranks.kept.remove()
        remove_wal(self.directory)

    def told(self) -> None:
        """Tell all of it."""
        self.waits()
        self.goes()

    def goes(self) -> None:
        """Tell all that comes after the wait."""
        for part in (self.runs, self.loses_a_node, self.goes_on, self.fails):
            part()

    def close(self) -> None:
        """Let no job be left that somebody would have to follow."""
        if self._record.state["state"] not in ENDED:
            self._record.end(State.CANCELLED)
        for log in self._logs:
            log.close()
        self._held.close()

    # -- what ranks and pods say ---------------------------------------------------------------

    def _begin(self) -> None:
        """Begin to read the logs of an attempt."""
        self._end_logs()
        self._said = [0, 0]
        for rank, log in enumerate(self._logs):
            stream = f"uid-{rank}-{self._attempt}-node-0"
            spool = Spool(log, stream, partial(self._ranks.take, rank))
            if self._attempt:
                spool.gap(say.RESTART(number=self._attempt, pod=self._pod_name(rank)))
            spool.begin()
            self._spools.append(spool)
            self._says(rank, "hello")

    def _end_logs(self) -> None:
        while self._spools:
            self._spools.pop().close()

    def _run(self) -> None:
        for rank in (0, 1):
            self._says(rank, "running")
        self._record.change(State.RUNNING, self._record.about_restart())

    def _train(self, first: int, end: int) -> None:
        for step in range(first, end):
            for rank in (0, 1):
                report = {
                    "time": self._now,
                    "step": step,
                    "total": 1000,
                    "values": {"loss": 1 / step},
                }
                self._says(rank, "reports", reports=[report])
                self._prints(self._spools[rank], f"step {step}")

    def _says(self, rank: int, kind: str, **fields: Any) -> None:
        """Let a worker say something in its log."""
        self._said[rank] += 1
        who = f"{rank:04x}{self._attempt:04x}"
        for frame in encode(KEY, rank, who, self._said[rank], {"kind": kind, **fields}):
            self._prints(self._spools[rank], frame.decode().removesuffix("\n"))

    def _prints(self, spool: Spool, *lines: str) -> None:
        stamp = f"{datetime.fromtimestamp(self._now, UTC):%Y-%m-%dT%H:%M:%S}.000000000Z"
        spool.feed("".join(f"{stamp} {line}\n" for line in lines).encode())

    def _see(self, *pods: Pod) -> None:
        seen = Seen(
            trainjob=None,
            jobs=[],
            jobset=None,
            pods=pods,
            events=[],
            workloads=[],
            nodes=len(pods),
            now=self._now,
        )
        self._ranks.note_pods(seen, pods)

    def _pod_name(self, rank: int) -> str:
        return f"fit-node-0-{rank}-{'ab'[self._attempt]}"

    def _pod(
        self, rank: int, node: str, exit: int | None = None, conditions: list[Any] | None = None
    ) -> Pod:
        name = self._pod_name(rank)
        state = {"running": {}} if exit is None else {"terminated": {"exitCode": exit}}
        labels = {RANK: str(rank), ROLE: "node"}
        status = {
            "phase": "Failed" if exit else "Running",
            "conditions": conditions or [],
            "containerStatuses": [{"name": "node", "restartCount": 0, "state": state}],
        }
        return Pod(
            {
                "metadata": {"name": name, "uid": name, "labels": labels},
                "spec": {"nodeName": node},
                "status": status,
            }
        )


@contextlib.contextmanager
def begun() -> Iterator[Story]:
    """Begin the story; its job is held as a follower holds it."""
    story = Story(int(time.time()) - 4480)
    try:
        yield story
    finally:
        story.close()
