"""XProf for profiles of jobs, where it is installed: a process for each profile that is looked at.

Whoever serves its pages hands them out under a secret, for the frame they are in has no cookies.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import secrets
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.messages import profiles as say
from jupyter_jax_trainer.profiles.profile import Profile
from jupyter_jax_trainer.profiles.xprofserver import LOGS, READY, SOCKET

_PROGRAM = "jupyter_jax_trainer.profiles.xprofserver"
_MOST = 4  # at once; the one that was opened first goes
_ORIGINS = 8  # under which pages of one profile may be seen
_LAST_WORDS = 4 << 10  # bytes of what a process that did not start has printed
# What a process needs to find its files and libraries; tokens of the server and of clouds are not
# among that.
_NEEDED = (
    "HOME",
    "LANG",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "TZ",
    "VIRTUAL_ENV",
)


def is_installed() -> bool:
    """Return whether XProf can be imported here; it may have been installed just now."""
    importlib.invalidate_caches()
    return importlib.util.find_spec("xprof") is not None


class Viewer:
    """The process that serves one profile.

    Attributes
    ----------
    secret
        What only the page has that it was opened for.
    run
        What XProf calls the profile.
    origins
        From where the page has come that opened it.
    """

    def __init__(self, run: str) -> None:
        self.secret = secrets.token_urlsafe(32)
        self.run = run
        self.origins: list[str] = []
        # Private already when it is made.
        self._folder = Path(tempfile.mkdtemp(prefix="jaxtrain-xprof-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        """Where it is asked."""
        return self._folder / SOCKET

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process is not None and self._process.poll() is None

    def add_origin(self, origin: str | None) -> None:
        """Note from where a page has come."""
        if origin and origin not in self.origins:
            self.origins = [*self.origins, origin][-_ORIGINS:]

    def start(self, traces: Mapping[int, Path]) -> None:
        """Start it, and wait until it can be asked.

        Raises
        ------
        BackendError
            It has ended, or says nothing for too long.
        """
        logs = self._folder / LOGS / "plugins" / "profile" / self.run
        logs.mkdir(parents=True)
        for rank, path in traces.items():
            (logs / f"rank-{rank}.xplane.pb").symlink_to(path)
        printed = self._folder / "printed"
        with printed.open("wb") as errors:
            self._process = process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",  # what lies in the working directory is no module of ours
                    "-m",
                    _PROGRAM,
                    str(self._folder),
                    str(timeouts.XPROF_IDLE.seconds),
                ],
                stdin=subprocess.PIPE,  # that ends with this process, however it ends
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._environment(),
                cwd=self._folder,
            )
        try:
            if not _is_ready(process):
                raise BackendError(say.XPROF_NOT_STARTED(why=_why(process, printed)))
        except BaseException:
            self.end()
            raise
        # Its end leaves no zombie, and no folder even where it was killed.
        threading.Thread(target=self._clean, name="jaxtrain xprof", daemon=True).start()

    def end(self) -> None:
        """End it; its folder goes with it."""
        if self._process is not None:
            self._process.kill()
        self._clean()

    def _clean(self) -> None:
        if self._process is not None:
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in _NEEDED or name.startswith("LC_")
        }
        own = {"TMPDIR": str(self._folder), "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
        return kept | own


def _is_ready(process: subprocess.Popen[bytes]) -> bool:
    """Wait until a process says so, or ends, or the time is over."""
    assert process.stdout is not None, "it is a pipe"
    until = time.monotonic() + timeouts.XPROF.seconds
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        said = b""
        while (left := until - time.monotonic()) > 0 and selector.select(left):
            data = os.read(process.stdout.fileno(), 1 << 10)
            said += data
            if not data or said.endswith(READY):
                return bool(data)
    return False


def _why(process: subprocess.Popen[bytes], printed: Path) -> str:
    """Return why a process has not started: its last words, or that the time is over."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeouts.GRACE.seconds)  # its output ends just before it does
    if process.returncode is None:
        seconds = timeouts.XPROF.seconds
        return say.NOT_READY(seconds=seconds, variable=timeouts.XPROF.variable)
    with printed.open("rb") as file:
        file.seek(max(0, printed.stat().st_size - _LAST_WORDS))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else say.ENDED_SILENTLY(code=process.returncode)


class Viewers:
    """The processes of a server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._viewers: dict[tuple[str, float], Viewer] = {}

    def open(self, profile: Profile, origin: str | None) -> Viewer:
        """Return what serves a profile; started unless it is running.

        Parameters
        ----------
        profile
            Of a job.
        origin
            From where the page has come that wants to see it.

        Raises
        ------
        UsageError
            XProf is not installed, or the profile is not finished.
        ResultsWithheld
            The job is not trusted.
        BackendError
            XProf does not start.
        """
        if not is_installed():
            raise UsageError(say.NO_XPROF())
        traces = profile.traces()
        key = (str(profile.directory), profile.time)
        with self._lock:
            viewer = self._viewers.get(key)
            if viewer is None or not viewer.is_alive:
                self._make_room(key)
                viewer = Viewer(f"{profile.job}-{profile.name}")
                viewer.start(traces)
                self._viewers[key] = viewer
            viewer.add_origin(origin)
            return viewer

    def _make_room(self, key: tuple[str, float]) -> None:
        gone = [one for one, viewer in self._viewers.items() if not viewer.is_alive]
        for one in {key, *gone} & self._viewers.keys():
            del self._viewers[one]
        while len(self._viewers) >= _MOST:
            self._viewers.pop(next(iter(self._viewers))).end()

    def find(self, secret: str) -> Viewer | None:
        """Return the one that has this secret, if it lives."""
        found = None
        for viewer in list(self._viewers.values()):
            if secrets.compare_digest(viewer.secret.encode(), secret.encode()):
                found = viewer
        return found if found and found.is_alive else None

    def end(self) -> None:
        """End all of them."""
        with self._lock:
            for viewer in self._viewers.values():
                viewer.end()
            self._viewers.clear()
