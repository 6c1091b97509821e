"""The log viewer on a log that grows by 20,000 lines/s, and typing in a notebook beside it."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import websocket
from browser import TOKEN, Lab, Tab, child, chromium, lab, made_jobs, within
from common import Measured, in_turn, ratio_of, sized, spread
from face_log import CLOSE, big_job, opened
from log_pages import RANKS

from jupyter_jax_trainer.jobdir.layout import JobDir

RATE = 20_000  # lines a second
_TICK, _INDEX = 0.02, 0.05  # seconds between writes of the ranks, and looks of the supervisor
_SECONDS, _KEYS = sized((10, 60), (1, 3))
_SHOWN, _PACE = 60, 0.5  # lines that a page shows, and seconds between two looks while one types

_AGES = """
() => {
  bench.ages = [];
  bench.timer = setInterval(() => {
    const rows = document.querySelectorAll('.jaxtrain-log-row[data-index]');
    const found = /written ([\\d.]+)/.exec(rows[rows.length - 1]?.textContent);
    if (found) bench.ages.push(Date.now() - 1000 * Number(found[1]));
  }, 50);
}
"""
_KEY_TIMES = """
() => {
  bench.keys = [];
  bench.onKey = async event => {
    const began = event.timeStamp;
    bench.keys.push(await bench.painted() - began);
  };
  window.addEventListener('keydown', bench.onKey, true);
}
"""
_KEYS_SEEN = """
() => {
  window.removeEventListener('keydown', bench.onKey, true);
  return bench.keys;
}
"""
_SPLIT = """
async key => {
  await jupyterapp.commands.execute('jaxtrain:open-log', { key, split: true });
}
"""
_EMPTY = """
async path => {
  const options = { mode: 'split-right' };
  await jupyterapp.commands.execute('docmanager:open', { path, options });
}
"""
_ALONE = """
() => [...jupyterapp.shell.widgets('main')]
  .filter(tab => !tab.context?.path.endsWith('.ipynb')).forEach(tab => tab.dispose())
