"""What jobs need of this machine; jax itself is never imported."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from jupyter_jax_trainer import machine, timeouts
from jupyter_jax_trainer.doctor.finding import FAIL, OK, WARN, Finding
from jupyter_jax_trainer.errors import BackendError, JobDirError, UsageError
from jupyter_jax_trainer.jobdir import layout, locks, store
from jupyter_jax_trainer.jobdir.manifest import machine_of
from jupyter_jax_trainer.runtime import gpu_plugin, installed, local_gpus
from jupyter_jax_trainer.states import ENDED
from jupyter_jax_trainer.text import joined, size, version_numbers

_LEAST_DISK = 1_000_000_000
_LEAST_MEMORY = 2_000_000_000
_LEAST_JAX = (0, 6)


def examine() -> Iterator[Finding]:
    """Make all checks, one after the other."""
    for check in _CHECKS:
        try:
            yield check()
        except Exception as error:
            # A doctor that falls ill itself is of no use: whatever it was, the rest is looked at.
            subject = check.__name__.strip("_").replace("_", " ").capitalize()
            yield Finding(WARN, subject, f"could not be checked: {error}")


def _python() -> Finding:
    return Finding(OK, "Python", f"{platform.python_version()} ({sys.executable})")


def _system() -> Finding:
    name = platform.system()
    if name == "Linux":
        return Finding(OK, "Operating system", name)
    if name == "Darwin":
        return Finding(WARN, "Operating system", "macOS", "Jobs run, without the warm start.")
    return Finding(FAIL, "Operating system", name, "Jobs can't run locally on this system.")


def _jax() -> Finding:
    version = installed("jax")
    if version is None:
        return Finding(FAIL, "jax", "not installed", "Install it: pip install jax")
    if version_numbers(version) < _LEAST_JAX:
        return Finding(FAIL, "jax", version, "jax 0.6 or newer is needed: pip install -U jax")
    return Finding(OK, "jax", version)


def _jaxlib() -> Finding:
    jax, jaxlib = installed("jax"), installed("jaxlib")
    if jaxlib is None:
        return Finding(FAIL, "jaxlib", "not installed", "Install it: pip install -U jax")
    if jax is None or jax == jaxlib:
        return Finding(OK, "jaxlib", jaxlib)
    theirs, own = version_numbers(jaxlib), version_numbers(jax)
    fits = theirs[:2] == own[:2] and theirs <= own
    return Finding(
        OK if fits else FAIL,
        "jaxlib",
        f"{jaxlib}, with jax {jax}",
        None if fits else f"They don't match: pip install 'jaxlib=={jax}'",
    )


def _cloudpickle() -> Finding:
    version = installed("cloudpickle")
    if version is None or version_numbers(version)[:1] != (3,) or version_numbers(version) < (3, 1):
        advice = "Version 3.1 or newer is needed: pip install -U 'cloudpickle>=3.1,<4'"
        return Finding(FAIL, "cloudpickle", version or "not installed", advice)
    return Finding(OK, "cloudpickle", version)


def _ipython() -> Finding:
    version = installed("ipython")
    if version is None or version_numbers(version) < (8, 20):
        advice = "The magics need 8.20 or newer: pip install -U ipython"
        return Finding(WARN, "IPython", version or "not installed", advice)
    return Finding(OK, "IPython", version)


def _cores() -> Finding:
    from jupyter_jax_trainer.backends.local.slots import LIMIT_VARIABLE, limit_of_cores

    cores = limit_of_cores()
    limited = f" (set by {LIMIT_VARIABLE})" if os.environ.get(LIMIT_VARIABLE) else ""
    return Finding(OK, "Cores", f"{cores} for all jobs together{limited}")


def _memory() -> Finding:
    free = machine.free_memory()
    if free is None:
        return Finding(OK, "Memory", "not known on this system")
    if free < _LEAST_MEMORY:
        advice = "A process with jax takes about 500 MB; close something, or use fewer nodes."
        return Finding(WARN, "Memory", f"{size(free)} free", advice)
    return Finding(OK, "Memory", f"{size(free)} free")


def _gpus() -> Finding:
    gpus = local_gpus()
    if not gpus:
        return Finding(OK, "GPUs", "none; jobs run on the CPU")
    plugin = gpu_plugin()
    advice = "jax can't use them yet: pip install 'jax[cuda13]' (or cuda12 for an older driver)"
    return Finding(
        OK if plugin else WARN,
        "GPUs",
        f"{len(gpus)}, {f'jax plugin {plugin}' if plugin else 'no plugin for jax'}",
        None if plugin else advice,
    )


def _job_store() -> Finding:
    home = store.home()
    try:
        store.private_directory(home)
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(b"x")
    except BackendError as error:
        return Finding(FAIL, "Job store", error.message, error.hint)
    except OSError as error:
        advice = "Set JAXTRAIN_HOME to a directory that you can write to."
        return Finding(FAIL, "Job store", f"{home}: {error.strerror or error}", advice)
    return Finding(OK, "Job store", str(home))


def _locks() -> Finding:
    with tempfile.NamedTemporaryFile(dir=store.home()) as first:
        advice = "Set JAXTRAIN_HOME to a directory on a local disk."
        missing = locks.problem(first.fileno())
        try:
            held = locks.try_lock(first.fileno())
        except BackendError as error:
            return Finding(FAIL, "Locks", error.message, error.hint)
        with Path(first.name).open() as second:
            if not held or locks.try_lock(second.fileno()):
                return Finding(FAIL, "Locks", "flock does not keep others out there", advice)
    if missing:
        return Finding(
            WARN,
            "Locks",
            f"flock unavailable: {missing}; using locks in {locks.folder()} (this machine only)",
            f"Use the job store from this machine only, or {advice[0].lower()}{advice[1:]}",
        )
    return Finding(OK, "Locks", "flock works in the job store")


def _disk() -> Finding:
    free = shutil.disk_usage(_existing(store.home())).free
    if free < _LEAST_DISK:
        advice = "Free some space; `jaxtrain prune --older-than 30d` removes old jobs."
        return Finding(WARN, "Disk", f"{size(free)} free", advice)
    return Finding(OK, "Disk", f"{size(free)} free")


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
        advice = "The ranks of a job meet there: see to the loopback interface and its firewall."
        return Finding(FAIL, "Ports", f"127.0.0.1: {error.strerror or error}", advice)
    return Finding(OK, "Ports", "processes can meet on 127.0.0.1")


def _settings() -> Finding:
    from jupyter_jax_trainer import log
    from jupyter_jax_trainer.jobdir import retention

    try:
        retention.Bounds.of_environment()
    except UsageError as error:
        return Finding(FAIL, "Settings", error.message, error.hint or "Set it right, or unset it.")
    level = os.environ.get(log.LEVEL_VARIABLE, "")
    if level and level.lower() not in log.LEVELS:
        advice = f"Set it to one of {', '.join(log.LEVELS)}."
        return Finding(WARN, "Settings", f"{log.LEVEL_VARIABLE} is {level!r}", advice)
    return Finding(OK, "Settings", "the environment's make sense")


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
        return Finding(OK, "Job directories", f"{len(directories)}, none damaged")
    words, advice = [], []
    if broken:
        words.append(f"{len(broken)} damaged")
        listed = joined(broken, most=6)
        advice.append(f"Delete what can't be read in {layout.jobs_directory()}: {listed}.")
    if abandoned:
        words.append(f"{len(abandoned)} that nobody runs any more")
        more = f" (and {len(abandoned) - 5} more)" if len(abandoned) > 5 else ""
        advice.append(f"jaxtrain delete {' '.join(abandoned[:5])}{more}")
    return Finding(WARN, "Job directories", ", ".join(words), " ".join(advice))


def _warm_start() -> Finding:
    from jupyter_jax_trainer.backends.local import warm

    if not warm.applies("cpu", {}, os.environ):
        why = f"{warm.SWITCH_VARIABLE}, JAX_ or XLA_ variables, or the system"
        return Finding(OK, "Warm start", f"off here ({why}); jobs start cold")
    if _answers(warm.socket_path(store.home() / "run", os.environ)):
        return Finding(OK, "Warm start", "ready: the next job on the CPU starts at once")
    return Finding(OK, "Warm start", "not running; a job on the CPU starts it")


def _answers(path: Path) -> bool:
    import socket

    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
            end.settimeout(timeouts.DOCTOR.seconds)
            # By way of the directory: a socket's own path may have 107 bytes only.
            end.connect(f"/proc/self/fd/{directory}/{path.name}")
            return True
    except OSError:
        return False
    finally:
        os.close(directory)


def _existing(path: Path) -> Path:
    return path if path.exists() or path == path.parent else _existing(path.parent)


_CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _system,
    _jax,
    _jaxlib,
    _cloudpickle,
    _ipython,
    _cores,
    _memory,
    _gpus,
    _job_store,
    _locks,
    _disk,
    _loopback,
    _settings,
    _directories,
    _warm_start,
)
