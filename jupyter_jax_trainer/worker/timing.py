"""Where a rank's time goes, by looks at its main thread: compiling, data, steps or other things."""

from __future__ import annotations

import inspect
import os
import re
import sys
import threading
import time
from collections import deque
from types import CodeType, FrameType

from jupyter_jax_trainer.worker import timeouts
from jupyter_jax_trainer.worker.channel import Channel
from jupyter_jax_trainer.worker.records import KINDS, OUTSIDE, Pace, Spent
from jupyter_jax_trainer.worker.stacks import frame_of
from jupyter_jax_trainer.worker.standstill import Spots

_LOOKS = 0.05  # seconds between them
_TELLS = 5.0  # seconds between messages
_DEEP = 200  # frames that are looked at
_KNOWN = 4096  # pieces of code that are remembered
_COMPILING = frozenset(
    (
        "trace_to_jaxpr",
        "trace_to_jaxpr_dynamic",
        "trace_to_jaxpr_nounits",
        "lower_jaxpr_to_module",
        "compile_or_get_cached",
    )
)
_JAX = os.path.join("", "jax", "_src", "")
# Where code that writes checkpoints is, by parts of paths, and the functions of numpy that do.
_SAVERS = ("/orbax/", "/flax/training/checkpoints", "/safetensors/", "/equinox/_serialisation")
_SAVES = ("/numpy/lib/", ("save", "savez", "savez_compressed", "_savez"))
_OWN_SAVER = "worker/saving.py"
# The same of code that loads data, and what such functions are called where users write them.
_LOADERS = (
    "/grain/",
    "/tensorflow/python/data/",
    "/tensorflow_datasets/",
    "/torch/utils/data/",
    "/torchdata/",
    "/site-packages/datasets/",
    "/webdataset/",
    "/h5py/",
    "/zarr/",
    "/tensorstore/",
    "/pyarrow/",
    "/pandas/io/",
    "/PIL/",
    "/imageio/",
    "/fsspec/",
)
_LOADS = ("/numpy/lib/", ("load", "loadtxt", "genfromtxt"))
_LOADING = re.compile(
    r"__(next|getitem)__|load|fetch"
    r"|_*(get|load|next|read|fetch|make|sample|generate|prepare)_(\w+_)?"
    r"(batch|batches|data|dataset|example|examples|sample|samples)"
)
_LIBRARIES = ("/site-packages/", "/dist-packages/", os.path.join(os.path.dirname(os.__file__), ""))
# What else is found around a call says more of it than what comes first here.
_WEIGHT = {"host": 0, "data": 1, "importing": 2, "checkpoints": 3}


def _kind_in(code: CodeType) -> str | None:
    """Return what is done in a piece of code and below, if that is known by where it stands."""
    file, name = code.co_filename, code.co_name
    if _JAX in file and name in _COMPILING:
        return "compiling"
    if file.startswith("<frozen importlib"):
        return "importing"
    if name == "<module>":  # of a library: it is being imported
        return None
    if file.endswith(_OWN_SAVER) or any(part in file for part in _SAVERS):
        return "checkpoints"
    if name in _SAVES[1] and _SAVES[0] in file:
        return "checkpoints"
    if any(part in file for part in _LOADERS) or (name in _LOADS[1] and _LOADS[0] in file):
        return "data"
    return "data" if _may_load(code) else None


def _may_load(code: CodeType) -> bool:
    """Return whether a user's code looks as if it gives the next batch.

    A generator does, or what is called as such functions are.
    """
    name = code.co_name
    if name.startswith("<") or any(part in code.co_filename for part in _LIBRARIES):
        return False
    return bool(code.co_flags & inspect.CO_GENERATOR) or bool(_LOADING.fullmatch(name))


