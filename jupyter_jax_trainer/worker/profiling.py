"""Profiles of a rank by jax's own profiler: of a whole cell, of some steps, or of some seconds."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import timeouts
from jupyter_jax_trainer.worker.bounds import bound
from jupyter_jax_trainer.worker.channel import Channel
from jupyter_jax_trainer.worker.records import Instruction, Profiled

BYTES_VARIABLE = "JAXTRAIN_PROFILE_BYTES"
BYTES = 512 << 20  # of a profile of one rank, where nothing else is set
WHOLE = "cell"  # of --profile: the whole cell; else it is ``steps=10:15``
FOLDER = "profiles"  # of a job's directory
NAME = re.compile(r"cell|steps|[0-9]{1,6}")
STEPS = re.compile(r"steps=(\d{1,12}):(\d{1,12})")
TRACE, MEMORY = "trace.xplane.pb", "memory.pb.gz"
FILES = (MEMORY, TRACE)  # the first is kept where not both have room
_SPARE = 64 << 20  # bytes that are left to others on a disk


class Carrier(Protocol):
    """Brings profiles to where the job's directory is."""

    def carry(self, folder: Path, taken: Profiled) -> None:
        """Bring away the files of a profile, and say so."""

    def close(self) -> None:
        """Wait until all are away."""


class Profiler:
    """Takes profiles of this process, one at a time.

    Parameters
    ----------
    channel
        Hears of each profile that was taken, or why it was not.
    home
        The folder of the profiles of the job; None where they don't stay on this machine.
    carrier
        Brings them away from here, where they don't stay.
    """

    def __init__(self, channel: Channel, home: Path | None, carrier: Carrier | None = None) -> None:
        self._channel = channel
        self._home = home
        self._carrier = carrier
        self._rank = int(os.environ.get("JAX_PROCESS_ID") or 0)
        self._lock = threading.Lock()
        self._name: str | None = None  # of the profile that is being taken
        self._folder = Path()
        self._began = 0.0
        self._timer = threading.Timer(0.0, self._finish)
        self._steps: tuple[int, int] | None = None
        self._asked: set[str] = set()
        self._pid = os.getpid()

    # -- when ----------------------------------------------------------------------------------

    def begin(self, asked: str | None, home: Path | None = None) -> None:
        """Take the profile that a cell is to have, from its start or from a step on.

        Parameters
        ----------
        asked
            What ``--profile`` says; None for no profile.
        home
            The folder of the profiles of this cell, if it is one of a session.
        """
        self._home = home or self._home
        self._steps = None
        if asked is None:
            return
        if found := STEPS.fullmatch(asked):
            self._steps = int(found[1]), int(found[2])
        if self._steps is None or self._steps[0] == 0:
            self._start(WHOLE if self._steps is None else "steps", timeouts.PROFILE.seconds)

    def on_report(self, step: int, _total: int | None, _values: object) -> None:
        """Start before the first of the steps, and stop after the last: this one was just done."""
        if self._steps is None or os.getpid() != self._pid:
            return
        first, end = self._steps
        if step + 1 >= end:
            self._steps = None
            self._finish("steps")
        elif step + 1 >= first and self._name is None:
            self._start("steps", timeouts.PROFILE.seconds)

    def ask(self, told: Instruction) -> None:
        """Take a profile of some seconds, from now on; this does not wait for it."""
        name, seconds = told["name"], min(told["seconds"], timeouts.PROFILE.seconds)
        if name in self._asked:  # the line to those who ask was cut meanwhile
            return
        self._asked.add(name)
        # A session's cell may be told to be profiled before it has begun here.
        home = Path(told["home"]) if "home" in told else None
        start = partial(self._start, name, seconds, home)
        threading.Thread(target=start, name="jaxtrain-profile", daemon=True).start()

    def end(self) -> None:
        """End what is being taken, with the cell; whoever ends this process waits for that."""
        self._steps = None
        if os.getpid() == self._pid:
            with self._lock:  # it may be starting
                name = self._name
            if name is not None:
                self._finish(name)
            self._asked.clear()
        if self._carrier is not None:
            self._carrier.close()

    # -- how -----------------------------------------------------------------------------------

    def _start(self, name: str, seconds: float, home: Path | None = None) -> None:
        """Start a profile of so many seconds; one that can't be taken is no error of the cell's."""
        home = home or self._home
        with self._lock:
            folder = None
            try:
                if self._name is not None:
                    raise RuntimeError(say.PROFILE_RUNS(name=self._name))
                folder = _make_folder(home, self._rank)
                _start_trace(folder)
            except Exception as error:  # of jax, or of a full disk
                if folder is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                self._tell(name, 0.0, {}, {}, _words(error))
                return
            self._folder, self._began = folder, time.monotonic()
            self._name = name
            self._timer = threading.Timer(seconds, self._finish, [name])
            self._timer.daemon = True
            self._timer.start()

    def _finish(self, name: str) -> None:
        """Stop a profile, unless that has been done, and bring away what is kept of it."""
        with self._lock:
            if self._name != name:
                return
            seconds, folder = time.monotonic() - self._began, self._folder
            self._timer.cancel()
            problem = None
            kept: dict[str, int] = {}
            left_out: dict[str, int] = {}
            try:
                _stop_trace(folder)
                kept, left_out = _keep(folder, bound(os.environ, BYTES_VARIABLE, BYTES))
                if self._carrier is None:
                    self._put_in_place(folder, name)
            except Exception as error:
                problem, kept = _words(error), {}
            self._name = None
            self._tell(name, seconds, kept, left_out, problem, folder)
            shutil.rmtree(folder, ignore_errors=True)

    def _put_in_place(self, folder: Path, name: str) -> None:
        place = folder.parent / name / f"rank-{self._rank}"  # without a home it is delivered
        place.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.rmtree(place, ignore_errors=True)  # of an attempt before this one
        folder.rename(place)

    def _tell(
        self,
        name: str,
        seconds: float,
        kept: dict[str, int],
        left_out: dict[str, int],
        problem: str | None,
        folder: Path | None = None,
    ) -> None:
        """Say what there is of a profile."""
        record: Profiled = {
            "name": name,
            "seconds": round(seconds, 3),
            "files": kept,
            "left_out": left_out,
            "problem": problem,
        }
        if self._carrier is not None and kept and folder is not None:
            self._carrier.carry(folder, record)
        else:
            self._channel.send("profiled", **record)


