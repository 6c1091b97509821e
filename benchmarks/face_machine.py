"""The page of a job of 256 ranks, with what they use as it comes, while somebody scrolls it."""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Iterator

from browser import Lab, Tab, child, chromium, lab, made_jobs, within
from common import Measured, sized, spread

from jupyter_jax_trainer.jobdir.layout import JobDir, jobs_directory
from jupyter_jax_trainer.jobdir.records import Resource
from jupyter_jax_trainer.jobdir.resources import ResourceWriter
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.worker.records import Sample

RANKS = sized(256, 16)
_EVERY = 8.0  # seconds between two samples of a rank, where there are so many
_BEFORE = sized(3600, 60)  # seconds that the job has run
_SECONDS = sized(20, 1)
_NAME, _GIB = "wide", float(1 << 30)

_OPEN = "key => void jupyterapp.commands.execute('jaxtrain:open-job', { key })"
_UNFOLD = """
() => {
  const section = document.querySelector('.jaxtrain-job [data-section=machine]');
  section.querySelector('[aria-expanded=false]')?.click();
  section.scrollIntoView();
}
"""
_WATCH = "() => bench.watch()"
_SEEN = "() => bench.stop().map((stamp, n, all) => stamp - all[n - 1]).slice(1)"


def _line(rank: int, now: float) -> Resource:
    """Return what a rank uses: much the same as the others, save for the last one."""
    wave = math.sin(now / 60 + rank)
    far = 4.0 if rank == RANKS - 1 else 0.0
    memory = int((8 + wave + far) * _GIB)
    sample: Sample = {
        "time": now,
        "cpu": 3.5 + wave / 2 + far,
        "cores": 16.0,
        "memory": memory,
        "used": memory,
        "limit": int(16 * _GIB),
        "received": 1e8 * (1.1 + wave),
        "sent": 1e8 * (1.1 + wave),
        "read": 1e6 * (1.1 + wave),
        "written": 1e6 * (1.1 + wave),
        "devices": [
            {
                "memory": int((60 + wave) * _GIB),
                "peak": int(70 * _GIB),
                "limit": int(80 * _GIB),
                "use": 0.9 + 0.05 * wave,
                "power": 600 + 50 * wave,
            }
        ],
    }
    return {**sample, "rank": rank}


def write(name: str) -> None:
    """Write what the ranks say, one after another, until this process is ended."""
    directory = JobDir(jobs_directory() / name)
    writer = ResourceWriter(directory.resources, RANKS)
    with made_jobs.held(directory):
        began = time.time()
        for when in range(0, int(_BEFORE), int(_EVERY)):
            writer.write([_line(rank, began - _BEFORE + when) for rank in range(RANKS)])
        print("writing", flush=True)
        began, number = time.time(), 0
        while True:
            writer.write([_line(number % RANKS, time.time())])
            number += 1
            time.sleep(max(0.0, began + number * _EVERY / RANKS - time.time()))


def _make() -> None:
    ranks = [
        {"rank": rank, "pid": 1000 + rank, "state": "Running", "exit": None}
        for rank in range(RANKS)
    ]
    now = time.time()
    spec = JobSpec(nodes=RANKS)
    made_jobs.make_job(_NAME, "Running", created=now - _BEFORE, spec=spec, ranks=ranks, results=[])


def _scrolled(tab: Tab) -> list[float]:
    """Scroll over the plots up and down again and again; give the ms between frames."""
    tab.evaluate(_UNFOLD)
    tab.page.wait_for_selector(".jaxtrain-job [data-section=machine] canvas")
    plot = tab.page.locator(".jaxtrain-job [data-section=machine] canvas").first.bounding_box()
    size = tab.page.viewport_size
    assert plot is not None and size is not None
    middle = {"x": plot["x"] + plot["width"] / 2, "y": size["height"] / 2}
    tab.evaluate(_WATCH)
    until = time.perf_counter() + _SECONDS
    while time.perf_counter() < until:
        for distance in (-600, 600):
            scroll = {**middle, "yDistance": distance, "speed": 1200, "gestureSourceType": "mouse"}
            tab.cdp.send("Input.synthesizeScrollGesture", scroll)
    return list(tab.evaluate(_SEEN))


def measure(runs: int) -> Iterator[Measured]:
    """Watch the page, and the server that feeds it."""
    with lab() as server, chromium() as browser:
        yield from _measure(server, Tab(browser), runs)


def _measure(server: Lab, tab: Tab, runs: int) -> Iterator[Measured]:
    _make()
    with child(__file__, _NAME):
        longest, rates, cpu, free = [], [], [], []
        for _ in range(runs):
            tab.open(server)
            tab.evaluate(_OPEN, _NAME)
            tab.page.wait_for_selector(".jaxtrain-job [data-rank]")
            used, worked, began = server.cpu(), tab.metric("TaskDuration"), time.perf_counter()
            gaps = _scrolled(tab)
            seconds = time.perf_counter() - began
            cpu.append(100 * (server.cpu() - used) / seconds)
            free.append(100 - 100 * (tab.metric("TaskDuration") - worked) / seconds)
            longest.append(max(gaps))
            rates.append(1e3 / statistics.fmean(gaps))
    rate = statistics.median(rates)
    yield Measured(
        f"{RANKS} ranks' resources, scrolled: frames per second",
        rate,
        ">= 57",
        f"{spread(rates, 'Hz')}; main thread free {min(free):.0f} %",
        rate >= 57,
    )
    yield within("… longest frame", longest, 50)
    yield within("… of a core, for the server", cpu, 20, "%")


if __name__ == "__main__":
    if sys.argv[1:]:
        write(sys.argv[1])
    for one in measure(1):
        print(one, flush=True)