class Timing:
    """Sums up what the main thread does while a cell runs, and at what pace it goes.

    Twenty times a second it looks where the main thread is, which costs some microseconds. The time
    until the next look is taken to be spent there.

    Parameters
    ----------
    channel
        Where it is told, every five seconds.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._main = threading.main_thread().ident or 0
        self._lock = threading.Lock()
        self._spots = Spots()
        self._codes: dict[int, tuple[CodeType, str | None]] = {}
        self._runs = threading.Event()
        self._thread: threading.Thread | None = None
        self._window = timeouts.PACE.seconds
        self._reset()

    def _reset(self) -> None:
        self._spent: Spent = dict.fromkeys(KINDS, 0.0)
        self._steps = 0
        self._marks: deque[tuple[float, int, float]] = deque()

    def begin(self) -> None:
        """Begin to count from zero: a cell begins."""
        with self._lock:
            self._reset()
            self._last = self._told = time.monotonic()
            self._mark(self._last)
        self._runs.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="jaxtrain-timing", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Tell what was counted last; the cell is over."""
        if self._runs.is_set():
            self._runs.clear()
            self._tell()

    def step(self, *_report: object) -> None:
        """Take note of a report: it ends a step, and what calls it trains, and loads no data."""
        frame: FrameType | None = sys._getframe(1)
        for _ in range(_DEEP):
            if frame is None:
                break
            if self._kind_of(frame.f_code) == "data":
                self._codes[id(frame.f_code)] = frame.f_code, None
            frame = frame.f_back
        with self._lock:
            if not self._steps:  # what was before the first one says nothing of the next ones
                self._marks.clear()
                self._mark(time.monotonic())
            self._steps += 1

    def _run(self) -> None:
        while True:
            self._runs.wait()
            time.sleep(_LOOKS)
            frame = frame_of(self._main)
            kind = "host" if frame is None else self._kind(frame)
            now = time.monotonic()
            with self._lock:
                self._spent[kind] += now - self._last
                self._last = now
            del frame
            if now - self._told >= min(_TELLS, self._window / 2) and self._runs.is_set():
                self._tell()

    def _kind(self, frame: FrameType) -> str:
        """Return what is done there: see `records.KINDS`."""
        innermost, found = frame, "host"
        walked: FrameType | None = frame
        for _ in range(_DEEP):
            if walked is None:
                break
            kind = self._kind_of(walked.f_code)
            if kind == "compiling":
                return kind
            if kind is not None and _WEIGHT[kind] > _WEIGHT[found]:
                found = kind
            walked = walked.f_back
        outside = found in OUTSIDE
        return "steps" if outside and self._spots.is_in_jax(innermost) else found

    def _kind_of(self, code: CodeType) -> str | None:
        """Return what is done in a piece of code and below, if that is known by where it stands."""
        # By the id: to hash the code itself would take long.
        known = self._codes.get(id(code))
        if known is None:
            if len(self._codes) >= _KNOWN:
                self._codes.clear()
            known = self._codes[id(code)] = code, _kind_in(code)
        return known[1]

    def _mark(self, now: float) -> None:
        """Remember how much of the time was spent outside of jax up to here."""
        outside = sum(self._spent[kind] for kind in OUTSIDE)
        self._marks.append((now, self._steps, outside))
        while len(self._marks) > 2 and now - self._marks[1][0] >= self._window:
            self._marks.popleft()

    def _pace(self, now: float) -> Pace | None:
        """Return how the last steps went; None where there is no long enough time of them."""
        self._mark(now)
        (first, steps, host), (last, more, most) = self._marks[0], self._marks[-1]
        if last - first < self._window:
            return None
        return {
            "steps": more - steps,
            "seconds": round(last - first, 3),
            "host": round(most - host, 3),
        }

    def _tell(self) -> None:
        with self._lock:
            self._told = time.monotonic()
            spent = {kind: round(seconds, 2) for kind, seconds in self._spent.items()}
            pace = self._pace(self._told)
        self._channel.send("spent", spent=spent, pace=pace)
