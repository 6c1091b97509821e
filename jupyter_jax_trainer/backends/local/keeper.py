"""The keeper: the parent of a job's supervisor, which waits, and starts the end notifier.

Neither of the two can be killed without the other cleaning up: if the supervisor is killed, the
keeper ends what is left of the job and writes that; if the keeper is killed, the supervisor does.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import NoReturn

from jupyter_jax_trainer.backends.local import processes, workers
from jupyter_jax_trainer.backends.local.supervisor import Supervisor
from jupyter_jax_trainer.errors import JobDirError
from jupyter_jax_trainer.jobdir import layout, store
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.log import log_exception
from jupyter_jax_trainer.messages import local as say
from jupyter_jax_trainer.worker.processes import end_descendants

_LOOK = 1.0  # seconds between looks for cells of a session that have ended


def supervise(path: str, start_rank: workers.Starter, lock: int) -> NoReturn:
    """Become the keeper of a job, with the supervisor as a child, and leave with it.

    Parameters
    ----------
    path
        The job's directory.
    start_rank
        How ranks are started.
    lock
        The open, locked file of the job; it stays open in both processes.
    """
    directory = JobDir(path)
    with contextlib.suppress(OSError):
        os.setsid()
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _supervisor_of(directory, start_rank, keeper).run()
            code = 0
            if os.getppid() != keeper:
                _start_end_notifier(directory.path.parent.parent)
        except BaseException:
            log_exception()
            with contextlib.suppress(BaseException):
                end_descendants()
        finally:
            os._exit(code)
    _keep(directory, pid)
    os._exit(0)


def _supervisor_of(directory: JobDir, start_rank: workers.Starter, keeper: int) -> Supervisor:
    """Return what runs a job, or a session."""
    if not directory.read_manifest()["spec"].get("session"):
        return Supervisor(directory, start_rank, keeper)
    # Imported for sessions only, so that jobs start faster.
    from jupyter_jax_trainer.backends.local.session import SessionSupervisor

    return SessionSupervisor(directory, start_rank, keeper)


def _keep(directory: JobDir, supervisor: int) -> None:
    """Wait for the supervisor; end and record the job if it left it unfinished.

    The end notifier starts here: the supervisor's own descendants are killed along with it.
    """
    home, telling = directory.path.parent.parent, set[int]()

    def tell(*_: object) -> None:
        if (pid := _start_end_notifier(home)) is not None:
            telling.add(pid)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN)
    processes.adopt_orphans()
    if _is_session(directory):
        signal.signal(signal.SIGALRM, tell)
        signal.setitimer(signal.ITIMER_REAL, _LOOK, _LOOK)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == supervisor:
            break
        telling.discard(pid)
    signal.setitimer(signal.ITIMER_REAL, 0)
    end_descendants(*telling)
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        why = (
            say.SUPERVISOR_KILLED(number=-code)
            if code < 0
            else say.SUPERVISOR_CRASHED(log=directory.supervisor_log)
        )
        with contextlib.suppress(OSError):
            layout.write_abandoned(directory, why)
    tell()


def _start_end_notifier(home: Path) -> int | None:
    from jupyter_jax_trainer.jobdir import endrunner  # ranks start sooner without it

    return endrunner.start(home)


def _is_session(directory: JobDir) -> bool:
    try:
        return bool(directory.read_manifest()["spec"].get("session"))
    except JobDirError:
        return False


def main(path: str, lock: int) -> NoReturn:
    """Supervise a job whose ranks are fresh processes."""
    store.settle(JobDir(path).path.parents[1])
    supervise(path, workers.start_cold, lock)
