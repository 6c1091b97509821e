"""What is different for a worker in a pod.

Its root may be read-only, its container may be started again in place, and what it says goes into
its log.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import exceptions, timeouts
from jupyter_jax_trainer.worker.compilecache import bound
from jupyter_jax_trainer.worker.pod import compilestore, frames, secretvars, sources
from jupyter_jax_trainer.worker.pod.compilestore import CompileStore
from jupyter_jax_trainer.worker.pod.drain import wait_for_reader
from jupyter_jax_trainer.worker.pod.parcel import Parcel, TransferError
from jupyter_jax_trainer.worker.pod.parent import Parent
from jupyter_jax_trainer.worker.pod.podchannel import PodChannel
from jupyter_jax_trainer.worker.pod.termination import Termination

SCRATCH_VARIABLE = "JAXTRAIN_SCRATCH"
UID_VARIABLE = "JAXTRAIN_JOB_UID"
RESTARTS_VARIABLE = "JAXTRAIN_MAX_RESTARTS"
_SHARED_MEMORY = "/dev/shm"  # of all containers of the pod, and of all attempts


class Pod:
    """The surroundings of a worker in a pod, prepared before anything looks at them.

    Made by process 1, which goes on as the rank's parent; this is the rank from then on.

    Parameters
    ----------
    rank
        This rank.

    Attributes
    ----------
    channel
        What it says, it says there.
    scratch
        A directory that can be written; None where there is none.
    bundle
        The bundle, where that came through the channel.
    finished
        The rank's work is done: what comes now can't fail it.
    before_end
        What is done first where the pod is told to terminate.
    started_anew
        The pod has had another rank before this one.
    """

    finished = False
    before_end: Callable[[], None] | None = None

    def __init__(self, rank: int) -> None:
        os.dup2(1, 2)  # one stream, so that the order is exact
        self._marker = _Marker.from_environment(rank)
        self.scratch = make_room()
        key = frames.key_from(secretvars.take(frames.KEY_VARIABLE))
        named = compilestore.KEY_VARIABLE in os.environ
        self._compile_key = secretvars.take(compilestore.KEY_VARIABLE) if named else ""
        for name in list(os.environ):
            chunk = name.removeprefix("JAXTRAIN_BUNDLE_")
            if chunk.isdigit() or name == "JAXTRAIN_BOOT":
                secretvars.take(name)  # a megabyte that the cell's own processes would carry
        parent = Parent(key, rank)
        self._port = parent.port
        self.bundle = self._receive(parent, key, rank)
        self.channel = PodChannel(key, rank, parent.start())
        self.started_anew = parent.attempt > 1
        self._termination: Termination | None = None

    def _receive(self, parent: Parent, key: bytes, rank: int) -> str | None:
        """Wait for the bundle where it does not come with the pod."""
        if self._marker.status() is not None:
            return None  # the cell has run
        try:
            parcel = Parcel.from_environment(os.environ, self.scratch)
            if parcel is None:
                return None
            parent.receive(parcel, sources.find(os.environ, Path(sys.path[0])))
        except (TransferError, UsageError) as error:
            said = exceptions.describe(error, "", {}, [])
            print(f"{said['type']}: {error}")
            PodChannel(key, rank, None).send("error", time=time.time(), **said)
            wait_for_reader(1, timeouts.PIPE.seconds)
            os._exit(1)
        return parcel.path

    def compile_store(self) -> CompileStore | None:
        """Open the object store for what XLA compiles; None where the job has none.

        Raises
        ------
        UsageError
            Its bound is no number of bytes.
        """
        url, most = os.environ.get(compilestore.URL_VARIABLE), bound(os.environ)
        if not (url and most and self._compile_key):
            return None
        return CompileStore(url, bytes.fromhex(self._compile_key), most)

    def begin(self, leave: Callable[[int], object]) -> None:
        """Say hello; leave if the cell has run in this pod before.

        Parameters
        ----------
        leave
            Ends the process with a status.
        """
        status = None if self.started_anew else self._marker.status()
        self.channel.send(
            "hello",
            python=sys.version.split()[0],
            host=socket.gethostname(),
            time=time.time(),
            again=status is not None,
            channel=self._port,
        )
        if status is not None:
            print(say.ALREADY_RUN())
            leave(status)

    def begin_cell(self) -> None:
        """Note that the cell runs, so that it won't in a container that is started again."""
        self._marker.write("")

    @staticmethod
    def drain() -> None:
        """Wait until the node has taken what was printed: process 1 may find the pipe empty."""
        wait_for_reader(1, timeouts.PIPE.seconds)

    def end(self, status: int) -> None:
        """Say the last that is to be said, and note the status for a container started again."""
        self.channel.send_count()
        self.note_end(status)

    def note_end(self, status: int) -> None:
        """Note how it ended, for a container that is started again."""
        self._marker.write(str(status))

    def watch_termination(self, tell: Callable[[], None], ending: threading.Lock) -> None:
        """End on SIGTERM, whatever the main thread does.

        Parameters
        ----------
        tell
            Says where this rank is.
        ending
            Held by whoever ends this process.
        """
        self._termination = Termination(self, tell, ending)

    def wait_for_cause(self) -> None:
        """Wait, so that the end of the lost rank is known before that of this one, which lost it.

        The first end that the cluster sees decides whether all ranks start again.
        """
        if self.may_run_again():
            time.sleep(timeouts.CAUSE.seconds)

    @staticmethod
    def may_run_again() -> bool:
        """Return whether the job may be started again as a whole (``--max-restarts``)."""
        restarts = os.environ.get(RESTARTS_VARIABLE, "")
        return restarts.isdigit() and int(restarts) > 0

    def after_join(self, uses_preemption: Callable[[], bool]) -> None:
        """Take SIGTERM back from jax, which takes it for itself when it joins the others."""
        if self._termination is not None:
            self._termination.take_back(uses_preemption)


