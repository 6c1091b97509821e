"""Notifies the user's command or webhook of ended jobs, in a process of its own.

The writer of a job's end first leaves a note (`endhook`), and then starts this process. It locks
and renames the note, so that only one of several processes notifies. If it is killed after that, it
may or may not have notified; so the next one records the interruption, and does not retry. Only the
standard library is used, as those that start this process have no more.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, TypedDict

from jupyter_jax_trainer import masking, timeouts
from jupyter_jax_trainer.errors import BackendError, JaxTrainError, JobDirError
from jupyter_jax_trainer.jobdir import endhook, store
from jupyter_jax_trainer.jobdir.describe import elapsed
from jupyter_jax_trainer.jobdir.endhook import Hook
from jupyter_jax_trainer.jobdir.files import LineWriter
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.locks import try_lock
from jupyter_jax_trainer.jobdir.records import Event
from jupyter_jax_trainer.jobdir.state import JobState
from jupyter_jax_trainer.log import log_exception
from jupyter_jax_trainer.messages import Text
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.text import duration, one_line, shorten

_ROOT = str(Path(__file__).parents[2])
_BEGUN = ".begun"  # ends the name of a note that was taken
_OUTPUT = "output"  # what the last command has printed, for the user alone
_SENTENCE = 1000  # characters of a reason
_PROGRAM = (
    "import os, sys; pid = os.fork(); pid and (os.write(1, b'%d' % pid), os._exit(0)); "
    "os.setsid(); null = os.open(os.devnull, os.O_RDWR); [os.dup2(null, n) for n in (0, 1)]; "
    "sys.path.insert(0, sys.argv[1]); "
    "from jupyter_jax_trainer.jobdir.endrunner import main; main(sys.argv[2])"
)


class Told(TypedDict):
    """What is told, as JSON (docs/reference/settings.md)."""

    name: str
    state: State
    reason: str | None
    duration: float
    link: str | None
    text: str


def start(home: Path) -> int | None:
    """Start a process that tells of jobs which have ended; give its id, or None if there are none.

    Parameters
    ----------
    home
        The job store.
    """
    if next(_ready(home), None) is None:
        return None
    with contextlib.suppress(OSError, ValueError):
        # Isolated and without site-packages: it needs the standard library alone, and starts fast.
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, _ROOT, str(home)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        return int(done.stdout)
    return None


def main(home: str) -> NoReturn:
    """Tell all that is to be told, and leave."""
    store.settle(Path(home))
    try:
        tell_all(Path(home))
    except BaseException:
        log_exception()
    os._exit(0)


def tell_all(home: Path) -> None:
    """Tell of each job that has ended and has a note, unless another process does so."""
    for path, name in list(_ready(home)):
        with _taken(path) as taken:
            if taken is not None:
                _tell(home, JobDir(home / "jobs" / name), path.name)
                taken.unlink(missing_ok=True)
    for path in _notes(home, begun=True):
        with _taken(path) as taken:  # free: the process that took it is gone
            if taken is not None:
                with contextlib.suppress(OSError):
                    job = JobDir(home / "jobs" / taken.read_text())
                    _add_event(job, path.name.removesuffix(_BEGUN), say.ON_END_CUT_OFF())
                taken.unlink(missing_ok=True)


def _notes(home: Path, *, begun: bool) -> list[Path]:
    try:
        names = sorted(os.listdir(home / endhook.NOTES))
    except OSError:
        return []
    return [
        home / endhook.NOTES / name
        for name in names
        if name != _OUTPUT and name.endswith(_BEGUN) == begun
    ]


def _ready(home: Path) -> Iterator[tuple[Path, str]]:
    """Yield the notes of jobs that have ended, or are gone, with the names of the jobs."""
    for path in _notes(home, begun=False):
        with contextlib.suppress(OSError, JobDirError):
            name = path.read_text()
            job = JobDir(home / "jobs" / name)
            state = _state(job, path.name)
            if state is None or state["state"].ended:
                yield path, name


def _state(job: JobDir, uid: str) -> JobState | None:
    """Return the state of a job; None where it is gone: another one may have its name."""
    if not job.manifest.exists() or job.read_manifest()["uid"] != uid:
        return None
    return job.read_state()


@contextlib.contextmanager
def _taken(path: Path) -> Iterator[Path | None]:
    """Take a note for this process; None where another one has it."""
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield _rename(path, file)
    finally:
        os.close(file)


def _rename(path: Path, file: int) -> Path | None:
    """Rename a note that is free, and is still there; its lock stays with it."""
    begun = path if path.name.endswith(_BEGUN) else path.with_name(path.name + _BEGUN)
    with contextlib.suppress(OSError):
        if try_lock(file) and os.path.samestat(os.fstat(file), path.stat()):
            return path.rename(begun)
    return None


def _tell(home: Path, job: JobDir, uid: str) -> None:
    """Tell of one job, and note in its events how that went."""
    state = _state(job, uid)
    try:
        hook = endhook.read(home) if endhook.allowed() else None
        if state is None or hook is None:
            return
        began = time.monotonic()
        told = _told(job, state, hook)
        with _bounded():
            if hook.kind == "command":
                _run(hook.target, told, home / endhook.NOTES / _OUTPUT)
            else:
                # Here, for those that start this process have to start fast themselves.
                from jupyter_jax_trainer.jobdir.webhook import post

                post(hook.target, json.dumps(told).encode(), timeouts.ON_END.seconds)
        took = f"{time.monotonic() - began:.1f} s"
        done = say.ON_END_COMMAND if hook.kind == "command" else say.ON_END_URL
        _add_event(job, uid, done(took=took), "on-end")
    except JaxTrainError as error:
        _add_event(job, uid, say.ON_END_FAILED(error=error))
    except Exception as error:
        # Words of an unforeseen error may hold the target.
        _add_event(job, uid, say.ON_END_FAILED(error=type(error).__name__))


def _told(job: JobDir, state: JobState, hook: Hook) -> Told:
    name, reason = job.path.name, state["reason"]
    seconds = elapsed(job.read_manifest()["created"], state)
    if reason is not None:
        reason = shorten(masking.text(one_line(reason)), _SENTENCE)
    sentence = say.ON_END_TEXT(job=name, state=state["state"].lower(), time=duration(seconds))
    return {
        "name": name,
        "state": state["state"],
        "reason": reason,
        "duration": round(seconds, 1),
        "link": hook.link and hook.link.replace("{name}", name),
        "text": f"{sentence}: {reason}" if reason else sentence,
    }


def _add_event(job: JobDir, uid: str, message: str, kind: str = "warning") -> None:
    line: Event = {"time": time.time(), "kind": kind, "rank": None, "message": message}
    with contextlib.suppress(OSError, JaxTrainError):
        if _state(job, uid) is not None:
            LineWriter(job.events).write(line)


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """Give up after a time, whatever is being waited for."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, timeouts.ON_END.seconds)
    try:
        yield
    except TimeoutError:
        raise BackendError(_too_late()) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _too_late() -> Text:
    limit = f"{timeouts.ON_END.seconds:g} s"
    return say.ON_END_LATE(limit=limit, variable=timeouts.ON_END.variable)


def _run(command: str, told: Told, output: Path) -> None:
    """Run a shell command with what is told on its standard input."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(output, flags, 0o600), "wb") as file:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            cwd=Path.home(),
            start_new_session=True,
        )
        try:
            process.communicate(json.dumps(told).encode() + b"\n")
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    if process.returncode != 0:
        raise BackendError(say.ON_END_EXIT(code=process.returncode, output=output))
