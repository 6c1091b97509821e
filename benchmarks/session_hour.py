"""What an hour of cells leaves behind in the processes of a session, a cell each second."""

from __future__ import annotations

import time

from common import Measured, job_home, sized
from session import run_cell
from session_many import Usage, judged, processes, usage

SECONDS, BEFORE = sized((3_600, 100), (4, 2))  # cells, and those that don't count
LOOKS = sized(6, 1)  # at the processes, besides the first


def measure(runs: int) -> list[Measured]:
    """Run the cells; look at the processes at equal times."""
    looks: list[dict[str, Usage]] = []
    late = 0.0
    every = (SECONDS - BEFORE) // LOOKS
    with job_home(warm=True):
        run_cell()[0].wait()
        pids, began = processes(), time.monotonic()
        for number in range(1, SECONDS):
            run_cell()[0].wait()
            if number >= BEFORE - 1 and (number - BEFORE + 1) % every == 0:
                looks.append(usage(pids))
            due = began + number
            late = max(late, time.monotonic() - due)
            time.sleep(max(0, due - time.monotonic()))
    name = f"growth of a process in {SECONDS - BEFORE} s, a cell each second, MB"
    return [judged(name, looks, f"at most {late:.1f} s late")]
