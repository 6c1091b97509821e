"""The process in which profiles are read, so that a pod's files can crash nothing else.

It is started with folders of ranks, as ``RANK=FOLDER``, and writes a line of JSON for each; or with
``--perfetto TRACE FOLDER``, and exports a trace into a folder.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
from pathlib import Path

from jupyter_jax_trainer.profiles import memory, traces
from jupyter_jax_trainer.profiles.summary import RankSummary, missing
from jupyter_jax_trainer.worker.profiling import MEMORY, TRACE

EXPORT = "--perfetto"
MEMORY_LIMIT = 8 << 30  # bytes
CPU_LIMIT = 300  # seconds
_OF_MEMORY = 64 << 20  # bytes of a file


def main() -> None:
    """Read what the command line names."""
    for kind, most in (
        (resource.RLIMIT_DATA, MEMORY_LIMIT),
        (resource.RLIMIT_CPU, CPU_LIMIT),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        lowered = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (lowered, lowered))
    if sys.argv[1] == EXPORT:
        _export(Path(sys.argv[2]), sys.argv[3])
        return
    gc.disable()  # what is made of a trace is in use until the end
    for word in sys.argv[1:]:
        rank, _, folder = word.partition("=")
        print(json.dumps(_read(int(rank), Path(folder))), flush=True)


def _read(rank: int, folder: Path) -> RankSummary:
    try:
        found = traces.read(rank, folder / TRACE)
    except Exception as error:  # of whatever was made of it
        found = missing(rank, f"{type(error).__name__}: {error}"[:300])
    try:
        with (folder / MEMORY).open("rb") as file:
            found["allocations"] = memory.read(file.read(_OF_MEMORY))
    except (OSError, ValueError, RecursionError):
        pass  # it is not there, or none
    return found


def _export(trace: Path, folder: str) -> None:
    """Let XLA write what it would have written where the trace was taken."""
    from jaxlib import _profiler

    if not list(traces.load(trace).planes):  # of what is none, XLA makes an empty one
        raise ValueError(trace)
    _profiler.ProfilerSession().export(trace.read_bytes(), folder)


if __name__ == "__main__":
    main()
