"""What jobs need of this machine; jax itself is never imported."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from jupyter_jax_trainer import machine, timeouts
from jupyter_jax_trainer.backends.local.runtimes import gpu_plugin, local_gpus
from jupyter_jax_trainer.channel import sockets
from jupyter_jax_trainer.doctor.finding import FAIL, OK, WARN, Finding
from jupyter_jax_trainer.errors import BackendError, JobDirError, UsageError
from jupyter_jax_trainer.jobdir import endhook, layout, locks, store
from jupyter_jax_trainer.jobdir.manifest import machine_of
from jupyter_jax_trainer.messages import Label, Message, identify
from jupyter_jax_trainer.messages import doctor as say
from jupyter_jax_trainer.runtime import installed
from jupyter_jax_trainer.states import ENDED
from jupyter_jax_trainer.text import joined, size, version_numbers

_LEAST_DISK = 1_000_000_000
_LEAST_MEMORY = 2_000_000_000
_LEAST_JAX = (0, 6)

NOT_CHECKED = Message("could not be checked: {error}")


class _Check(NamedTuple):
    """A check of this machine, as a row of the table below; `notable` as of its `Finding`."""

    subject: Label
    find: Callable[[], Finding]
    notable: bool = False


def examine() -> Iterator[Finding]:
    """Make all checks, one after the other."""
    for check in _CHECKS:
        try:
            yield replace(check.find(), notable=check.notable)
        except Exception as error:
            # Whatever is wrong with one check, the others are made.
            yield Finding(WARN, check.subject(), NOT_CHECKED(error=error))


def _python() -> Finding:
    return Finding(OK, say.PYTHON(), f"{platform.python_version()} ({sys.executable})")


SYSTEM = Label("Operating system")
MACOS = Message("macOS", "Jobs work, but always start cold.")
UNSUPPORTED_SYSTEM = Message("unsupported: {name}", "Jobs can't run locally on this system.")


def _system() -> Finding:
    name = platform.system()
    if name == "Linux":
        return Finding(OK, SYSTEM(), name)
    if name == "Darwin":
        return Finding(WARN, SYSTEM(), MACOS())
    return Finding(FAIL, SYSTEM(), UNSUPPORTED_SYSTEM(name=name))


NOT_INSTALLED = Message("not installed")
JAX = Label("jax")
INSTALL_JAX = Message("Install it: `pip install jax`.")
UPGRADE_JAX = Message("Upgrade to jax 0.6 or newer: `pip install -U jax`.")


def _jax() -> Finding:
    version = installed("jax")
    if version is None:
        return Finding(FAIL, JAX(), NOT_INSTALLED(), INSTALL_JAX())
    if version_numbers(version) < _LEAST_JAX:
        return Finding(FAIL, JAX(), version, UPGRADE_JAX())
    return Finding(OK, JAX(), version)


JAXLIB = Label("jaxlib")
INSTALL_JAXLIB = Message("Install it with jax: `pip install -U jax`.")
JAXLIB_FITS = Message("{jaxlib}, with jax {jax}")
JAXLIB_MISMATCH = Message(
    "{jaxlib}, but jax is {jax}", "The versions don't match: `pip install 'jaxlib=={jax}'`."
)


def _jaxlib() -> Finding:
    jax, jaxlib = installed("jax"), installed("jaxlib")
    if jaxlib is None:
        return Finding(FAIL, JAXLIB(), NOT_INSTALLED(), INSTALL_JAXLIB())
    if jax is None or jax == jaxlib:
        return Finding(OK, JAXLIB(), jaxlib)
    theirs, own = version_numbers(jaxlib), version_numbers(jax)
    if theirs[:2] == own[:2] and theirs <= own:
        return Finding(OK, JAXLIB(), JAXLIB_FITS(jaxlib=jaxlib, jax=jax))
    return Finding(FAIL, JAXLIB(), JAXLIB_MISMATCH(jaxlib=jaxlib, jax=jax))


CLOUDPICKLE = Label("cloudpickle")
INSTALL_CLOUDPICKLE = Message(
    "Version 3.1 or a newer 3.x is required: `pip install -U 'cloudpickle>=3.1,<4'`."
)


def _cloudpickle() -> Finding:
    version = installed("cloudpickle")
    if version is None or version_numbers(version)[:1] != (3,) or version_numbers(version) < (3, 1):
        detail = version or NOT_INSTALLED()
        return Finding(FAIL, CLOUDPICKLE(), detail, INSTALL_CLOUDPICKLE())
    return Finding(OK, CLOUDPICKLE(), version)


IPYTHON = Label("IPython")
INSTALL_IPYTHON = Message("The magics need IPython 8.20 or newer: `pip install -U ipython`.")


def _ipython() -> Finding:
    version = installed("ipython")
    if version is None or version_numbers(version) < (8, 20):
        detail = version or NOT_INSTALLED()
        return Finding(WARN, IPYTHON(), detail, INSTALL_IPYTHON())
    return Finding(OK, IPYTHON(), version)


CORES = Label("Cores")
CORES_OF_MACHINE = Message("at most {cores} for all jobs")
CORES_SET = Message("at most {cores} for all jobs (set by {variable})")


def _cores() -> Finding:
    from jupyter_jax_trainer.backends.local.slots import LIMIT_VARIABLE, limit_of_cores

    cores = limit_of_cores()
    if os.environ.get(LIMIT_VARIABLE):
        return Finding(OK, CORES(), CORES_SET(cores=cores, variable=LIMIT_VARIABLE))
    return Finding(OK, CORES(), CORES_OF_MACHINE(cores=cores))


FREE = Message("free: {free}")
MEMORY = Label("Memory")
MEMORY_UNKNOWN = Message("unknown on this system")
LITTLE_MEMORY = Message(
    "only {free} free",
    "A process with jax takes about 500 MB. Close other programs, or use fewer nodes.",
)


def _memory() -> Finding:
    free = machine.free_memory()
    if free is None:
        return Finding(OK, MEMORY(), MEMORY_UNKNOWN())
    if free < _LEAST_MEMORY:
        return Finding(WARN, MEMORY(), LITTLE_MEMORY(free=size(free)))
    return Finding(OK, MEMORY(), FREE(free=size(free)))


GPUS = Label("GPUs")
NO_GPUS = Message("none; jobs run on the CPU")
GPUS_USABLE = Message("{gpus}, jax plugin {plugin}")
GPUS_WITHOUT_PLUGIN = Message(
    "found {gpus}, but no jax plugin for them",
    "Install it: `pip install 'jax[cuda13]'`, or `'jax[cuda12]'` for an older driver.",
)


def _gpus() -> Finding:
    gpus = local_gpus()
    if not gpus:
        return Finding(OK, GPUS(), NO_GPUS())
    plugin = gpu_plugin()
    if not plugin:
        return Finding(WARN, GPUS(), GPUS_WITHOUT_PLUGIN(gpus=len(gpus)))
    return Finding(OK, GPUS(), GPUS_USABLE(gpus=len(gpus), plugin=plugin))


JOB_STORE = Label("Job store")
STORE_NOT_WRITABLE = Message(
    "can't write to {home}: {error}", "Set JAXTRAIN_HOME to a directory that you can write to."
)


def _job_store() -> Finding:
    home = store.home()
    try:
        store.private_directory(home)
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(b"x")
    except BackendError as error:
        return Finding(FAIL, JOB_STORE(), error.message, error.hint)
    except OSError as error:
        why = error.strerror or error
        return Finding(FAIL, JOB_STORE(), STORE_NOT_WRITABLE(home=home, error=why))
    return Finding(OK, JOB_STORE(), str(home))


LOCKS = Label("Locks")
LOCKS_WORK = Message("flock works in the job store")
LOCKS_HOLD_NOBODY = Message(
    "flock in the job store does not exclude other processes",
    "Set JAXTRAIN_HOME to a directory on a local disk.",
)
LOCKS_SUBSTITUTED = Message(
    "flock unavailable: {error}; using locks in {folder} (this machine only)",
    "Use the job store from this machine only, or set JAXTRAIN_HOME to a directory on a local "
    "disk.",
)


def _locks() -> Finding:
    with tempfile.NamedTemporaryFile(dir=store.home()) as first:
        missing = locks.problem(first.fileno())
        try:
            held = locks.try_lock(first.fileno())
        except BackendError as error:
            return Finding(FAIL, LOCKS(), error.message, error.hint)
        with Path(first.name).open() as second:
            if not held or locks.try_lock(second.fileno()):
                return Finding(FAIL, LOCKS(), LOCKS_HOLD_NOBODY())
    if missing:
        said = LOCKS_SUBSTITUTED(error=missing, folder=locks.folder())
        return Finding(WARN, LOCKS(), said)
    return Finding(OK, LOCKS(), LOCKS_WORK())


DISK = Label("Disk")
LITTLE_DISK = Message(
    "only {free} free in the job store",
    "Free some space; `jaxtrain prune --older-than 30d` removes old jobs.",
)


def _disk() -> Finding:
    free = shutil.disk_usage(_existing(store.home())).free
    if free < _LEAST_DISK:
        return Finding(WARN, DISK(), LITTLE_DISK(free=size(free)))
    return Finding(OK, DISK(), FREE(free=size(free)))


PORTS = Label("Ports")
PORTS_WORK = Message("processes can connect on 127.0.0.1")
PORTS_FAIL = Message(
    "processes can't connect on 127.0.0.1: {error}",
    "The ranks of a job connect there. Check the loopback interface and its firewall.",
)


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
        return Finding(FAIL, PORTS(), PORTS_FAIL(error=error.strerror or error))
    return Finding(OK, PORTS(), PORTS_WORK())


SETTINGS = Label("Settings")
SETTINGS_VALID = Message("environment variables are valid")
CORRECT_SETTING = Message("Correct it, or unset it.")
UNKNOWN_LEVEL = Message("{variable} is {value!r}", "Set it to one of {levels}.")


def _settings() -> Finding:
    from jupyter_jax_trainer import log
    from jupyter_jax_trainer.jobdir import retention

    try:
        retention.Bounds.of_environment()
    except UsageError as error:
        return Finding(FAIL, SETTINGS(), error.message, error.hint or CORRECT_SETTING())
    try:
        endhook.read(store.home())
    except UsageError as error:
        return Finding(WARN, SETTINGS(), error.message, error.hint or CORRECT_SETTING())
    level = os.environ.get(log.LEVEL_VARIABLE, "")
    if level and level.lower() not in log.LEVELS:
        said = UNKNOWN_LEVEL(variable=log.LEVEL_VARIABLE, value=level, levels=", ".join(log.LEVELS))
        return Finding(WARN, SETTINGS(), said)
    return Finding(OK, SETTINGS(), SETTINGS_VALID())


DIRECTORIES = Label("Job directories")
NONE_DAMAGED = Message("found {count}, none damaged")
DAMAGED = Message("damaged: {count}", "Delete the unreadable ones in {directory}: {names}.")
ABANDONED = Message("abandoned, without a process: {count}")
DELETE_ABANDONED = Message("Delete the abandoned jobs: `jaxtrain delete {names}`.")
DELETE_SOME = Message("Delete the abandoned jobs: `jaxtrain delete {names}`, and {rest} more.")


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
        return Finding(OK, DIRECTORIES(), NONE_DAMAGED(count=len(directories)))
    details, advice = [], []
    if broken:
        said = DAMAGED(
            count=len(broken), directory=layout.jobs_directory(), names=joined(broken, most=6)
        )
        details.append(said)
        advice.append(str(said.hint))
    if abandoned:
        details.append(ABANDONED(count=len(abandoned)))
        names, rest = " ".join(abandoned[:5]), len(abandoned) - 5
        advice.append(
            DELETE_SOME(names=names, rest=rest) if rest > 0 else DELETE_ABANDONED(names=names)
        )
    return Finding(WARN, DIRECTORIES(), "; ".join(details), " ".join(advice))


WARM_START = Label("Warm start")
WARM_OFF = Message(
    "off, because of {variable}, a JAX_ or XLA_ variable, or the system; jobs start cold"
)
WARM_READY = Message("ready: the next job on the CPU starts at once")
WARM_NOT_RUNNING = Message("not running; the next job on the CPU starts it")


def _warm_start() -> Finding:
    from jupyter_jax_trainer.backends.local import warm

    if not warm.applies("cpu", {}, os.environ):
        return Finding(OK, WARM_START(), WARM_OFF(variable=warm.SWITCH_VARIABLE))
    with contextlib.suppress(OSError):
        if sockets.is_listened_to(warm.socket_path(store.home() / "run", os.environ)):
            return Finding(OK, WARM_START(), WARM_READY())
    return Finding(OK, WARM_START(), WARM_NOT_RUNNING())


def _existing(path: Path) -> Path:
    return path if path.exists() or path == path.parent else _existing(path.parent)


_CHECKS = (
    _Check(say.PYTHON, _python, notable=True),
    _Check(SYSTEM, _system),
    _Check(JAX, _jax, notable=True),
    _Check(JAXLIB, _jaxlib),
    _Check(CLOUDPICKLE, _cloudpickle),
    _Check(IPYTHON, _ipython),
    _Check(CORES, _cores, notable=True),
    _Check(MEMORY, _memory, notable=True),
    _Check(GPUS, _gpus, notable=True),
    _Check(JOB_STORE, _job_store),
    _Check(LOCKS, _locks),
    _Check(DISK, _disk, notable=True),
    _Check(PORTS, _loopback),
    _Check(SETTINGS, _settings),
    _Check(DIRECTORIES, _directories),
    _Check(WARM_START, _warm_start),
)

identify(globals(), "local_doctor")
