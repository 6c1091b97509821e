"""The list of 500 jobs in JupyterLab, of which 20 change every second, while somebody uses it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

from browser import Lab, Tab, child, chromium, lab, made_jobs, within
from common import Measured, sized, spread

from jupyter_jax_trainer.jobdir import files, layout, store

JOBS, RUNNING, RATE = *sized((500, 40), (50, 4)), 20
# Each fourth change lets one of these begin, run, end or be deleted; the others are steps.
COMING, _EACH = 20, 4
_SECONDS = sized(20, 1)
_LIST = ".jaxtrain-jobs .jaxtrain-list"
_FILTER = ".jaxtrain-jobs input[type=search]"

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


class Coming:
    """A job that comes, runs, ends and is deleted, by and by and again and again."""

    def __init__(self, number: int) -> None:
        self._directory = layout.JobDir(layout.jobs_directory() / f"coming-{number}")
        self._stages = self._live()

    def go_on(self) -> None:
        next(self._stages)

    def _live(self) -> Iterator[None]:
        while True:
            store.private_directory(self._directory.path)
            lock = self._directory.take_lock()  # before there is something that needs somebody
            assert lock is not None
            made_jobs.make_job(
                self._directory.path.name,
                "Queued",
                created=time.time(),
                progress=None,
                reason="waits for free cores",
            )
            yield
            self._set("Running", reason=None)
            yield
            self._set("Succeeded")
            os.close(lock)
            yield
            self._directory.remove()
            yield

    def _set(self, state: str, **more: object) -> None:
        before = self._directory.read_state()
        assert before is not None
        history = [*before["history"], {"state": state, "time": time.time()}]
        files.write_json(
            self._directory.state, {**before, "state": state, "history": history, **more}
        )


def change() -> None:
    """Let running jobs report steps and others come and go, until this process is ended."""
    running = [
        directory for directory in layout.list_all() if directory.path.name.startswith("running-")
    ]
    coming = [Coming(number) for number in range(COMING)]
    with ExitStack() as stack:
        states = []
        for directory in running:
            stack.enter_context(made_jobs.held(directory))
            states.append(directory.read_state())
        print("changing", flush=True)
        began, number = time.time(), 0
        while True:
            if number % _EACH == 0:
                coming[number // _EACH % COMING].go_on()
            else:
                nth = number - number // _EACH - 1  # of the steps
                directory, state = running[nth % RUNNING], states[nth % RUNNING]
                step = nth // RUNNING
                state["progress"].update(step=step, fraction=step % 500 / 500, time=time.time())
                files.write_json(directory.state, state)
            number += 1
            time.sleep(max(0.0, began + number / RATE - time.time()))


def _use(tab: Tab, until: float) -> None:
    """Scroll the list by the wheel, and type words of a filter, again and again."""
    box = tab.page.locator(_LIST).bounding_box()
    assert box is not None
    middle = {"x": box["x"] + box["width"] / 2, "y": box["y"] + min(box["height"], 500) / 2}
    while time.perf_counter() < until:
        for distance in sized((-3000, 2000), (-300, 200)):
            tab.cdp.send(
                "Input.synthesizeScrollGesture",
                {
                    **middle,
                    "yDistance": distance,
                    "speed": 2000,
                    "gestureSourceType": "mouse",
                },
            )
        tab.page.locator(_FILTER).press_sequentially("coming", delay=150)
        tab.page.wait_for_timeout(500)
        tab.page.locator(_FILTER).press("Escape")


def _worked(server: Lab, tab: Tab, used: bool = False) -> float:
    """Return the percent of a core that the server takes while the time passes."""
    before, began = server.cpu(), time.perf_counter()
    if used:
        _use(tab, began + _SECONDS)
    else:
        tab.page.wait_for_timeout(1e3 * _SECONDS)
    return 100 * (server.cpu() - before) / (time.perf_counter() - began)


def _watched(
    server: Lab, tab: Tab, used: bool = False
) -> tuple[dict[str, list[float]], float, float]:
    """Return ms between frames and of long tasks, and the server's and main thread's percent."""
    tab.evaluate("new Promise(done => requestIdleCallback(done))")
    tab.evaluate(_LONG)
    before, began = tab.metric("TaskDuration"), time.perf_counter()
    cpu = _worked(server, tab, used)
    busy = 100 * (tab.metric("TaskDuration") - before) / (time.perf_counter() - began)
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
            found, percent, busy = _watched(server, tab, used=True)
            frames.append(max(found["gaps"]))
            idle.append(max(still["gaps"]))
            over += sum(gap > 50 for gap in found["gaps"])
            long += found["long"]
            cpu.append(percent)
            free.append(100 - busy)
    shown = tab.page.locator(".jaxtrain-jobs [data-key]").count()
    yield within(
        f"{JOBS} jobs, {RATE} changes/s: longest frame of {_SECONDS} s",
        frames,
        50,
        detail=f"{over} of {runs * _SECONDS * 60} over 50 ms, {len(long)} long tasks"
        f"{f' of up to {max(long):.0f} ms' if long else ''}, main thread free "
        f"{min(free):.0f} %, {shown} rows; without the list {spread(idle, 'ms')}",
    )
    mine = [one - other for one, other in zip(cpu, alone, strict=True)]
    yield within("… of a core, for the server", mine, 5, "%", f"without a page {max(alone):.1f} %")


if __name__ == "__main__":
    if sys.argv[1:]:
        change()
    for one in measure(1):
        print(one, flush=True)
