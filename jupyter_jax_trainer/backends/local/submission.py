"""Start a job on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import jupyter_jax_trainer
from jupyter_jax_trainer import machine, masking, text, timeouts
from jupyter_jax_trainer.backends import idle
from jupyter_jax_trainer.backends.local import warm
from jupyter_jax_trainer.backends.local.plan import LocalPlan
from jupyter_jax_trainer.backends.local.runtimes import (
    LOCAL_CPU,
    LOCAL_GPU,
    get_runtime,
    local_gpus,
    usable_gpus,
)
from jupyter_jax_trainer.backends.local.slots import limit_of_cores
from jupyter_jax_trainer.errors import BackendError, CaptureError, UsageError
from jupyter_jax_trainer.jobdir import files, store
from jupyter_jax_trainer.jobdir.describe import shape
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest, Plan
from jupyter_jax_trainer.jobdir.state import first_state
from jupyter_jax_trainer.messages import local as say
from jupyter_jax_trainer.messages import submit
from jupyter_jax_trainer.options.amounts import quantity
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.worker import compilecache

if TYPE_CHECKING:
    from jupyter_jax_trainer.capture import Capture

_ROOT = str(Path(jupyter_jax_trainer.__file__).parent.parent)
_PROCESS = 100 << 20  # bytes that a process takes which has imported jax
_SPARE_DISK = 64 << 20  # bytes that are left for logs


class LocalSubmission:
    """One submission to this machine."""

    backend = "local"
    bundle_travels = False
    wheels: Mapping[str, bytes] = {}

    def plan(self, spec: JobSpec) -> LocalPlan:
        """Check a spec against this machine and say what the job will get."""
        if spec.runtime is not None:
            device = get_runtime(spec.runtime).device
            if spec.device not in (None, device):
                raise UsageError(
                    say.OTHER_DEVICE(runtime=spec.runtime, device=device, asked=spec.device)
                )
        else:
            device = spec.device or ""
        gpus = local_gpus() if device == "gpu" else usable_gpus()
        wanted = spec.nodes * (spec.devices_per_node or 1)
        if device == "gpu" and len(gpus) < wanted:
            raise UsageError(
                say.TOO_FEW_GPUS(
                    gpus=_count(wanted, "GPU"),
                    nodes=_count(spec.nodes, "node"),
                    each=spec.devices_per_node or 1,
                    found=len(gpus),
                )
            )
        compilecache.bound({**os.environ, **dict(spec.env)})
        memory = machine.free_memory()
        if memory is not None and spec.nodes > max(1, memory // _PROCESS):
            raise UsageError(
                say.TOO_MANY_PROCESSES(
                    nodes=spec.nodes, free=text.size(memory), most=memory // _PROCESS
                )
            )
        note = None
        if not device:
            device = "gpu" if gpus and len(gpus) >= wanted else "cpu"
            if gpus and device == "cpu":
                note = say.ON_CPU(wanted=wanted, found=len(gpus))
            elif device == "gpu":
                note = say.ON_GPU()
        each = spec.devices_per_node or (max(1, len(gpus) // spec.nodes) if device == "gpu" else 1)
        plan: LocalPlan = {
            "runtime": LOCAL_GPU if device == "gpu" else LOCAL_CPU,
            "device": device,
            "devices_per_node": each,
            "cores": spec.nodes * float(quantity(spec.cpu or "1") or 1),
            "limit": limit_of_cores(),
            "gpus": spec.nodes * each if device == "gpu" else 0,
            "all_gpus": gpus if device == "gpu" else [],
            "cwd": _working_directory(),
            "rendezvous_timeout": _rendezvous_timeout(spec),
            "note": note,
        }
        idle.put_into(plan, spec, idle.Limits.of_environment)
        return plan

    def check_size(self, total: int, spec: JobSpec) -> None:
        """Refuse what the disk or the memory of this machine won't hold."""
        home = store.private_directory(store.home())
        free = shutil.disk_usage(home).free - _SPARE_DISK
        if total > free:
            raise CaptureError(
                say.TOO_LARGE_FOR_DISK(
                    total=text.size(total), home=home, free=text.size(max(0, free))
                )
            )
        memory = machine.free_memory()
        if memory is not None and total > memory:
            raise CaptureError(
                say.TOO_LARGE_FOR_MEMORY(total=text.size(total), free=text.size(memory))
            )

    def check_capture(self, capture: Capture, spec: JobSpec, plan: Plan) -> None:
        """Note likely secrets in ``--env``; the job runs on the notebook's own Python."""
        capture.notes += masking.environment_notes(spec.env, secrets=False)

    def is_free(self, name: str) -> bool:
        """Say yes: the job's directory is all that can have a name here."""
        return True

    def dry_run(
        self,
        spec: JobSpec,
        plan: Plan,
        capture: Capture,
        manifest: Manifest,
        write: Callable[[Path], str],
    ) -> str:
        """Return what would be started."""
        lines = [
            say.DRY_RUN(
                shape=shape(spec.to_json(), plan),
                runtime=plan["runtime"],
                total=text.size(capture.total),
            ),
            *(f"    {s.name}  {s.kind}  {s.type}  {text.size(s.size)}" for s in capture.sent),
            *(f"    {name}  {submit.MODULE_FILE()}" for name in capture.modules),
        ]
        if spec.out:
            lines.append(f"  {say.BROUGHT_BACK(names=', '.join(spec.out))}")
        return "\n".join(lines)

    def start(self, directory: JobDir, lock: int, manifest: Manifest) -> None:
        """Start the supervisor of a job; it outlives this process."""
        state = first_state(State.STARTING, say.STARTING())
        files.write_json(directory.state, state)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        log = os.open(directory.supervisor_log, flags, 0o600)
        try:
            own = manifest["spec"].get("env") or {}
            if warm.applies(manifest["plan"]["device"], own, os.environ) and warm.start(
                str(directory.path), lock, log, store.home()
            ):
                return
            self._start_cold(directory, lock, log)
        finally:
            os.close(log)

    def _start_cold(self, directory: JobDir, lock: int, log: int) -> None:
        program = (
            "import gc, os, sys; os.fork() and os._exit(0); sys.path.insert(0, sys.argv[1]); "
            "gc.disable(); from jupyter_jax_trainer.backends.local.keeper import main; "
            "gc.enable(); main(sys.argv[2], int(sys.argv[3]))"
        )
        # Isolated and without site-packages: it needs the standard library alone, and starts fast.
        command = [sys.executable, "-I", "-S", "-c", program, _ROOT, str(directory.path), str(lock)]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[lock],
            start_new_session=True,
            check=False,
        )
        if done.returncode != 0:
            raise BackendError(
                say.SUPERVISOR_DID_NOT_START(code=done.returncode, log=directory.supervisor_log)
            )


def _rendezvous_timeout(spec: JobSpec) -> float:
    return timeouts.RENDEZVOUS.given(dict(spec.env)) or timeouts.RENDEZVOUS.seconds


def _working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise UsageError(say.DIRECTORY_GONE()) from None


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
