"""A JupyterLab of its own and a headless Chromium: what the benchmarks of the pages share."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import Measured, spread
from needs import Missing

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))
import made_jobs  # noqa: E402
from ports import free_port  # noqa: E402

__all__ = ["Lab", "Tab", "chromium", "find", "lab", "made_jobs", "within"]
BUILT = ROOT / "jupyter_jax_trainer/labextension"
TOKEN = "a-token-of-the-benchmarks"
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
)

# What measurements need in every page. A message comes right after the frame that was asked for.
_TOOLS = """
window.bench = {
  painted: () => new Promise(done => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => done(performance.now());
    port2.postMessage(0);
  })),
  until: test => new Promise(done => {
    if (test()) { done(); return; }
    const observer = new MutationObserver(() => {
      if (test()) { observer.disconnect(); done(); }
    });
    observer.observe(document.documentElement,
      { subtree: true, childList: true, characterData: true, attributes: true });
  }),
  watch: each => {
    const stamps = [];
    let going = true;
    const frame = now => {
      stamps.push(now);
      each?.();
      if (going) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    bench.stop = () => { going = false; return stamps; };
  }
};
"""


def find() -> str:
    """Return the path of Chromium, or raise `Missing` when something is not here."""
    try:
        import jupyterlab  # noqa: F401
        import playwright.sync_api  # noqa: F401
    except ImportError as error:
        raise Missing(f"there is no {error.name}: pip install jupyterlab playwright") from None
    if not (BUILT / "package.json").exists():
        raise Missing("the JupyterLab extension is not built: make labextension")
    if named := os.environ.get("JAXTRAIN_CHROMIUM"):
        return named
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise Missing("there is no chromium: apt-get install chromium")


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab server; `home` is its job home, `root` where its notebooks are."""

    url: str
    pid: int
    home: Path
    root: Path

    @property
    def page(self) -> str:
        return f"{self.url}lab?token={TOKEN}&reset"

    def cpu(self) -> float:
        """Return the seconds of CPU that the server's process has taken."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def lab(*, extension: bool = True) -> Iterator[Lab]:
    """Start JupyterLab with nothing but this extension, or with none."""
    with tempfile.TemporaryDirectory(prefix="jaxtrain-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        extensions, home, root = (folder / part for part in ("extensions", "jobs", "notebooks"))
        for path in (extensions, home, root, folder / "config/labconfig"):
            path.mkdir(parents=True)
        if extension:
            (extensions / "jupyter-jax-trainer").symlink_to(BUILT)
        (folder / "config/labconfig/page_config.json").write_text(
            '{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}'
        )
        (folder / "config/jupyter_lab_config.json").write_text(
            json.dumps(
                {
                    "LabApp": {
                        "expose_app_in_browser": True,
                        "labextensions_path": [str(extensions)],
                    },
                }
            )
        )
        port = free_port()
        environment = {
            **os.environ,
            "HOME": name,
            "JAXTRAIN_HOME": str(home),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "run"),
            "KUBECONFIG": str(folder / "no-kubeconfig"),
        }
        before = os.environ.get("JAXTRAIN_HOME")
        os.environ["JAXTRAIN_HOME"] = str(home)  # jobs are made there by this process
        with (folder / "lab.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "jupyterlab",
                    "--no-browser",
                    "--allow-root",
                    "--ip=127.0.0.1",
                    f"--port={port}",
                    "--ServerApp.port_retries=0",
                    f"--IdentityProvider.token={TOKEN}",
                    f"--ServerApp.root_dir={root}",
                    "--ServerApp.jpserver_extensions="
                    f"{{'jupyter_jax_trainer.server': {extension}}}",
                ],
                env=environment,
                stdout=log,
                stderr=log,
                cwd=folder,
            )
        try:
            url = f"http://127.0.0.1:{port}/"
            _wait(f"{url}api/status?token={TOKEN}", process, folder / "lab.log")
            yield Lab(url, process.pid, home, root)
        finally:
            process.terminate()
            process.wait(30)
            if before is None:
                del os.environ["JAXTRAIN_HOME"]
            else:
                os.environ["JAXTRAIN_HOME"] = before


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while True:
        with suppress(OSError), urllib.request.urlopen(url, timeout=10):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()}")
        time.sleep(0.1)


class Tab:
    """A page, and what Chromium says of it."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        # Scroll bars are there to be dragged.
        self._context = browser.new_context(viewport={"width": 1280, "height": 900})
        self.page = self._context.new_page()
        self.page.set_default_timeout(180_000)
        self.page.add_init_script(_TOOLS)
        self.cdp = self._context.new_cdp_session(self.page)
        self.cdp.send("Performance.enable")

    def open(self, lab: Lab) -> None:
        """Show JupyterLab, and wait until it is all there and rests."""
        self.page.goto(lab.page)
        self.page.wait_for_function("window.jupyterapp")
        self.page.evaluate("jupyterapp.restored.then(() => bench.painted())")
        self.page.wait_for_load_state("networkidle")

    def evaluate(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def metric(self, name: str) -> float:
        found = self.cdp.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in found if one["name"] == name))

    def heap(self) -> float:
        """Return the MB that JavaScript holds, after its garbage was collected."""
        for _ in range(2):  # what the first one finalises goes with the second one
            self.cdp.send("HeapProfiler.collectGarbage")
        return self.metric("JSHeapUsedSize") / 1e6

    def processes(self) -> list[int]:
        """Return the processes in which pages are."""
        session = self._browser.new_browser_cdp_session()
        found = session.send("SystemInfo.getProcessInfo")["processInfo"]
        session.detach()
        return [process["id"] for process in found if process["type"] == "renderer"]

    def memory(self) -> float:
        """Return the MB that only processes of pages have: JavaScript, documents and buffers."""
        self.heap()
        total = 0
        for pid in self.processes():
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += sum(map(int, re.findall(r"^Private_\w+: +(\d+)", text, re.M)))
        return total / 1e3

    def busy(self, seconds: float) -> float:
        """Return which part of the next seconds the main thread works."""
        before, began = self.metric("TaskDuration"), time.perf_counter()
        self.page.wait_for_timeout(seconds * 1e3)
        return (self.metric("TaskDuration") - before) / (time.perf_counter() - began)

    def close(self) -> None:
        self._context.close()


@contextmanager
def chromium() -> Iterator[Any]:
    """Start a browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find(), args=_ARGUMENTS, ignore_default_args=["--hide-scrollbars"]
        )
        try:
            yield browser
        finally:
            browser.close()


def within(
    name: str, values: list[float], most: float | None, unit: str = "ms", detail: str = ""
) -> Measured:
    """Hold the median against a bound; without one it is only said."""
    middle = statistics.median(values)
    return Measured(
        f"{name}, {unit}",
        middle,
        "none" if most is None else f"<= {most:g}",
        ", ".join(filter(None, [spread(values, unit), detail])),
        most is None or middle <= most,
    )


@contextmanager
def child(*words: str) -> Iterator[None]:
    """Have a Python process, from the first line that it says on."""
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
