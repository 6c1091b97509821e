"""A third backend, whole, as somebody might write one: each job in a box, a bare process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_jax_trainer.backends.base import Backend, Submission, Target
from jupyter_jax_trainer.doctor.finding import OK, Finding
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir import layout
from jupyter_jax_trainer.jobdir.failure import CANCELLED, Failure
from jupyter_jax_trainer.jobdir.files import write_json
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.state import JobState, first_state, new_rank, submitting
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.runtime import Runtime
from jupyter_jax_trainer.states import Phase, State
from jupyter_jax_trainer.worker.main import DIGEST_VARIABLE


class ToyBackend(Backend):
    name = "toy"

    def submission(self, spec: JobSpec) -> Submission:
        return ToySubmission()

    def targets(self) -> list[Target]:
        return [Target("toy", self.name, "toy box")]

    def runtimes(self, context: str | None = None, namespace: str | None = None) -> list[Runtime]:
        return [
            Runtime(name="box", backend="toy", device="cpu", nodes=(1, 1), description="A toy box")
        ]

    def examine(
        self, context: str | None, namespace: str | None, *, asked: bool
    ) -> Iterator[Finding]:
        yield Finding(OK, "Toy boxes", "there are enough")

    def state(self, directory: JobDir, state: JobState | None) -> JobState:
        return layout.end_abandoned(directory) or state or submitting()

    def place(self, manifest: Mapping[str, Any]) -> str:
        return "in a toy box"


class ToySubmission:
    backend = "toy"
    bundle_travels = True
    wheels: Mapping[str, bytes] = {}

    def plan(self, spec: JobSpec) -> dict[str, Any]:
        if spec.nodes != 1:
            raise UsageError("A toy box holds one node.")
        return {"runtime": "box", "device": "cpu", "devices_per_node": 1, "note": None}

    def check_size(self, total: int, spec: JobSpec) -> None:
        pass

    def check_capture(self, capture: Any, spec: JobSpec, plan: dict[str, Any]) -> None:
        pass

    def is_free(self, name: str) -> bool:
        return True

    def dry_run(self, *_: Any) -> str:
        return "It would go into a toy box."

    def start(self, directory: JobDir, lock: int, manifest: dict[str, Any]) -> None:
        write_json(directory.state, first_state(State.STARTING, ranks=[new_rank(0)]))
        subprocess.Popen(
            [sys.executable, "-m", "toy.backend", directory.path],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            pass_fds=[lock],
            start_new_session=True,
        )


def main(path: Sequence[str]) -> None:
    """Run a box, and write how it goes; the job's lock came with this process."""
    directory = JobDir(Path(path[0]))
    manifest = directory.read_manifest()
    record = Recorder(directory, [new_rank(0)])
    with directory.log(0).open("wb") as log:
        box = subprocess.Popen(
            [sys.executable, directory.bundle],
            env={"PATH": os.defpath, DIGEST_VARIABLE: manifest["digest"]},
            stdout=log,
            stderr=log,
        )
        record.change(State.RUNNING)
        record.rank(0).update({"state": Phase.RUNNING, "pid": box.pid})
        while True:
            try:
                code = box.wait(0.05)
                break
            except subprocess.TimeoutExpired:
                record.index_logs()
                if directory.cancel.exists():
                    box.kill()
    record.index_logs(last=True)
    record.rank(0).update({"state": Phase.FAILED if code else Phase.FINISHED, "exit": code})
    if directory.cancel.exists():
        record.end(State.CANCELLED, CANCELLED)
    elif code:
        failure = Failure(kind="exit", message=f"the box broke ({code})", rank=0, exit=code)
        record.end(State.FAILED, failure.message, failure)
    else:
        record.end(State.SUCCEEDED)


if __name__ == "__main__":
    main(sys.argv[1:])
