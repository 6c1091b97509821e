"""The log viewer beside what people have: the output of a cell, a react-window list, xterm.js.

The others get the whole log into the page, each in a page of its own; jlpm installs them.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from browser import ROOT, Lab, Tab, chromium, lab, made_jobs
from common import Measured, ratio_of, sized, spread
from face_live import NOTEBOOK
from face_log import SEARCH, big_job, opened
from log_pages import LINES, NEEDLE, RANKS
from needs import Missing

from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.logs.reader import MergedReader

_HERE = Path(__file__).parent / "viewers"
_LIMIT = 120.0  # seconds after which somebody would have closed the page
_APPENDS, _ENOUGH = sized(20, 2), 10_000  # times, or until so many ms are gone

_LAST = """
async text => {
  const list = document.querySelector('.jaxtrain-log-list');
  await bench.until(() =>
    [...list.querySelectorAll('.jaxtrain-log-row')].at(-1).textContent.includes(text));
  await bench.painted();
}
"""

Figures = dict[str, float]  # ms to load, ms of work for 200 lines more, MB, ms to search


def _added(number: int) -> str:
    return "".join(f"line {number} {n} that came later, loss 0.123456\n" for n in range(200))


@contextmanager
def _pages(directory: JobDir) -> Iterator[str]:
    """Serve the viewers and the log of a job, in which lines of all ranks are merged."""
    with tempfile.TemporaryDirectory(prefix="jaxtrain-bench-") as name:
        folder = Path(shutil.copytree(_HERE, name, dirs_exist_ok=True))
        _bundle(folder)
        with (folder / "log.txt").open("w") as file:
            lines = MergedReader(directory, range(RANKS), raw=True).read()
            file.writelines(f"{line.text}\n" for line in lines)
        handler = functools.partial(_Handler, directory=name)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_address[1]}/"
            server.shutdown()


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Files that JupyterLab's page may have, too."""

    def end_headers(self) -> None:
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()

    def log_message(self, *_args: object) -> None:
        pass


def find_tools() -> dict[str, str]:
    """Return variables by which jlpm and the bundler are found, or raise `Missing`."""
    asked = [sys.executable, ROOT / "labextension/build.py", "run", "printenv", "PATH"]
    path = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    path += f"{os.pathsep}{ROOT / 'labextension/node_modules/.bin'}"
    if not all(shutil.which(tool, path=path) for tool in ("node", "jlpm", "rolldown")):
        raise Missing("the other viewers need jlpm and rolldown: make labextension/node_modules")
    return {**os.environ, "PATH": path}


