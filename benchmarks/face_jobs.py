"""The list of 500 jobs in JupyterLab, of which 20 change every second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

from browser import Lab, Tab, child, chromium, lab, made_jobs, within
from common import Measured, spread

from jupyter_jax_trainer import files, jobdir

JOBS, RUNNING, RATE = 500, 40, 20
_SECONDS = 20

_LONG = """
() => {
  bench.long = [];
  bench.observer = new PerformanceObserver(list =>
    bench.long.push(...list.getEntries().map(entry => entry.duration)));
  bench.observer.observe({ type: 'longtask' });
  bench.watch();
}
"""
_SEEN = """
() => {
  bench.observer.disconnect();
  const stamps = bench.stop();
  return { gaps: stamps.slice(1).map((stamp, n) => stamp - stamps[n]), long: bench.long };
}
"""


def change() -> None:
    """Let one running job after the other report a step, until this process is ended."""
    running = [directory for directory in jobdir.list_all()
               if directory.path.name.startswith("running-")]  # fmt: skip
    with ExitStack() as stack:
        states = []
        for directory in running:
            stack.enter_context(made_jobs.held(directory))
            states.append(directory.read_state())
        print("changing", flush=True)
        began, number = time.time(), 0
        while True:
            directory, state = running[number % RUNNING], states[number % RUNNING]
            step = number // RUNNING
            state["progress"].update(step=step, fraction=step % 500 / 500, time=time.time())
            files.write_json(directory.state, state)
            number += 1
            time.sleep(max(0.0, began + number / RATE - time.time()))


def _worked(server: Lab, tab: Tab) -> float:
    """Give the percent of a core that the server takes while the time passes."""
    before, began = server.cpu(), time.perf_counter()
    tab.page.wait_for_timeout(1e3 * _SECONDS)
    return 100 * (server.cpu() - before) / (time.perf_counter() - began)


def _watched(server: Lab, tab: Tab) -> tuple[dict[str, list[float]], float, float]:
    """Give the ms between frames and of long tasks, the server's and the main thread's percent."""
    tab.evaluate("new Promise(done => requestIdleCallback(done))")
    tab.evaluate(_LONG)
    before = tab.metric("TaskDuration")
    cpu = _worked(server, tab)
    busy = 100 * (tab.metric("TaskDuration") - before) / _SECONDS
    return tab.evaluate(_SEEN), cpu, busy


def measure(runs: int) -> Iterator[Measured]:
    """Watch the list, and the server that feeds it."""
    with lab() as server, chromium() as browser:
        yield from _measure(server, Tab(browser), runs)


def _measure(server: Lab, tab: Tab, runs: int) -> Iterator[Measured]:
    now = time.time()
    for number in range(JOBS - RUNNING):
        made_jobs.make_job(f"ended-{number}", created=now - 1e5 - 60 * number)
    for number in range(RUNNING):
        made_jobs.make_job(f"running-{number}", "Running", created=now - 60 * number)
    frames, idle, over, long, cpu, alone, free = [], [], 0, [], [], [], []
    with child(__file__, "change"):
        for _ in range(runs):
            tab.page.goto("about:blank")
            alone.append(_worked(server, tab))
            tab.open(server)
            still, _, _ = _watched(server, tab)
            tab.evaluate("jupyterapp.commands.execute('jaxtrain:show-jobs')")
            tab.page.wait_for_selector(".jaxtrain-jobs [data-key^=running] [role=progressbar]")
            found, percent, busy = _watched(server, tab)
            frames.append(max(found["gaps"]))
            idle.append(max(still["gaps"]))
            over += sum(gap > 50 for gap in found["gaps"])
            long += found["long"]
            cpu.append(percent)
            free.append(100 - busy)
    shown = tab.page.locator(".jaxtrain-jobs [data-key]").count()
    yield within(f"{JOBS} jobs, {RATE} changes/s: longest frame of {_SECONDS} s", frames, 50,
                 detail=f"{over} of {runs * _SECONDS * 60} over 50 ms, {len(long)} long tasks"
                        f"{f' of up to {max(long):.0f} ms' if long else ''}, main thread free "
                        f"{min(free):.0f} %, {shown} rows; without the list {spread(idle, 'ms')}")
    mine = [one - other for one, other in zip(cpu, alone, strict=True)]
    yield within("… of a core, for the server", mine, 5, "%", f"without a page {max(alone):.1f} %")


if __name__ == "__main__":
    if sys.argv[1:]:
        change()
    for one in measure(1):
        print(one, flush=True)