"""
NOTEBOOK = json.dumps(
    {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        "cells": [
            {
                "cell_type": "code",
                "id": "a",
                "source": "",
                "metadata": {},
                "outputs": [],
                "execution_count": None,
            }
        ],
    }
)


def write(path: str) -> None:
    """Print as 256 ranks would, with the time in each line, until this process is ended."""
    directory = JobDir(path)
    with ExitStack() as stack, made_jobs.held(directory):
        files = [stack.enter_context(directory.log(rank).open("ab")) for rank in range(RANKS)]
        index = stack.enter_context(directory.log_index.open("ab", buffering=0))
        known = [file.tell() for file in files]
        began = indexed = time.time()
        written = 0
        print("writing", flush=True)
        while True:
            now = time.time()
            for number in range(written, int((now - began) * RATE)):
                files[number % RANKS].write(
                    b"[rank %3d] step %8d loss 0.123456 accuracy 0.987 written %.3f\n"
                    % (number % RANKS, number, now)
                )
            written = int((now - began) * RATE)
            for file in files:
                file.flush()
            if now - indexed >= _INDEX:
                indexed, lines = now, []
                for rank, file in enumerate(files):
                    if file.tell() > known[rank]:
                        known[rank] = file.tell()
                        lines.append(b"[%d, %d, %.3f]\n" % (rank, known[rank], now))
                index.write(b"".join(lines))
            time.sleep(max(0.0, now + _TICK - time.time()))


def follow(url: str) -> None:
    """Follow the log as a page does beside which somebody types, until this process is ended."""
    socket = websocket.create_connection(
        url.replace("http", "ws") + "jaxtrain/api/live",
        suppress_origin=True,
        header=[f"Authorization: token {TOKEN}"],
    )
    socket.send(json.dumps({"op": "open", "id": 1, "topic": "log", "key": "live"}))
    looked = 0.0
    while True:
        message = json.loads(socket.recv())
        if message["kind"] == "log" and time.monotonic() - looked >= _PACE:
            if not looked:
                print("following", flush=True)
            looked = time.monotonic()
            start = max(0, message["length"] - _SHOWN)
            socket.send(
                json.dumps({"op": "lines", "id": 2, "view": 1, "start": start, "count": _SHOWN})
            )


def _typed(tab: Tab) -> float:
    """Type into the empty cell; give the median ms from a key to its letter on the screen."""
    tab.page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click(
        position={"x": 4, "y": 4}  # not under the toolbar of the cell
    )
    tab.page.keyboard.press("Control+a")
    tab.page.keyboard.press("Delete")
    tab.page.wait_for_timeout(500)
    tab.evaluate(_KEY_TIMES)
    for number in range(_KEYS):
        tab.page.keyboard.press("abcdefg "[number % 8])
        tab.page.wait_for_timeout(30)
    tab.evaluate("bench.painted")
    return statistics.median(tab.evaluate(_KEYS_SEEN))


def _typed_beside(tab: Tab, script: str, what: str, selector: str) -> float:
    """Type while something stands beside the notebook, which is half as wide by it."""
    tab.evaluate(script, what)
    tab.page.wait_for_selector(selector)
    found = _typed(tab)
    tab.evaluate(_ALONE)
    return found


def _beside_nothing(tab: Tab) -> float:
    return _typed_beside(tab, _EMPTY, "empty.txt", ".jp-FileEditor .cm-content")


def _while_another_follows(server: Lab, tab: Tab) -> float:
    """Type beside an empty text; the server does the same work, for somebody else."""
    with child(__file__, "follow", server.url):
        return _beside_nothing(tab)


def measure(runs: int) -> Iterator[Measured]:
    """Follow a log of 10^6 lines that grows."""
    with lab() as server, chromium() as browser:
        yield from _measure(server, Tab(browser), runs)


def _measure(server: Lab, tab: Tab, runs: int) -> Iterator[Measured]:
    directory = big_job("live", "Running")
    (server.root / "typing.ipynb").write_text(NOTEBOOK)
    (server.root / "empty.txt").touch()
    # Before anybody looks: without its process the job counts as failed.
    with child(__file__, "write", str(directory.path)):
        tab.open(server)
        opened(tab, "live")
        free, ages = [], []
        for _ in range(runs):
            tab.evaluate(_AGES)
            free.append(100 * (1 - tab.busy(_SECONDS)))
            tab.evaluate("clearInterval(bench.timer)")
            ages.append(tab.evaluate("bench.ages"))
        alone = statistics.median(free)
        yield Measured(
            "20,000 lines/s: main thread free, %", alone, ">= 70", spread(free, "%"), alone >= 70
        )
        newest = [statistics.quantiles(one, n=20)[-1] for one in ages]
        every = [age for one in ages for age in one]
        yield within(
            "… age of the newest line, 19 of 20 times at most",
            newest,
            500,
            detail=f"median {statistics.median(every):.0f} ms, longest {max(every):.0f}",
        )
        tab.evaluate(CLOSE)
        tab.evaluate(
            "path => void jupyterapp.commands.execute('docmanager:open', { path })", "typing.ipynb"
        )
        tab.page.wait_for_selector(".jp-Notebook .jp-CodeCell .cm-content")
        beside, without, alone = in_turn(
            sized(4 * runs, 1),  # what is compared is a millisecond
            lambda: _typed_beside(tab, _SPLIT, "live", ".jaxtrain-log-row .jaxtrain-rank"),
            lambda: _while_another_follows(server, tab),
            lambda: _beside_nothing(tab),
        )
        ratio = ratio_of(beside, without)
        yield Measured(
            "… typing in a cell beside it, key to paint",
            ratio,
            "<= 1.05",
            f"beside it {spread(beside, 'ms')}, beside an empty text "
            f"{spread(without, 'ms')}; {spread(alone, 'ms')} where nobody follows",
            ratio <= 1.05,
        )


if __name__ == "__main__":
    if sys.argv[1:]:
        {"write": write, "follow": follow}[sys.argv[1]](sys.argv[2])
    for one in measure(1):
        print(one, flush=True)