def _make_folder(home: Path | None, rank: int) -> Path:
    """Make a folder for what jax writes, on a disk that has room for it."""
    if home is not None:
        home.mkdir(mode=0o700, exist_ok=True)
    place = home or Path(tempfile.gettempdir())
    most = bound(os.environ, BYTES_VARIABLE, BYTES)
    free = shutil.disk_usage(place).free
    needed = most + _SPARE
    if free < needed:
        raise OSError(
            say.NO_ROOM_FOR_PROFILE(needed=needed >> 20, free=free >> 20, variable=BYTES_VARIABLE)
        )
    return Path(tempfile.mkdtemp(prefix=f"rank-{rank}.", suffix=".part", dir=place))


def _start_trace(folder: Path) -> None:
    import jax

    options = getattr(jax.profiler, "ProfileOptions", None)  # since jax 0.7
    given: dict[str, Any] = {}
    if options is not None:
        given["profiler_options"] = options()
        # Each Python call would be an event: the profile would be ten times larger, and show a
        # program that Python holds up more than it does otherwise.
        given["profiler_options"].python_tracer_level = 0
    jax.profiler.start_trace(str(folder), **given)


class _Recorded:
    """A session of XLA's profiler of which nothing is exported.

    jax would write JSON of what it records, too. That takes longer than all the rest, while the
    cell trains on; who wants it makes it of the trace.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self.trace = b""

    def stop(self) -> bytes:
        """Stop, and keep what was recorded."""
        self.trace = self._session.stop()
        return self.trace

    def export(self, _trace: bytes, _folder: str) -> None:
        """Leave it to those who asked to write it."""

    def stop_and_export(self, _folder: str) -> None:
        """Stop, and keep what was recorded."""
        self.stop()

    def stop_and_get_profile_data(self) -> None:
        """Stop, and keep what was recorded; nobody here looks at it."""
        self.stop()


def _hold_back() -> _Recorded | None:
    """Keep jax from exporting what it records; None where its session is in no place known here."""
    from jax._src import profiler

    state: Any = getattr(profiler, "_profile_state", None)
    since_0_12: Any = getattr(state, "session", None)
    if getattr(state, "profile_session", None) is not None:
        recorded = state.profile_session = _Recorded(state.profile_session)
    elif getattr(since_0_12, "_raw_session", None) is not None:
        recorded = since_0_12._raw_session = _Recorded(since_0_12._raw_session)
        since_0_12.log_dir = None  # else it exports what it gets
    else:
        return None
    return recorded


def _stop_trace(folder: Path) -> None:
    """Stop, and leave what was recorded in files of ours."""
    import jax

    recorded = _hold_back()
    jax.profiler.stop_trace()
    if recorded is not None and recorded.trace:
        (folder / TRACE).write_bytes(recorded.trace)
    else:
        for path in folder.glob("plugins/profile/*/*.xplane.pb"):
            path.rename(folder / TRACE)
        shutil.rmtree(folder / "plugins", ignore_errors=True)
    with contextlib.suppress(Exception):  # a device that has no such statistics
        (folder / MEMORY).write_bytes(jax.profiler.device_memory_profile())


def _keep(folder: Path, most: int) -> tuple[dict[str, int], dict[str, int]]:
    """Delete what has no room; give the sizes of what is kept, and of what is not."""
    kept: dict[str, int] = {}
    left_out: dict[str, int] = {}
    for name in FILES:
        path = folder / name
        if not path.exists():
            continue
        size = path.stat().st_size
        if sum(kept.values()) + size <= most:
            kept[name] = size
        else:
            left_out[name] = size
            path.unlink()
    if not kept and not left_out:
        raise OSError(say.NO_PROFILE_WRITTEN())
    return kept, left_out


def _words(error: Exception) -> str:
    """Return an error in a line."""
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:300]
