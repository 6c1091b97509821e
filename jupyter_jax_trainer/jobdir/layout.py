"""The job directory: its files, and who holds it (docs/reference/job-directory.md)."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

from jupyter_jax_trainer import machine
from jupyter_jax_trainer.errors import JaxTrainError, JobDirError, JobNotFound
from jupyter_jax_trainer.jobdir import endhook
from jupyter_jax_trainer.jobdir.failure import Failure
from jupyter_jax_trainer.jobdir.files import is_regular, read_json, write_json
from jupyter_jax_trainer.jobdir.formats import MANIFEST, STATE
from jupyter_jax_trainer.jobdir.locks import is_held, try_lock
from jupyter_jax_trainer.jobdir.manifest import machine_of
from jupyter_jax_trainer.jobdir.state import JobState, read
from jupyter_jax_trainer.jobdir.store import check, home, private_directory
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.messages import options
from jupyter_jax_trainer.states import ENDED, Phase, State
from jupyter_jax_trainer.worker import profiling

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.manifest import Manifest

RETURNED = "__jaxtrain_result__"  # the variable that holds the value of a function
_RANK = re.compile(r"rank-\d+")
_NEW = ".new-"
_DELETED = ".deleted-"
_FRESH = 60.0  # seconds in which a new directory may not be locked yet
_FOREIGN = 86400.0  # seconds for which one of another machine is left alone


class _Inside:
    """A path in a job's directory, built at the first access: of a thousand jobs, few need it."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    def __set_name__(self, _owner: type[JobDir], name: str) -> None:
        self._name = name

    def __get__(self, directory: JobDir, _owner: type[JobDir]) -> Path:
        path = directory.path.joinpath(*self._parts)
        vars(directory)[self._name] = path  # found first from now on
        return path


class JobDir:
    """The files of one job.

    Parameters
    ----------
    path
        The directory; it need not exist.
    """

    manifest = _Inside("manifest.json")
    cell = _Inside("cell.py")
    bundle = _Inside("bundle.pyz")
    trainjob = _Inside("trainjob.json")
    state = _Inside("state.json")
    events = _Inside("events.jsonl")
    metrics = _Inside("metrics.jsonl")
    resources = _Inside("resources.jsonl")
    displays = _Inside("displays.jsonl")
    logs = _Inside("logs")
    log_index = _Inside("logs", "index.jsonl")
    result = _Inside("result.jtz")
    checkpoints = _Inside("checkpoints")
    cancel = _Inside("cancel")
    detach = _Inside("detach")
    waiting = _Inside("waiting")
    keep = _Inside("keep")
    supervisor_log = _Inside("supervisor.log")
    trust = _Inside("trust.json")
    owner = _Inside("owner.json")
    take_over = _Inside("take-over")
    lock = _Inside("lock")
    packages = _Inside("packages.json")
    session = _Inside("session.json")
    image = _Inside("image.json")
    profiles = _Inside(profiling.FOLDER)
    reserve = _Inside(".reserve")  # space for the last state when the disk is full

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def compile_cache(self) -> Path:
        """The folder for what XLA compiles, of all jobs."""
        return self.path.parent.parent / "compile-cache"

    def log(self, source: int | str) -> Path:
        """Return the file of a rank's log, or of another container's by its name."""
        name = f"rank-{source}" if isinstance(source, int) else source
        return self.logs / f"{name}.log"

    def containers(self) -> list[str]:
        """List the containers besides the ranks' own that have a log."""
        names = (path.stem for path in self.logs.glob("*.log") if is_regular(path))
        return sorted(name for name in names if not _RANK.fullmatch(name))

    def read_manifest(self) -> Manifest:
        """Read what was asked for.

        Raises
        ------
        JobDirError
            Damaged, or of another format.
        """
        return cast("Manifest", read_json(self.manifest, MANIFEST))

    def read_state(self) -> JobState | None:
        """Read the state; None while the job is still being submitted.

        Raises
        ------
        JobDirError
            Damaged, or of another format.
        """
        if not self.state.exists():
            return None
        return read(read_json(self.state, STATE), self.state)

    def read_trainjob_uid(self) -> str | None:
        """Read the uid of the job's TrainJob; None while it is not known.

        Raises
        ------
        JobDirError
            The note is damaged.
        """
        if not self.trainjob.exists():
            return None
        return str(read_json(self.trainjob, {"uid": str})["uid"])

    @property
    def deleted(self) -> bool:
        """Whether somebody has deleted it by hand: no part of it is of use without the manifest.

        Some of it may be left, because files were written while it was being deleted.
        """
        return not self.manifest.exists()

    def is_live(self) -> bool:
        """Return whether a process runs or submits this job, by the lock that dies with it.

        A pid is unreliable: it may be a zombie's, or have been reused.
        """
        return is_held(self.lock)

    def take_lock(self) -> int | None:
        """Take the lock for this process; give the open file.

        None when another holds it, or has removed the directory meanwhile.
        """
        file = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        opened = os.fstat(file)
        with contextlib.suppress(FileNotFoundError):
            if try_lock(file) and os.path.samestat(opened, self.lock.stat()):
                return file
        os.close(file)
        return None

    def beat(self) -> None:
        """Give a sign of life, for machines that don't see the lock."""
        with contextlib.suppress(OSError):
            os.utime(self.lock)

    def remove_cut_off(self) -> bool:
        """Delete the directory if its submission was cut off; say whether it was.

        Then nothing was started, and nobody holds the lock any more.
        """
        if self.state.exists() or not self.lock.exists():
            return False
        with contextlib.suppress(JobDirError):
            if machine.runs_elsewhere(machine_of(self.read_manifest()), self.lock):
                return False
        lock = self.take_lock()
        if lock is None:
            return False
        try:
            if not self.state.exists():
                self.remove()
                return True
            return False
        finally:
            os.close(lock)

    def sweep(self) -> None:
        """Remove what an ended job needs no more: reserved space, files half written by the dead.

        Only for whoever holds the lock, when the ranks are gone.
        """
        self.reserve.unlink(missing_ok=True)
        for part in self.path.glob("*.part"):
            part.unlink(missing_ok=True)
        for folder in self.profiles.glob("*.part"):
            shutil.rmtree(folder, ignore_errors=True)

    def remove(self) -> None:
        """Delete the directory. It is renamed first, so that half a job is never seen."""
        with contextlib.suppress(FileNotFoundError):
            trash = self.path.with_name(f".{self.path.name}{_DELETED}{os.getpid()}")
            self.path.rename(trash)
            shutil.rmtree(trash, ignore_errors=True)


