"""The log viewer in JupyterLab with 10^6 lines of 256 ranks: opening, scrolling, searching, memory.

Scrolling is compared with an empty box of the same size, at the same place of the same page.
"""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable, Iterator
from typing import Any

from browser import Lab, Tab, chromium, lab, made_jobs, within
from common import WARM_UPS, Measured, in_turn, ratio_of, sized, spread
from log_pages import NEEDLE, RANKS, fill

from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.options.spec import JobSpec

_TIMES = """
async key => {
  const began = performance.now();
  await jupyterapp.commands.execute('jaxtrain:open-log', { key });
  await bench.until(() => document.querySelector('.jaxtrain-log-row .jaxtrain-rank'));
  const first = await bench.painted() - began;
  await bench.until(() => {
    const status = document.querySelector('.jaxtrain-log-status').textContent;
    const rows = document.querySelectorAll('.jaxtrain-log-row');
    return !status.includes('so far') && rows.length > 0 &&
      [...rows].every(row => row.querySelector('.jaxtrain-rank, [data-kind]') || row.dataset.kind);
  });
  return [first, await bench.painted() - began];
}
"""
CLOSE = """
() => [...jupyterapp.shell.widgets('main')]
  .filter(tab => tab.id.startsWith('jaxtrain-log-')).forEach(tab => tab.dispose())
"""
# Both boxes begin in the middle, so that there is room to go.
_LOG = """
async () => {
  const list = document.querySelector('.jaxtrain-log-list');
  const middle = list.scrollHeight / 2;
  list.dispatchEvent(new PointerEvent('pointerdown', { bubbles: true })); // it lets go
  await bench.painted();
  while (Math.abs(list.scrollTop - middle) > 1000) {
    list.scrollTop = middle; // lines that come just now may undo it before its event
    await bench.painted();
    await bench.painted();
  }
}
"""
_EMPTY = """
() => {
  const list = document.querySelector('.jaxtrain-log-list');
  const box = document.createElement('div');
  const { left, top, width, height } = list.getBoundingClientRect();
  box.id = 'bench-empty';
  box.style.cssText = `position: fixed; left: ${left}px; top: ${top}px; width: ${width}px;
    height: ${height}px; overflow: auto; background: white; z-index: 100000`;
  box.innerHTML = `<div style="height: ${list.scrollHeight}px"></div>`;
  document.body.append(box);
  box.scrollTop = box.scrollHeight / 2;
}
"""
_WATCH = """
selector => {
  const box = document.querySelector(selector);
  bench.before = box.scrollTop;
  bench.full = bench.frames = 0;
  bench.watch(() => {
    bench.frames++;
    const empty = '.jaxtrain-log-row:not([data-kind]):not(:has(.jaxtrain-rank))';
    bench.full += !box.querySelector(empty);
  });
}
"""
_SEEN = """
selector => {
  const stamps = bench.stop();
  return {
    rate: 1000 * (stamps.length - 1) / (stamps.at(-1) - stamps[0]),
    longest: Math.max(...stamps.slice(1).map((stamp, n) => stamp - stamps[n])),
    full: bench.full / bench.frames,
    moved: Math.abs(document.querySelector(selector).scrollTop - bench.before)
  };
}
"""
_GO = """
async key => {
  const list = document.querySelector('.jaxtrain-log-list');
  list.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  await bench.painted();
}
"""
SEARCH = """
async word => {
  const field = document.querySelector('.jaxtrain-log-search input');
  const count = () => document.querySelector('.jaxtrain-log-count').textContent;
  const type = async text => {
    field.value = text;
    field.dispatchEvent(new InputEvent('input', { bubbles: true }));
    await bench.painted();
    const began = performance.now();
    field.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
    return began;
  };
  await type('');
  await bench.until(() => count() === '');
  const began = await type(word);
  await bench.until(() => /^[\\d,]+ of /.test(count()) &&
    document.querySelector('.jaxtrain-log-list mark'));
  const first = await bench.painted() - began;
  await bench.until(() => /^[\\d,]+ of [\\d,]+$/.test(count()));
  return { first, all: await bench.painted() - began, count: count() };
}
"""


def big_job(name: str, state: str = "Succeeded") -> JobDir:
    """Make the job whose log this is about, ten lines a piece as the supervisor indexes them."""
    directory = made_jobs.make_job(name, state, spec=JobSpec(nodes=RANKS))
    fill(directory, 10)
    return directory


def _again(directory: JobDir, name: str) -> str:
    """Make a job with the same log, of which the server knows nothing yet."""
    job = made_jobs.make_job(name, spec=JobSpec(nodes=RANKS))
    shutil.rmtree(job.logs)
    shutil.copytree(directory.logs, job.logs, copy_function=os.link)
    return name


