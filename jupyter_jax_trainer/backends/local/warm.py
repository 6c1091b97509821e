"""The warm start: jobs are forked from a process that has imported jax already.

Importing jax is most of the time until a job's first step. One process per user and environment
does it once; a job's supervisor is forked from it, and its ranks from the supervisor. The process
starts with the first job that could use it and ends after ten idle minutes.

Only CPU jobs on Linux start warm, and only when nothing in their environment changes how jax starts
up; everything else starts cold. ``JAXTRAIN_WARM=0`` turns the warm start off.
"""

from __future__ import annotations

import array
import contextlib
import gc
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import jupyter_jax_trainer
from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.local.processes import close_files_from, move_file
from jupyter_jax_trainer.channel.sockets import is_same_user, socket_at
from jupyter_jax_trainer.jobdir.locks import try_lock
from jupyter_jax_trainer.jobdir.store import private_directory
from jupyter_jax_trainer.log import log_exception

SWITCH_VARIABLE = "JAXTRAIN_WARM"
_MAX_REQUEST = 16 << 20  # bytes: an environment, which Linux bounds to less
_COLD_PREFIXES = ("JAX_", "XLA_", "LIBTPU_", "TPU_")
# What every rank is given anyway, and what jax itself has set where the notebook has imported it.
_NO_MATTER = ("JAX_PLATFORMS", "JAX_NUM_CPU_DEVICES", "TPU_SKIP_MDS_QUERY")
_SET_BY_JAX = {"TF_CPP_MIN_LOG_LEVEL": "1"}
# What is read when Python, numpy or jax start, and so can't be set in a fork.
_START_PREFIXES = (
    "PYTHON",
    "LD_",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "GOTO_",
    "TF_",
    "MALLOC_",
    "LC_",
    "LANG",
    "GRPC_",
    "GLOG_",
    "ABSL_",
    "NPY_",
)
_PACKAGE = Path(jupyter_jax_trainer.__file__).parent