def jobs_directory() -> Path:
    """Return the directory of all jobs, to which only this user can have written.

    Raises
    ------
    BackendError
        Others can write to it.
    """
    return check(home() / "jobs")


def find(name: str) -> JobDir:
    """Find a job by its name.

    Raises
    ------
    JobNotFound
        With the nearest name.
    """
    directory = JobDir(jobs_directory() / name)
    if "/" in name or name.startswith(".") or not _is_directory(directory.path):
        import difflib

        near = difflib.get_close_matches(name, [d.path.name for d in list_all()], n=1)
        hint = options.DID_YOU_MEAN(name=repr(near[0])) if near else None
        raise JobNotFound(say.NO_JOB(job=name), hint)
    return directory


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _entries() -> list[os.DirEntry[str]]:
    try:
        found = os.scandir(jobs_directory())
        entries = [entry for entry in found if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return [entry for entry in entries if not entry.name.startswith(".")]


def names() -> set[str]:
    """Return the names of all jobs; much quicker than `list_all` where there are many."""
    return {entry.name for entry in _entries()}


def list_all() -> list[JobDir]:
    """List the directories of all jobs, the one changed last first."""
    found = _entries()
    found.sort(key=lambda entry: (-entry.stat().st_ctime, entry.name))
    return [JobDir(entry.path) for entry in found]


def with_uid(uid: str | None) -> JobDir | None:
    """Return the directory of a job by its uid, whatever its name is here."""
    for directory in list_all():
        with contextlib.suppress(JobDirError):
            if directory.read_manifest()["uid"] == uid:
                return directory
    return None


def create() -> tuple[JobDir, int]:
    """Make the directory of a new job, locked and not yet visible under a name.

    A submitter that dies leaves a hidden directory with a free lock; the next one removes it.

    Returns
    -------
    tuple
        The directory, and the open file that holds its lock.
    """
    root = private_directory(jobs_directory())
    _sweep(root)
    directory = JobDir(root / f"{_own_prefix()}{os.getpid()}-{time.time_ns()}")
    directory.path.mkdir(mode=0o700)
    directory.logs.mkdir(mode=0o700)
    lock = directory.take_lock()
    assert lock is not None, "nobody else knows this directory"
    return directory, lock


def publish(directory: JobDir, name: str) -> JobDir:
    """Give a new job its name, atomically, and return its directory.

    Raises
    ------
    FileExistsError
        Another job has it.
    """
    named = JobDir(jobs_directory() / name)
    try:
        directory.path.rename(named.path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise FileExistsError(name) from None
        raise
    return named


def _own_prefix() -> str:
    """Return the prefix of the names of new directories that this machine makes."""
    return f"{_NEW}{machine.this().boot[:8]}-"


def _sweep(root: Path) -> None:
    """Remove what dead submitters and interrupted deletions left behind."""
    for path in root.glob(".*"):
        own = path.name.startswith(_own_prefix())  # another machine's lock may not be seen here
        try:
            old = time.time() - path.stat().st_mtime > (_FRESH if own else _FOREIGN)
        except FileNotFoundError:
            continue
        if _DELETED in path.name or (
            path.name.startswith(_NEW) and old and not JobDir(path).is_live()
        ):
            shutil.rmtree(path, ignore_errors=True)


def end_abandoned(directory: JobDir) -> JobState | None:
    """Write the end of a job that nobody runs any more, and give the state.

    The supervisor and its keeper end each other's jobs; this is for when both are gone, after a
    restart of the machine for instance.
    """
    lock = directory.take_lock()
    if lock is None:
        return directory.read_state()
    try:
        return write_abandoned(directory, say.PROCESS_GONE())
    finally:
        os.close(lock)


def write_abandoned(directory: JobDir, reason: str) -> JobState | None:
    """Write that a job ended without its supervisor; for whoever holds the lock."""
    state = directory.read_state()
    if state is None or state["state"] in ENDED:
        return state
    hint = say.RUN_AGAIN_FROM_CHECKPOINTS()
    state["state"] = State.FAILED
    state["reason"] = reason
    state["hint"] = hint
    state["history"].append({"state": State.FAILED, "time": time.time()})
    state["failure"] = Failure(kind="supervisor", message=reason, hint=hint).to_json()
    for rank in state["ranks"]:
        if rank["exit"] is None and rank["state"] not in (Phase.FINISHED, Phase.WAITING):
            rank["state"] = Phase.STOPPED
    with contextlib.suppress(OSError, JaxTrainError):
        endhook.note(directory.path, directory.read_manifest(), State.FAILED)
    with contextlib.suppress(OSError):
        directory.sweep()
        write_json(directory.state, state, durable=True)
    return state