# ---- the cell runs once


class _Marker:
    """A file that says that the cell has run in this pod, and with which status it ended.

    Parameters
    ----------
    paths
        Where it may be, the best place first.
    """

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths

    @classmethod
    def from_environment(cls, rank: int) -> _Marker:
        """Find the places; there are none for a job that may be started again."""
        uid = os.environ.get(UID_VARIABLE, "")
        if not uid.isalnum() or Pod.may_run_again():
            return cls([])
        folders = [os.environ.get(SCRATCH_VARIABLE), _SHARED_MEMORY]
        return cls([Path(folder, f".jaxtrain-{uid}-{rank}") for folder in folders if folder])

    def status(self) -> int | None:
        """Return the status of the attempt that ran the cell; None when none has."""
        for path in self._paths:
            try:
                text = path.read_text()
            except OSError:
                continue
            return int(text) if text.isdigit() else 1  # without one it was killed
        return None

    def write(self, text: str) -> None:
        """Write the marker, where that is possible."""
        for path in self._paths:
            with contextlib.suppress(OSError):
                path.write_text(text)
                return


# ---- directories


def make_room() -> Path | None:
    """See to a temporary and a home directory that can be written, where the root is read-only.

    Returns
    -------
    Path or None
        A directory that can be written. The cell's own processes find it in ``JAXTRAIN_SCRATCH``.
    """
    places = [os.environ.get(name) for name in (SCRATCH_VARIABLE, "TMPDIR")]
    scratch = next(
        (
            place
            for place in (*places, "/tmp", "/var/tmp", _SHARED_MEMORY)
            if place and _is_writable(place)
        ),
        None,
    )
    tempfile.tempdir = None  # what the bootstrap found
    if scratch is None:
        return None
    os.environ[SCRATCH_VARIABLE] = scratch
    if not _is_writable(os.environ.get("TMPDIR") or "/tmp"):
        os.environ["TMPDIR"] = scratch
    if not _is_writable(os.path.expanduser("~")):
        home = Path(scratch, "home")
        home.mkdir(exist_ok=True)
        os.environ["HOME"] = str(home)
        os.environ["XDG_CACHE_HOME"] = str(home / ".cache")
        os.environ["MPLCONFIGDIR"] = str(home / ".config" / "matplotlib")
    return Path(scratch)


def _is_writable(folder: str) -> bool:
    """Return whether a file can be made: on a read-only root, permissions say nothing."""
    try:
        handle, name = tempfile.mkstemp(prefix=".jaxtrain-", dir=folder)
    except OSError:
        return False
    os.close(handle)
    os.unlink(name)
    return True
