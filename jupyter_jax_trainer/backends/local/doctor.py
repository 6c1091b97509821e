"""What jobs need of this machine; jax itself is never imported."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from jupyter_jax_trainer import machine, timeouts
from jupyter_jax_trainer.backends.local.runtimes import gpu_plugin, local_gpus
from jupyter_jax_trainer.channel import sockets
from jupyter_jax_trainer.doctor.finding import FAIL, OK, WARN, Finding
from jupyter_jax_trainer.errors import BackendError, JobDirError, UsageError
from jupyter_jax_trainer.jobdir import layout, locks, store
from jupyter_jax_trainer.jobdir.manifest import machine_of
from jupyter_jax_trainer.messages import Label, doctor
from jupyter_jax_trainer.messages import local_doctor as say
from jupyter_jax_trainer.runtime import installed
from jupyter_jax_trainer.states import ENDED
from jupyter_jax_trainer.text import joined, size, version_numbers

_LEAST_DISK = 1_000_000_000
_LEAST_MEMORY = 2_000_000_000
_LEAST_JAX = (0, 6)


def examine() -> Iterator[Finding]:
    """Make all checks, one after the other."""
    for subject, check in _CHECKS:
        try:
            yield check()
        except Exception as error:
            # A doctor that falls ill itself is of no use: whatever it was, the rest is looked at.
            yield Finding(WARN, subject(), say.NOT_CHECKED(error=error))


def _python() -> Finding:
    return Finding(OK, doctor.PYTHON(), f"{platform.python_version()} ({sys.executable})")


def _system() -> Finding:
    name = platform.system()
    if name == "Linux":
        return Finding(OK, say.SYSTEM(), name)
    if name == "Darwin":
        return Finding(WARN, say.SYSTEM(), say.MACOS())
    return Finding(FAIL, say.SYSTEM(), say.UNSUPPORTED_SYSTEM(name=name))


def _jax() -> Finding:
    version = installed("jax")
    if version is None:
        return Finding(FAIL, say.JAX(), say.NOT_INSTALLED(), say.INSTALL_JAX())
    if version_numbers(version) < _LEAST_JAX:
        return Finding(FAIL, say.JAX(), version, say.UPGRADE_JAX())
    return Finding(OK, say.JAX(), version)


def _jaxlib() -> Finding:
    jax, jaxlib = installed("jax"), installed("jaxlib")
    if jaxlib is None:
        return Finding(FAIL, say.JAXLIB(), say.NOT_INSTALLED(), say.INSTALL_JAXLIB())
    if jax is None or jax == jaxlib:
        return Finding(OK, say.JAXLIB(), jaxlib)
    theirs, own = version_numbers(jaxlib), version_numbers(jax)
    if theirs[:2] == own[:2] and theirs <= own:
        return Finding(OK, say.JAXLIB(), say.JAXLIB_FITS(jaxlib=jaxlib, jax=jax))
    return Finding(FAIL, say.JAXLIB(), say.JAXLIB_MISMATCH(jaxlib=jaxlib, jax=jax))


def _cloudpickle() -> Finding:
    version = installed("cloudpickle")
    if version is None or version_numbers(version)[:1] != (3,) or version_numbers(version) < (3, 1):
        detail = version or say.NOT_INSTALLED()
        return Finding(FAIL, say.CLOUDPICKLE(), detail, say.INSTALL_CLOUDPICKLE())
    return Finding(OK, say.CLOUDPICKLE(), version)


def _ipython() -> Finding:
    version = installed("ipython")
    if version is None or version_numbers(version) < (8, 20):
        detail = version or say.NOT_INSTALLED()
        return Finding(WARN, say.IPYTHON(), detail, say.INSTALL_IPYTHON())
    return Finding(OK, say.IPYTHON(), version)


def _cores() -> Finding:
    from jupyter_jax_trainer.backends.local.slots import LIMIT_VARIABLE, limit_of_cores

    cores = limit_of_cores()
    if os.environ.get(LIMIT_VARIABLE):
        return Finding(OK, say.CORES(), say.CORES_SET(cores=cores, variable=LIMIT_VARIABLE))
    return Finding(OK, say.CORES(), say.CORES_OF_MACHINE(cores=cores))


def _memory() -> Finding:
    free = machine.free_memory()
    if free is None:
        return Finding(OK, say.MEMORY(), say.MEMORY_UNKNOWN())
    if free < _LEAST_MEMORY:
        return Finding(WARN, say.MEMORY(), say.LITTLE_MEMORY(free=size(free)))
    return Finding(OK, say.MEMORY(), say.FREE(free=size(free)))


def _gpus() -> Finding:
    gpus = local_gpus()
    if not gpus:
        return Finding(OK, say.GPUS(), say.NO_GPUS())
    plugin = gpu_plugin()
    if not plugin:
        return Finding(WARN, say.GPUS(), say.GPUS_WITHOUT_PLUGIN(gpus=len(gpus)))
    return Finding(OK, say.GPUS(), say.GPUS_USABLE(gpus=len(gpus), plugin=plugin))


def _job_store() -> Finding:
    home = store.home()
    try:
        store.private_directory(home)
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(b"x")
    except BackendError as error:
        return Finding(FAIL, say.JOB_STORE(), error.message, error.hint)
    except OSError as error:
        why = error.strerror or error
        return Finding(FAIL, say.JOB_STORE(), say.STORE_NOT_WRITABLE(home=home, error=why))
    return Finding(OK, say.JOB_STORE(), str(home))


def _locks() -> Finding:
    with tempfile.NamedTemporaryFile(dir=store.home()) as first:
        missing = locks.problem(first.fileno())
        try:
            held = locks.try_lock(first.fileno())
        except BackendError as error:
            return Finding(FAIL, say.LOCKS(), error.message, error.hint)
        with Path(first.name).open() as second:
            if not held or locks.try_lock(second.fileno()):
                return Finding(FAIL, say.LOCKS(), say.LOCKS_HOLD_NOBODY())
    if missing:
        said = say.LOCKS_SUBSTITUTED(error=missing, folder=locks.folder())
        return Finding(WARN, say.LOCKS(), said)
    return Finding(OK, say.LOCKS(), say.LOCKS_WORK())


def _disk() -> Finding:
    free = shutil.disk_usage(_existing(store.home())).free
    if free < _LEAST_DISK:
        return Finding(WARN, say.DISK(), say.LITTLE_DISK(free=size(free)))
    return Finding(OK, say.DISK(), say.FREE(free=size(free)))


def _loopback() -> Finding:
    """See whether two processes of this machine can meet, as the ranks of a job do."""
    import socket

    patience = timeouts.DOCTOR.seconds
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(patience)
            with socket.create_connection(server.getsockname(), timeout=patience):
                server.accept()[0].close()
    except OSError as error:
        return Finding(FAIL, say.PORTS(), say.PORTS_FAIL(error=error.strerror or error))
    return Finding(OK, say.PORTS(), say.PORTS_WORK())


def _settings() -> Finding:
    from jupyter_jax_trainer import log
    from jupyter_jax_trainer.jobdir import retention

    try:
        retention.Bounds.of_environment()
    except UsageError as error:
        return Finding(FAIL, say.SETTINGS(), error.message, error.hint or say.CORRECT_SETTING())
    level = os.environ.get(log.LEVEL_VARIABLE, "")
    if level and level.lower() not in log.LEVELS:
        said = say.UNKNOWN_LEVEL(
            variable=log.LEVEL_VARIABLE, value=level, levels=", ".join(log.LEVELS)
        )
        return Finding(WARN, say.SETTINGS(), said)
    return Finding(OK, say.SETTINGS(), say.SETTINGS_VALID())


def _directories() -> Finding:
    broken, abandoned, directories = [], [], layout.list_all()
    for directory in directories:
        try:
            manifest = directory.read_manifest()
            state = directory.read_state()
        except JobDirError:
            # One that is just being submitted has no manifest yet.
            if not directory.is_live():
                broken.append(directory.path.name)
            continue
        if (
            (state is None or state["state"] not in ENDED)
            and not directory.is_live()
            and not machine.runs_elsewhere(machine_of(manifest), directory.lock)
        ):
            abandoned.append(directory.path.name)
    if not broken and not abandoned:
        return Finding(OK, say.DIRECTORIES(), say.NONE_DAMAGED(count=len(directories)))
    details, advice = [], []
    if broken:
        said = say.DAMAGED(
            count=len(broken), directory=layout.jobs_directory(), names=joined(broken, most=6)
        )
        details.append(said)
        advice.append(str(said.hint))
    if abandoned:
        details.append(say.ABANDONED(count=len(abandoned)))
        names, rest = " ".join(abandoned[:5]), len(abandoned) - 5
        advice.append(
            say.DELETE_SOME(names=names, rest=rest)
            if rest > 0
            else say.DELETE_ABANDONED(names=names)
        )
    return Finding(WARN, say.DIRECTORIES(), "; ".join(details), " ".join(advice))


def _warm_start() -> Finding:
    from jupyter_jax_trainer.backends.local import warm

    if not warm.applies("cpu", {}, os.environ):
        return Finding(OK, say.WARM_START(), say.WARM_OFF(variable=warm.SWITCH_VARIABLE))
    with contextlib.suppress(OSError):
        if sockets.is_listened_to(warm.socket_path(store.home() / "run", os.environ)):
            return Finding(OK, say.WARM_START(), say.WARM_READY())
    return Finding(OK, say.WARM_START(), say.WARM_NOT_RUNNING())


def _existing(path: Path) -> Path:
    return path if path.exists() or path == path.parent else _existing(path.parent)


_CHECKS: tuple[tuple[Label, Callable[[], Finding]], ...] = (
    (doctor.PYTHON, _python),
    (say.SYSTEM, _system),
    (say.JAX, _jax),
    (say.JAXLIB, _jaxlib),
    (say.CLOUDPICKLE, _cloudpickle),
    (say.IPYTHON, _ipython),
    (say.CORES, _cores),
    (say.MEMORY, _memory),
    (say.GPUS, _gpus),
    (say.JOB_STORE, _job_store),
    (say.LOCKS, _locks),
    (say.DISK, _disk),
    (say.PORTS, _loopback),
    (say.SETTINGS, _settings),
    (say.DIRECTORIES, _directories),
    (say.WARM_START, _warm_start),
)
