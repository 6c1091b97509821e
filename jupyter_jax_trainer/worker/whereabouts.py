"""Where a rank is, also while its main thread is blocked in a collective."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import TypedDict

_MAX = 200  # characters of a name
_INTERVAL = 1.0  # seconds between looks at the main thread
_PATHS = sysconfig.get_paths()
_LIBRARIES = (
    *{os.path.realpath(_PATHS[name]) for name in ("stdlib", "purelib", "platlib")},
    str(Path(__file__).parent),
    "jupyter_jax_trainer/",  # byte code in the bundle names its files from the bundle's root
    "<frozen",
)


class Whereabouts(TypedDict):
    """Where the main thread of a rank is.

    Attributes
    ----------
    cell, cell_line
        The label of the cell, and its line; the line is None outside of the cell.
    doing
        The function that this line is in; None where it is outside of the cell.
    frame
        The innermost frame of the user's own code, where that is not in the cell.
    seconds
        For how long it has been there, as looks once a second have it.
    """

    cell: str
    cell_line: int | None
    doing: str | None
    frame: str | None
    seconds: float


def read(message: Mapping[str, object]) -> Whereabouts:
    """Read what a rank has said; the cell may have written it.

    Raises
    ------
    ValueError
        It is not in this form.
    """
    cell, line, doing = message.get("cell"), message.get("cell_line"), message.get("doing")
    frame, seconds = message.get("frame"), message.get("seconds")
    if (
        not isinstance(cell, str)
        or not (line is None or type(line) is int)
        or not (doing is None or isinstance(doing, str))
        or not (frame is None or isinstance(frame, str))
        or not isinstance(seconds, (int, float))
    ):
        raise ValueError("not where a rank is")
    return {
        "cell": cell[:_MAX],
        "cell_line": line,
        "doing": doing and doing[:_MAX],
        "frame": frame and frame[:_MAX],
        "seconds": float(seconds),
    }


class Lookout:
    """Looks once a second where the main thread is, so that it can be said for how long."""

    def __init__(self) -> None:
        self._cell_file = ""
        self._labels: Mapping[str, str] = {}
        self._main = threading.main_thread().ident or 0
        self._lock = threading.Lock()
        self._place: list[tuple[str, int]] = []
        self._since = time.monotonic()

    def start(self, cell_file: str, labels: Mapping[str, str]) -> None:
        """Look from now on, in a thread.

        Parameters
        ----------
        cell_file
            The file name under which the cell was compiled.
        labels
            Names to show in place of file names.
        """
        self._cell_file, self._labels = cell_file, labels
        threading.Thread(target=self._run, name="jaxtrain-lookout", daemon=True).start()

    def moved(self) -> None:
        """Take note that the main thread gets on, though it comes back to the same line."""
        self._since = time.monotonic()

    def tell(self) -> Whereabouts:
        """Say where the main thread is."""
        frames = self._look()
        doing, line = None, None
        for number, frame in enumerate(frames):
            if frame.f_code.co_filename == self._cell_file:
                line = frame.f_lineno
                doing = frames[number - 1].f_code.co_name if number else None
                break
        own = next((one for one in frames if _is_own(one.f_code.co_filename)), None)
        outside = own is not None and own.f_code.co_filename != self._cell_file
        return {
            "cell": self._labels.get(self._cell_file, "Cell"),
            "cell_line": line,
            "doing": doing,
            "frame": self._describe(own) if own is not None and outside else None,
            "seconds": time.monotonic() - self._since,
        }

    def _run(self) -> None:
        while True:
            self._look()
            time.sleep(_INTERVAL)

    def _look(self) -> list[FrameType]:
        """Return the frames of the main thread, the innermost first."""
        frames = list(_outwards(sys._current_frames().get(self._main)))
        place = [
            (frame.f_code.co_filename, frame.f_lineno)
            for frame in frames
            if _is_own(frame.f_code.co_filename)
        ]
        with self._lock:
            if place != self._place:
                self._place, self._since = place, time.monotonic()
        return frames

    def _describe(self, frame: FrameType) -> str:
        code = frame.f_code
        name = self._labels.get(code.co_filename) or os.path.basename(code.co_filename)
        where = f"{name}:{frame.f_lineno}"
        return where if code.co_name == "<module>" else f"{where} in {code.co_name}"


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_own(file: str) -> bool:
    """Return whether code is the user's: no library's, and not the worker's."""
    return not file.startswith(_LIBRARIES)


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
