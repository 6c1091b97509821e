"""Which machine this is: a home directory may be shared by several, with equal host names even."""

from __future__ import annotations

import functools
import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.worker import memory

_BEATS = 6  # signs of life of a supervisor in the time after which it is taken for dead
_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Machine:
    """What tells a machine from others.

    Attributes
    ----------
    host
        Its name.
    machine
        A hash of its installation's id; empty where it has none, as many containers.
    boot
        The id that its kernel has since it was started, which all its containers share; empty
        where the system has none.
    """

    host: str
    machine: str
    boot: str


@functools.cache
def this() -> Machine:
    """Return this machine."""
    # The id itself is to be kept confidential (machine-id(5)).
    number = next(filter(None, map(memory.read, map(Path, _IDS))), "")
    digest = hashlib.sha256(f"jupyter-jax-trainer {number}".encode()).hexdigest()
    return Machine(os.uname().nodename, digest[:16] if number else "", memory.read(_BOOT))


def beat() -> float:
    """Return the seconds between the signs of life of a job's supervisor."""
    return timeouts.SUPERVISOR.seconds / _BEATS


def free_memory(root: Path = memory.ROOT) -> int | None:
    """Return the bytes of memory that could be used now; None where the system doesn't say."""
    found = memory.tightest(root)
    return None if found is None else found.free


def runs_elsewhere(there: Machine, lock: Path) -> bool:
    """Return whether another machine runs a job whose lock is free, as it is seen from here.

    Locks may not reach other machines, so those of another one say nothing.

    Parameters
    ----------
    there
        The machine that the job's manifest names; an older version names the host alone.
    lock
        The file that the job's supervisor touches as a sign of life.
    """
    here = this()
    if there.host != here.host:
        return True
    if there.machine and here.machine and there.machine != here.machine:
        return True
    if not there.boot or not here.boot or there.boot == here.boot:
        return False
    # The same machine after a restart, or one that is set up alike: the sign of life decides.
    try:
        return time.time() - os.stat(lock).st_mtime < timeouts.SUPERVISOR.seconds
    except OSError:
        return False
