"""The keeper: the parent of a job's supervisor, which does nothing but wait.

Neither of the two can be killed without the other cleaning up: if the supervisor is killed, the
keeper ends what is left of the job and writes that; if the keeper is killed, the supervisor does.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import NoReturn

from jupyter_jax_trainer.backends.local import processes, workers
from jupyter_jax_trainer.backends.local.supervisor import Supervisor
from jupyter_jax_trainer.jobdir import layout
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.log import log_exception
from jupyter_jax_trainer.messages import local as say
from jupyter_jax_trainer.worker.processes import end_descendants


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
            Supervisor(directory, start_rank, keeper).run()
            code = 0
        except BaseException:
            log_exception()
            with contextlib.suppress(BaseException):
                end_descendants()
        finally:
            os._exit(code)
    _keep(directory, pid)
    os._exit(0)


def _keep(directory: JobDir, supervisor: int) -> None:
    """Wait for the supervisor; end and record the job if it left it unfinished."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN)
    processes.adopt_orphans()
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == supervisor:
            break
    end_descendants()
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        why = say.SUPERVISOR_KILLED(number=-code) if code < 0 else say.SUPERVISOR_CRASHED()
        with contextlib.suppress(OSError):
            layout.write_abandoned(directory, why)


def main(path: str, lock: int) -> NoReturn:
    """Supervise a job whose ranks are fresh processes."""
    supervise(path, workers.start_cold, lock)