def _bundle(folder: Path) -> None:
    environment = find_tools()
    (folder / "yarn.lock").touch()  # a project of its own
    (folder / ".yarnrc.yml").write_text("nodeLinker: node-modules\nenableScripts: false\n")
    subprocess.run(
        ["jlpm", "install", "--no-immutable"],
        cwd=folder,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    for name in ("react-window", "xterm"):
        subprocess.run(
            [
                "rolldown",
                f"{name}.js",
                "--format",
                "iife",
                "--platform",
                "browser",
                "--minify",
                "--transform.define",
                "process.env.NODE_ENV:'production'",
                "--file",
                f"built/{name}.js",
            ],
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
        )
        (folder / f"{name}.html").write_text(
            "<!doctype html><meta charset=utf-8>"
            '<link rel="stylesheet" href="/node_modules/@xterm/xterm/css/xterm.css">'
            f'<body><script src="/built/{name}.js"></script>'
        )


@contextmanager
def _patience(tab: Tab) -> Iterator[None]:
    """End a page that takes too long; what waits for it fails then."""
    timer = threading.Timer(_LIMIT, lambda: [os.kill(pid, signal.SIGKILL) for pid in pids])
    pids = tab.processes()
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _figures(tab: Tab, url: str, count: int, memory: float) -> Figures:
    """Return a viewer as many of the lines, then some more; search."""
    asked = """async ([url, count]) => {
      const began = performance.now();
      const text = await (await fetch(url + 'log.txt')).text();
      let at = text.length;
      if (count) for (at = 0; count--; at++) at = text.indexOf('\\n', at);
      const length = await viewer.load(text.slice(0, at));
      return [performance.now() - began, length];
    }"""
    with _patience(tab):
        load, length = tab.evaluate(asked, [url, count if count < LINES else 0])
    assert length >= count, length
    work: list[float] = []
    while len(work) < _APPENDS and sum(work) < _ENOUGH:
        before = tab.metric("TaskDuration")
        tab.evaluate("text => viewer.append(text)", _added(len(work)))
        work.append(1e3 * (tab.metric("TaskDuration") - before))
    grown = tab.memory() - memory
    word = NEEDLE if count >= LINES else "line 0 7 that came later"
    search = """async word => {
      const began = performance.now();
      const found = await viewer.search(word);
      return [performance.now() - began, found];
    }"""
    with _patience(tab):
        took, found = tab.evaluate(search, word)
    assert found >= 1, found
    return {"load": load, "append": statistics.median(work), "memory": grown, "search": took}


def _bare(name: str, url: str) -> Figures:
    with chromium() as browser:
        tab = Tab(browser)
        tab.page.goto("about:blank")
        memory = tab.memory()
        tab.page.goto(f"{url}{name}.html")
        return _figures(tab, url, LINES, memory)


def _output(server: Lab, url: str, count: int) -> Figures:
    with chromium() as browser:
        tab = Tab(browser)
        tab.open(server)
        tab.evaluate("jupyterapp.commands.execute('docmanager:open', { path: 'output.ipynb' })")
        tab.page.wait_for_selector(".jp-Notebook .jp-CodeCell .cm-content")
        memory = tab.memory()
        tab.evaluate((_HERE / "output.js").read_text())
        return _figures(tab, url, count, memory)


def _ours(server: Lab, directory: JobDir) -> Figures:
    with chromium() as browser:
        tab = Tab(browser)
        tab.open(server)
        memory = tab.memory()
        _, load = opened(tab, directory.path.name)
        ends = [directory.log(0).stat().st_size]
        work = []
        for number in range(_APPENDS):
            before = tab.metric("TaskDuration")
            with directory.log(0).open("a") as log, directory.log_index.open("a") as index:
                ends.append(ends[-1] + log.write(_added(number)))
                log.flush()
                index.write(f"[0, {ends[-1]}, {time.time():.3f}]\n")
            tab.evaluate(_LAST, f"line {number} 199 that")
            work.append(1e3 * (tab.metric("TaskDuration") - before))
        grown = tab.memory() - memory
        search = tab.evaluate(SEARCH, NEEDLE)["all"]
        return {"load": load, "append": statistics.median(work), "memory": grown, "search": search}


def measure(runs: int) -> Iterator[Measured]:
    """Yield each viewer the same log, in turn."""
    with lab() as server:
        directory = big_job("beside", "Running")
        (server.root / "output.ipynb").write_text(NOTEBOOK)
        with made_jobs.held(directory), _pages(directory) as url:
            borne = sized(_borne, _all)(lambda count: _output(server, url, count))
            ours = sized(_ours, functools.cache(_ours))
            others: dict[str, Callable[[], Figures]] = {
                f"a cell's output, {borne:,} lines": lambda: _output(server, url, borne),
                "react-window": lambda: _bare("react-window", url),
                "xterm.js": lambda: _bare("xterm", url),
            }
            found: dict[str, list[tuple[Figures, Figures]]] = {name: [] for name in others}
            for _ in range(runs):
                for name, other in others.items():
                    found[name].append((ours(server, directory), other()))
    for name, pairs in found.items():
        yield from _compared(name, pairs)


def _borne(output: Callable[[int], Any]) -> int:
    """Find how many lines the output of a cell bears: it is shown before one loses patience."""
    from playwright.sync_api import Error

    most = 0
    for count in (10_000, 100_000, LINES):
        with contextlib.suppress(Error):
            output(count)
            most = count
        if most != count:
            break
    assert most, "not even the fewest"
    return most


def _all(_output: Callable[[int], Any]) -> int:
    return LINES


def _compared(name: str, pairs: list[tuple[Figures, Figures]]) -> Iterator[Measured]:
    for what, words, unit in (
        ("load", "shown", "ms"),
        ("append", "main thread's work for 200 lines more", "ms"),
        ("memory", "memory", "MB"),
        ("search", "searched", "ms"),
    ):
        ours, theirs = ([figures[what] for figures in side] for side in zip(*pairs, strict=True))
        ratio = ratio_of(ours, theirs)
        yield Measured(
            f"{words}, against {name}",
            ratio,
            "none",
            f"ours {spread(ours, unit)}, theirs {spread(theirs, unit)}",
            True,
        )


if __name__ == "__main__":
    for one in measure(1):
        print(one, flush=True)
