"""Where a rank is, also while its main thread is blocked in a collective."""

from __future__ import annotations

import os
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

from jupyter_jax_trainer.worker import timeouts
from jupyter_jax_trainer.worker.records import Position
from jupyter_jax_trainer.worker.stacks import frame_of
from jupyter_jax_trainer.worker.standstill import Effort, others_sleep, waits_for_others

_INTERVAL = 1.0  # seconds between looks at the main thread
_PATHS = sysconfig.get_paths()
_LIBRARIES = (
    *{os.path.realpath(_PATHS[name]) for name in ("stdlib", "purelib", "platlib")},
    str(Path(__file__).parents[1]),
    "jupyter_jax_trainer/",  # byte code in the bundle names its files from the bundle's root
    "<",  # frozen modules, and what libraries generate: a dataclass's methods, a named tuple's
)


class Lookout:
    """Looks once a second where the main thread is, so that it can be said for how long.

    Parameters
    ----------
    compiles
        Gives the name of the function that the main thread compiles.

    Attributes
    ----------
    meets
        The main thread meets the other ranks, with nothing else to do for this process.
    """

    def __init__(self, compiles: Callable[[], str | None] = lambda: None) -> None:
        self.meets = False
        self._compiles = compiles
        self._cell_file = ""
        self._labels: Mapping[str, str] = {}
        self._on_stuck: Callable[[], None] | None = None
        self._main = threading.main_thread().ident or 0
        self._lock = threading.Lock()
        self._place: list[tuple[str, int]] = []
        self._since = time.monotonic()
        self._effort = Effort()

    def start(
        self,
        cell_file: str,
        labels: Mapping[str, str],
        on_stuck: Callable[[], None] | None = None,
    ) -> None:
        """Look from now on, in a thread.

        Parameters
        ----------
        cell_file
            The file name under which the cell was compiled.
        labels
            Names to show in place of file names.
        on_stuck
            Called when the main thread has been in one place for a while, and again after each
            such while that it stays there. For a rank that can't be asked.
        """
        self.look_for(cell_file, labels)
        self._on_stuck = on_stuck
        threading.Thread(target=self._run, name="jaxtrain-lookout", daemon=True).start()

    def look_for(self, cell_file: str, labels: Mapping[str, str]) -> None:
        """Take another cell for the one that runs."""
        self._cell_file, self._labels = cell_file, labels

    def moved(self, *_report: object) -> None:
        """Take note that the main thread gets on, though it comes back to the same line."""
        self._since = time.monotonic()

    def tell(self) -> Position:
        """Say where the main thread is."""
        frames = self._look()
        doing, line = None, None
        for number, frame in enumerate(frames):
            if frame.f_code.co_filename == self._cell_file:
                line = frame.f_lineno
                doing = frames[number - 1].f_code.co_name if number else None
                break
        own = next((one for one in frames if self._is_own(one.f_code.co_filename)), None)
        outside = own is not None and own.f_code.co_filename != self._cell_file
        return {
            "cell": self._labels.get(self._cell_file, "Cell"),
            "cell_line": line,
            "doing": doing,
            "frame": self._describe(own) if own is not None and outside else None,
            "seconds": time.monotonic() - self._since,
            "waits": waits_for_others(frames[0] if frames else None, self._effort.is_idle()),
            "meets": self.meets and others_sleep(),
            "compiles": self._compiles(),
        }

    def place(self) -> tuple[str, int | None]:
        """Return the label of the cell, and the line that the main thread is at."""
        frames = _outwards(frame_of(self._main))
        lines = (one.f_lineno for one in frames if one.f_code.co_filename == self._cell_file)
        return self._labels.get(self._cell_file, "Cell"), next(lines, None)

    def _run(self) -> None:
        told = time.monotonic()
        while True:
            self._look()
            now = time.monotonic()
            if self._on_stuck and now - max(told, self._since) >= timeouts.WHERE.seconds:
                told = now
                self._on_stuck()
            time.sleep(_INTERVAL)

    def _look(self) -> list[FrameType]:
        """Return the frames of the main thread, the innermost first."""
        frames = list(_outwards(frame_of(self._main)))
        place = [
            (frame.f_code.co_filename, frame.f_lineno)
            for frame in frames
            if self._is_own(frame.f_code.co_filename)
        ]
        with self._lock:
            if place != self._place:
                self._place, self._since = place, time.monotonic()
        return frames

    def _is_own(self, file: str) -> bool:
        """Return whether code is the user's: no library's, and not the worker's."""
        if file == self._cell_file or file in self._labels:
            return True
        return not file.startswith(_LIBRARIES)

    def _describe(self, frame: FrameType) -> str:
        code = frame.f_code
        name = self._labels.get(code.co_filename) or os.path.basename(code.co_filename)
        where = name if frame.f_lineno is None else f"{name}:{frame.f_lineno}"
        return where if code.co_name == "<module>" else f"{where} in {code.co_name}"


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for I/O",
    "T": "stopped",
    "t": "stopped",
}


def look_at(pid: int) -> tuple[str | None, int | None]:
    """Return what a process is doing, and how many bytes of memory it uses, where that is known."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return None, None
    fields = dict(line.partition(":")[::2] for line in text.splitlines())
    state, memory = fields.get("State", "").split(), fields.get("VmRSS", "").split()
    return _STATES.get(state[0]) if state else None, int(memory[0]) << 10 if memory else None
