"""1 GB of captured arrays, against writing and mapping the same bytes raw."""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from common import Measured, in_turn, job_home, ratio_of, sized, spread

# Seconds before each: after a large file was deleted, Linux writes the next one faster. A notebook
# that sends its data once never sees that.
REST = sized(10, 0)
ARRAYS, EACH = sized((10, 100_000_000), (2, 1_000_000))  # bytes


def _touch(view: Any) -> int:
    """Read every page of a buffer, as a program would that uses it."""
    import numpy as np

    return int(np.frombuffer(view, np.uint8)[::4096].sum())


def measure(runs: int) -> list[Measured]:
    """Compare capture, bundle and load with raw write and mmap; and look at the peak of memory."""
    import numpy as np

    from jupyter_jax_trainer.bundle import write_bundle
    from jupyter_jax_trainer.capture import capture_cell
    from jupyter_jax_trainer.worker.loading import load_variables
    from jupyter_jax_trainer.worker.serialization.archive import Archive

    rng = np.random.default_rng(0)
    namespace = {f"a{i}": rng.integers(0, 255, EACH, dtype=np.uint8) for i in range(ARRAYS)}
    cell = "total = " + " + ".join(f"{name}[0]" for name in namespace)
    peaks: list[float] = []
    with job_home(warm=False) as home, tempfile.TemporaryDirectory(dir=home) as name:
        path = Path(name, "bundle.pyz")

        def ours(travels: bool = False) -> float:
            time.sleep(REST)
            base = _resident()
            with _Peak() as peak:
                began = time.perf_counter()
                write_bundle(path, "bench", capture_cell(cell, namespace), travels=travels)
                written = time.perf_counter() - began
            peaks.append(peak.value - base)
            began = time.perf_counter()
            loaded: dict[str, Any] = {}
            load_variables(Archive(path), loaded)
            for value in loaded.values():
                _touch(value)
            total = written + time.perf_counter() - began
            del loaded
            path.unlink()
            return total

        def raw() -> float:
            time.sleep(REST)
            began = time.perf_counter()
            with path.open("wb", buffering=0) as file:
                for value in namespace.values():
                    view = memoryview(value)
                    while view.nbytes:
                        view = view[file.write(view) :]
            with path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            _touch(mapped)
            total = time.perf_counter() - began
            mapped.close()
            path.unlink()
            return total

        a, b = in_turn(runs, ours, raw)
        hashed, bare = in_turn(runs, lambda: ours(travels=True), raw)
    ratio = ratio_of(a, b)
    peak = max(peaks) / 1e6
    return [
        Measured(
            "1 GB captured, sent and mapped",
            ratio,
            "<= 1.3",
            f"ours {spread(a)}, raw {spread(b)}",
            ratio <= 1.3,
        ),
        Measured(
            "the same with hashed buffers, as for another machine",
            ratio_of(hashed, bare),
            "none",
            f"ours {spread(hashed)}, raw {spread(bare)}",
            True,
        ),
        Measured("peak extra memory in the kernel, MB", peak, "<= 64", "", peak <= 64),
    ]


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class _Peak:
    """The largest resident memory of this process while it is open."""

    def __enter__(self) -> _Peak:
        self.value = _resident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.value = max(self.value, _resident())

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


if __name__ == "__main__":
    for line in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
        print(line)