def applies(device: str, own: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Return whether a job can start warm.

    Parameters
    ----------
    device
        The kind of device that it takes.
    own, environment
        Its own variables, and the submitter's.
    """
    names = {*environment, *own}.difference(_NO_MATTER)
    return (
        sys.platform == "linux"
        and environment.get(SWITCH_VARIABLE, "1") not in ("0", "off", "no", "false")
        and device == "cpu"
        and not any(name.startswith(_COLD_PREFIXES) for name in names)
        and not any(name.startswith(_START_PREFIXES) for name in own)
    )


def socket_path(run_directory: Path, environment: Mapping[str, str]) -> Path:
    """Return the socket of the process that fits an environment.

    Everything that is fixed when a Python process starts is part of the name: the interpreter, its
    packages, and the variables that are read at start.
    """
    start = sorted(
        item
        for item in {**_SET_BY_JAX, **environment}.items()
        if item[0].startswith(_START_PREFIXES) and item[0] != "PYTHONSTARTUP"
    )
    files = sorted(_PACKAGE.rglob("*.py"))
    code = [(str(file), file.stat().st_mtime_ns) for file in files]
    packages = [
        (entry, os.stat(entry).st_mtime_ns)
        for entry in sys.path
        if entry and os.path.isdir(entry) and entry.endswith(("site-packages", "dist-packages"))
    ]
    umask = os.umask(0o077)
    os.umask(umask)
    text = json.dumps([sys.executable, sys.prefix, sys.version, start, code, packages, umask])
    return run_directory / f"warm-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def start(path: str, lock: int, log: int, home: Path) -> bool:
    """Start a job's supervisor from the warm process, which is started first where there is none.

    Parameters
    ----------
    path
        The job's directory.
    lock
        Its locked file, handed over.
    log
        An open file for what the supervisor prints.
    home
        The root of all jobs.

    Returns
    -------
    bool
        False when the job has to start cold after all.
    """
    where = socket_path(private_directory(home / "run"), os.environ)
    guard = os.open(where.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # A running process holds the lock, so a free lock means that none is running.
        if try_lock(guard):
            _launch(where, guard, path, lock, log)
            return True
    finally:
        os.close(guard)
    return _ask(where, path, lock, log)


def _launch(where: Path, guard: int, path: str, lock: int, log: int) -> None:
    """Start the warm process with a first job, which need not wait to be asked for."""
    where.unlink(missing_ok=True)
    program = (
        "import sys; from jupyter_jax_trainer.backends.local import warm; warm.main(*sys.argv[1:])"
    )
    with open(where.with_suffix(".log"), "wb", buffering=0) as output:
        os.fchmod(output.fileno(), 0o600)
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(where), path, str(guard), str(lock), str(log)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[guard, lock, log],
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": _with_package(os.environ.get("PYTHONPATH"))},
        )
    process.wait()  # it forks at once


def _with_package(python_path: str | None) -> str:
    """Let the new process find this very package, however this one found it."""
    return os.pathsep.join(filter(None, [python_path, str(_PACKAGE.parent)]))


def _ask(where: Path, path: str, lock: int, log: int) -> bool:
    """Ask the running process for a fork."""
    request = json.dumps(
        {
            "path": path,
            "environment": dict(os.environ),
            "cwd": os.getcwd(),
        }
    ).encode()
    files = array.array("i", [lock, log])
    with contextlib.suppress(OSError, ValueError), socket_at(where) as (connection, address):
        connection.settimeout(timeouts.WARM.seconds)
        connection.connect(address)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)]
        connection.sendmsg([len(request).to_bytes(8)], rights)
        connection.sendall(request)
        with contextlib.suppress(TimeoutError):
            return bool(connection.recv(2) == b"ok")
        connection.shutdown(socket.SHUT_RDWR)  # too late for a yes, unless it is here already
        return bool(connection.recv(2) == b"ok")
    return False


# -- the warm process ------------------------------------------------------------------------


def main(where: str, path: str, guard: str, lock: str, log: str) -> None:
    """Fork into the background, import jax, start the first job, then wait for more."""
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the children are reaped by the system
    with socket_at(Path(where)) as (listener, address):
        listener.bind(address)
        os.chmod(where, 0o600)
        listener.listen(64)
        first = {"path": path, "environment": dict(os.environ), "cwd": os.getcwd()}
        ready = _import_jax()
        _fork_job(first, int(lock), int(log), warm=ready)
        os.close(int(lock))
        os.close(int(log))
        if ready:
            gc.collect()
            gc.freeze()
            _serve(listener)
        Path(where).unlink(missing_ok=True)


_MODULES = (
    "jax",
    "jax.numpy",
    "jax.experimental.multihost_utils",
    # What jax itself imports only when it first compiles.
    "jaxlib.mlir.dialects.builtin",
    "jaxlib.mlir.dialects.mhlo",
    "jaxlib.mlir.extras.meta",
    "cloudpickle",
    # What the supervisors of jobs and of sessions need.
    "jupyter_jax_trainer.backends.local.keeper",
    "jupyter_jax_trainer.backends.local.session",
    "jupyter_jax_trainer.jobdir.endrunner",
    "jupyter_jax_trainer.logs.reader",
    "jupyter_jax_trainer.worker.cell",
    "jupyter_jax_trainer.worker.ipython",
    "jupyter_jax_trainer.worker.main",
    "jupyter_jax_trainer.worker.serialization.pickling",
    "jupyter_jax_trainer.worker.results",
    "jupyter_jax_trainer.worker.session",
)


def _import_jax() -> bool:
    """Import what every worker imports; where that fails, the job starts cold and says why."""
    try:
        for name in _MODULES[:2]:
            import_module(name)
    except Exception:
        return False
    for name in _MODULES[2:]:
        with contextlib.suppress(Exception):
            import_module(name)
    return True


def _serve(listener: socket.socket) -> None:
    """Fork a supervisor for each request until none has come for a while."""
    idle = timeouts.WARM_IDLE.seconds
    deadline = time.monotonic() + idle
    while (left := deadline - time.monotonic()) > 0:
        listener.settimeout(left)
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            return
        with connection, contextlib.suppress(OSError, ValueError):
            connection.settimeout(timeouts.WARM.seconds)
            if not is_same_user(connection):
                continue
            request, files = _receive(connection)
            try:
                connection.sendall(b"ok")  # fails where the other has given up: it does it itself
                _fork_job(request, *files, warm=True)
            finally:
                for file in files:
                    os.close(file)
            deadline = time.monotonic() + idle


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive a request and the open files that come with it.

    Raises
    ------
    OSError, ValueError
        It was cut off, or it is none.
    """
    head, files, _, _ = socket.recv_fds(connection, 8, 2)
    try:
        if len(files) != 2 or len(head) != 8:
            raise ValueError("a request needs a length and two files")
        length = int.from_bytes(head)
        if length > _MAX_REQUEST:
            raise ValueError("the request is too long")
        data = b""
        while len(data) < length:
            chunk = connection.recv(min(length - len(data), 1 << 20))
            if not chunk:
                raise ValueError("the request was cut off")
            data += chunk
        return _request(data), files
    except BaseException:
        for file in files:  # or the lock of a job that never started would be held for ever
            os.close(file)
        raise


def _request(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except RecursionError:
        value = None
    match value:
        case {"path": str(), "cwd": str(), "environment": dict(found)}:
            if all(isinstance(text, str) for text in found.values()):
                return dict(value)
    raise ValueError("the request is malformed")


def _fork_job(request: dict[str, Any], lock: int, log: int, *, warm: bool) -> None:
    """Fork the supervisor of a job; its ranks are forked from it in turn."""
    if os.fork():
        return
    try:
        from jupyter_jax_trainer.backends.local import keeper, workers

        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(log, 1)
        os.dup2(log, 2)
        # Nothing of the warm process may stay open here, its own lock above all.
        lock = move_file(lock, 3)
        close_files_from(4)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environment"])
        time.tzset()
        keeper.supervise(request["path"], workers.start_warm if warm else workers.start_cold, lock)
    except BaseException:
        log_exception()  # into supervisor.log
    finally:
        os._exit(1)