def opened(tab: Tab, key: str) -> tuple[float, float]:
    """Open a log; give the ms to the first lines, and to the last ones of the whole."""
    first, whole = tab.evaluate(_TIMES, key)
    return first, whole


def wheel(tab: Tab, selector: str) -> None:
    """Turn the wheel for three seconds, in a smoke run for one."""
    x, y, _, _ = _box(tab, selector)
    tab.cdp.send(
        "Input.synthesizeScrollGesture",
        {
            "x": x,
            "y": y,
            "yDistance": sized(-6000, -2000),
            "speed": 2000,
            "gestureSourceType": "mouse",
        },
    )


def drag(tab: Tab, selector: str) -> None:
    """Take the scroll bar at its thumb, and move it: for three seconds, in a smoke run for less."""
    steps = sized(150, 15)
    x, y, width, height = _box(tab, selector)
    mouse, x = tab.page.mouse, x + width / 2 - 7
    mouse.move(x, y)
    mouse.down()
    for step in range(steps):
        mouse.move(x, y + height * 0.35 * step / steps)
        tab.page.wait_for_timeout(16)
    mouse.up()


def _box(tab: Tab, selector: str) -> tuple[float, float, float, float]:
    box = tab.page.locator(selector).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, box["width"], box["height"]


def scrolled(
    tab: Tab,
    gesture: Callable[[Tab, str], None],
    script: str,
    selector: str,
    seen: list[dict[str, Any]],
) -> float:
    """Scroll a box from its middle; give the frames per second."""
    tab.evaluate(script)
    tab.evaluate("bench.painted")
    tab.evaluate(_WATCH, selector)
    gesture(tab, selector)
    found = tab.evaluate(_SEEN, selector)
    tab.evaluate("document.getElementById('bench-empty')?.remove()")
    assert found["moved"] > 1000, found
    seen.append(found)
    return float(found["rate"])


def _scrolling(tab: Tab, runs: int) -> Iterator[Measured]:
    for name, gesture in ("by wheel", wheel), ("by dragging", drag):
        seen: list[dict[str, Any]] = []
        ours, empty = in_turn(
            runs,
            lambda gesture=gesture, seen=seen: scrolled(
                tab, gesture, _LOG, ".jaxtrain-log-list", seen
            ),
            lambda gesture=gesture: scrolled(tab, gesture, _EMPTY, "#bench-empty", []),
        )
        ratio = ratio_of(ours, empty)
        full = statistics.median(one["full"] for one in seen)
        longest = statistics.median(one["longest"] for one in seen)
        yield Measured(
            f"frame rate scrolling {name}",
            ratio,
            ">= 0.9",
            f"ours {spread(ours, 'Hz')}, empty {spread(empty, 'Hz')}, the longest "
            f"frame {longest:.0f} ms, all lines there in {full:.0%} of the frames",
            ratio >= 0.9,
        )


def _searching(tab: Tab, runs: int) -> Iterator[Measured]:
    for name, word, key in (
        ("many hits, from the first line", "step", "Home"),
        ("many hits, while it follows", "step", "End"),
        ("one hit, half a million lines away", NEEDLE, "Home"),
    ):
        found = []
        for _ in range(WARM_UPS + runs):
            tab.evaluate(_GO, key)
            found.append(tab.evaluate(SEARCH, word))
        del found[:WARM_UPS]
        yield within(f"the first hit, {name}", [one["first"] for one in found], 200)
        yield within(
            f"all counted, {name}", [one["all"] for one in found], 2000, detail=found[0]["count"]
        )


def measure(runs: int) -> Iterator[Measured]:
    """Do to a big log what people do to it."""
    with lab() as server, chromium() as browser:
        yield from _measure(server, Tab(browser), runs)


def _measure(server: Lab, tab: Tab, runs: int) -> Iterator[Measured]:
    directory = big_job("big")
    tab.open(server)
    heap, memory = tab.heap(), tab.memory()
    first_times, whole_times = [], []
    for run in range(WARM_UPS + runs):
        first, whole = opened(tab, _again(directory, f"again-{run}"))
        first_times.append(first)
        whole_times.append(whole)
        tab.evaluate(CLOSE)
    yield within(
        "log opened, first lines painted",
        first_times[WARM_UPS:],
        300,
        detail=f"the first time in a page {first_times[0]:.0f} ms",
    )
    yield within("… the last lines of the whole log", whole_times[WARM_UPS:], None)
    opened(tab, "big")
    yield from _scrolling(tab, runs)
    yield from _searching(tab, runs)
    heap, memory = tab.heap() - heap, tab.memory() - memory
    yield within(
        "JavaScript's memory over the empty page",
        [heap],
        150,
        "MB",
        f"the page's process {memory:.0f} MB more, documents and buffers included",
    )


if __name__ == "__main__":
    for one in measure(1):
        print(one, flush=True)
