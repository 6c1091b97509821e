"""What many cells leave behind: in the processes of a session, and in the list of jobs."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from common import Measured, in_turn, job_home, ratio_of, run_job, sized, spread
from session import CELL, run_cell

CELLS, BEFORE = sized((1_000, 100), (4, 2))  # back to back, and those that don't count
SESSIONS = sized(100, 2)
BOUND = 5e6  # bytes by which a process may grow


def measure(runs: int) -> list[Measured]:
    """Run cells back to back; list sessions and their cells, and as many jobs."""
    return [*_back_to_back(), _listed(runs)]


def _back_to_back() -> list[Measured]:
    looks = []
    with job_home(warm=True):
        run_cell()[0].wait()
        pids = processes()
        for number in range(1, CELLS):
            run_cell()[0].wait()
            if number == BEFORE - 1:
                looks.append(usage(pids))
        looks.append(usage(pids))
    return [judged(f"growth of a process in {CELLS - BEFORE} cells, MB", looks)]


def judged(name: str, looks: list[dict[str, Usage]], note: str = "") -> Measured:
    """Compare the first look at the processes of a session with the last one.

    Parameters
    ----------
    name
        Of the measurement.
    looks
        At all processes, in order; those between are shown.
    note
        What else is shown.
    """
    before, after = looks[0], looks[-1]
    said = []
    for process in before:
        grown = [1e-6 * (look[process].memory - before[process].memory) for look in looks[1:]]
        said.append(f"{process} {', '.join(f'{value:.1f}' for value in grown)} MB")
    equal = all(after[one].opened == before[one].opened for one in before)
    if not equal:
        said.append(f"open files and threads: {before} before, {after} after")
    most = max(after[one].memory - before[one].memory for one in before)
    return Measured(
        name,
        1e-6 * most,
        "<= 5, open files and threads equal",
        "; ".join([*said, *filter(None, [note])]),
        most <= BOUND and equal,
    )


class Usage(NamedTuple):
    """What a process has: bytes of memory, and how many open files and threads."""

    memory: int
    opened: tuple[int, int]


def processes() -> dict[str, int]:
    """Return the processes of the session; asked once, for a list of all jobs takes memory."""
    from jupyter_jax_trainer import sessions

    (job,) = sessions.live()
    ranks = {f"rank {rank.rank}": rank.pid for rank in job.ranks}
    supervisor = int(Path(f"/proc/{ranks['rank 0']}/stat").read_text().rsplit(")")[1].split()[1])
    pids = {"kernel": os.getpid(), "supervisor": supervisor, **ranks}
    return {name: pid for name, pid in pids.items() if pid is not None}


def usage(pids: dict[str, int]) -> dict[str, Usage]:
    """Return what each process has, once it has closed what the last cell has opened."""
    time.sleep(0.2)
    return {name: _usage(pid) for name, pid in pids.items()}


def _usage(pid: int) -> Usage:
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.partition(":")[::2] for line in status.splitlines())
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Usage(int(fields["VmRSS"].split()[0]) << 10, (files, int(fields["Threads"])))


def _listed(runs: int) -> Measured:
    """Compare the list of sessions with their cells and that of as many jobs."""
    with job_home(warm=True) as home:
        one, _ = run_job(CELL, "-n 2")
        one.wait()
        cell, _ = run_cell()
        cell.wait()
        session = Path(home, "jobs", cell.manifest["cell_of"]["session"])
        each = CELLS // SESSIONS
        with job_home(warm=False) as jobs:
            for number in range(SESSIONS * (1 + each)):
                _copy(one.directory, jobs, f"job-{number}")
            with job_home(warm=False) as sessions:
                for number in range(SESSIONS):
                    uid = _copy(session, sessions, f"lab-{number}")
                    for n in range(each):
                        _copy(cell.directory, sessions, f"lab-{number}-cell-{n}", uid)
                ours, theirs = in_turn(runs, lambda: _list(sessions), lambda: _list(jobs))
    ratio = ratio_of(ours, theirs)
    return Measured(
        f"{SESSIONS} sessions and {SESSIONS * each} cells listed, against as many jobs",
        ratio,
        "<= 1.05",
        f"{spread(ours)} : {spread(theirs)}",
        ratio <= 1.05,
    )


def _copy(directory: Path, home: Path, name: str, session: str | None = None) -> str:
    """Copy a job that has ended, as another one; give its id."""
    target = Path(home, "jobs", name)
    shutil.copytree(directory, target, ignore=shutil.ignore_patterns("*.jtz", "bundle.pyz", "logs"))
    manifest: dict[str, Any] = json.loads((target / "manifest.json").read_text())
    manifest.update(name=name, uid=uuid.uuid4().hex)
    if session is not None:
        manifest["cell_of"]["uid"] = session
    (target / "manifest.json").write_text(json.dumps(manifest))
    state = json.loads((target / "state.json").read_text())
    state["state"] = "Succeeded"
    (target / "state.json").write_text(json.dumps(state))
    return str(manifest["uid"])


def _list(home: Path) -> float:
    from jupyter_jax_trainer.commands import Context, run_command

    before, out = os.environ["JAXTRAIN_HOME"], io.StringIO()
    os.environ["JAXTRAIN_HOME"] = str(home)
    try:
        began = time.perf_counter()
        run_command(["jobs"], Context(print=lambda text: print(text, file=out), width=200))
        return time.perf_counter() - began
    finally:
        os.environ["JAXTRAIN_HOME"] = before
