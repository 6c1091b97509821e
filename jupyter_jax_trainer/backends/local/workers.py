"""Start the ranks of a job: as fresh Python processes, or forked from a warm one."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, Protocol

from jupyter_jax_trainer.backends.local.processes import close_files_from, move_file
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest
from jupyter_jax_trainer.log import log_exception
from jupyter_jax_trainer.worker.channel import FD_VARIABLE
from jupyter_jax_trainer.worker.compilecache import FOLDER_VARIABLE, OFF
from jupyter_jax_trainer.worker.records import RESULT_VARIABLE
from jupyter_jax_trainer.worker.reporting import CHECKPOINTS_VARIABLE
from jupyter_jax_trainer.worker.serialization.archive import DIGEST_VARIABLE

# What belongs to the notebook's own process and would mislead a worker (or tell it a token).
_NOT_FOR_WORKERS = (
    "JPY_",
    "JUPYTER_TOKEN",
    "JUPYTERHUB_API_TOKEN",
    "KERNEL_",
    "MPLBACKEND",
    "PYTHONSTARTUP",
    "PYDEVD_",
    "CLICOLOR",
    "PAGER",
    "GIT_PAGER",
    "TERM_PROGRAM",
)


@dataclass
class Started:
    """A rank that was started: its process and this end of its channel."""

    pid: int
    channel: socket.socket


class Starter(Protocol):
    """Starts one rank."""

    def __call__(
        self,
        directory: JobDir,
        environment: dict[str, str],
        cwd: str,
        channel: socket.socket,
        log: int,
    ) -> int:
        """Start a process that speaks over `channel` and prints into the open file `log`."""


def environment(
    base: Mapping[str, str],
    directory: JobDir,
    manifest: Manifest,
    rank: int,
    gpus: list[str],
) -> dict[str, str]:
    """Make the environment of a rank.

    Parameters
    ----------
    base
        The submitter's.
    directory, manifest
        The job.
    rank
        Which rank.
    gpus
        All GPUs of the job; each rank gets its share.
    """
    plan, spec = manifest["plan"], manifest["spec"]
    kept = {k: v for k, v in base.items() if not k.startswith(_NOT_FOR_WORKERS)}
    each = plan["devices_per_node"]
    result = {
        **kept,
        "JAX_TRACEBACK_FILTERING": "quiet_remove_frames",
        "PYTHONFAULTHANDLER": "1",
        **dict(spec.get("env") or {}),
        "JAXTRAIN_JOB": manifest["name"],
        "JAXTRAIN_JOB_UID": manifest["uid"],
        "JAX_PROCESS_ID": str(rank),
        "JAX_NUM_PROCESSES": str(spec["nodes"]),
        DIGEST_VARIABLE: manifest["digest"],
        RESULT_VARIABLE: str(directory.result),
        CHECKPOINTS_VARIABLE: str(directory.checkpoints),
    }
    off = spec.get("no_compile_cache")
    result[FOLDER_VARIABLE] = OFF if off else str(directory.compile_cache)
    if plan["device"] == "cpu":
        result["JAX_PLATFORMS"] = "cpu"
        result["JAX_NUM_CPU_DEVICES"] = str(each)
    else:
        if "JAX_PLATFORMS" not in (spec.get("env") or {}):
            # Set for the notebook, so that its kernel leaves the GPUs to jobs.
            result.pop("JAX_PLATFORMS", None)
        result["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[rank * each : (rank + 1) * each])
    return result


def start(starter: Starter, directory: JobDir, env: dict[str, str], cwd: str, rank: int) -> Started:
    """Start one rank with a channel and a log of its own."""
    ours, theirs = socket.socketpair()
    log = os.open(directory.log(rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        pid = starter(directory, env, cwd, theirs, log)
    finally:
        theirs.close()
        os.close(log)
    ours.setblocking(False)
    return Started(pid, ours)


def start_cold(
    directory: JobDir, environment: dict[str, str], cwd: str, channel: socket.socket, log: int
) -> int:
    """Start a fresh Python on the bundle, as a pod would."""
    number = channel.fileno()
    # The supervisor reaps all its children itself; Popen's own book-keeping would interfere.
    process = subprocess.Popen(
        [sys.executable, str(directory.bundle)],
        env={**environment, FD_VARIABLE: str(number)},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=[number],
        process_group=0,
    )
    process.returncode = 0
    return process.pid


def start_warm(
    directory: JobDir, environment: dict[str, str], cwd: str, channel: socket.socket, log: int
) -> int:
    """Fork this process, which has imported jax already."""
    pid = os.fork()
    if pid == 0:
        _become_worker(directory, environment, cwd, channel, log)
    return pid


def _become_worker(
    directory: JobDir, environment: dict[str, str], cwd: str, channel: socket.socket, log: int
) -> NoReturn:
    """Make a fork look like a fresh process, then run the worker in it."""
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for caught in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(caught, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        number = move_file(channel.detach(), 3)
        close_files_from(4)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        os.environ[FD_VARIABLE] = str(number)
        bundle = str(directory.bundle)
        sys.argv = [bundle]
        sys.path.insert(0, bundle)
        gc.enable()
        _reseed()

        from jupyter_jax_trainer.worker.main import Worker

        Worker(bundle, prepare=_set_jax_options).run()
    except BaseException:
        with contextlib.suppress(BaseException):
            log_exception()
    finally:
        os._exit(1)


def _reseed() -> None:
    """Give numpy's global generator fresh entropy: all forks would draw the same numbers."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def _set_jax_options() -> None:
    """Set what a fresh process reads from its environment when it imports jax."""
    import jax

    jax.config.update("jax_platforms", os.environ["JAX_PLATFORMS"])
    jax.config.update("jax_num_cpu_devices", int(os.environ["JAX_NUM_CPU_DEVICES"]))
    jax.config.update("jax_traceback_filtering", os.environ["JAX_TRACEBACK_FILTERING"])
