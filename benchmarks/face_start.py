"""What the extension costs before it is used: JupyterLab's start, and the size of its files."""

from __future__ import annotations

import gzip
import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from browser import BUILT, ROOT, Lab, Tab, chromium, lab, within
from common import Measured, in_turn, sized, spread

_WIDGET = ROOT / "jupyter_jax_trainer/widget/static"
# A text that only the code of a part has, not the style of all of them.
_LATER = {"plots": b"u-legend", "the log viewer": b"Search the log"}

_RESTORED = """
(() => {
  let app;
  Object.defineProperty(window, 'jupyterapp', {
    configurable: true,
    get: () => app,
    set: given => {
      app = given;
      void app.restored.then(() => { bench.restored = performance.now(); });
    }
  });
})();
"""


def started(tab: Tab, server: Lab) -> float:
    """Load the page; give the ms from the start of the navigation until JupyterLab is there."""
    tab.page.goto("about:blank")
    tab.page.goto(server.page)
    tab.page.wait_for_function("window.bench?.restored")
    return float(tab.evaluate("bench.restored"))


def _tab(browser: Any) -> Tab:
    tab = Tab(browser)
    tab.page.add_init_script(_RESTORED)
    return tab


def _loaded(tab: Tab) -> list[Path]:
    """Return the files of the extension that the page has loaded so far."""
    names = tab.evaluate(
        "performance.getEntriesByType('resource').map(entry => new URL(entry.name).pathname)"
    )
    part = "/lab/extensions/jupyter-jax-trainer/"
    return [BUILT / name.partition(part)[2] for name in names if part in name]


def _compressed(path: Path) -> float:
    return len(gzip.compress(path.read_bytes(), mtime=0)) / 1e3


def _built() -> list[Path]:
    folders = [BUILT, _WIDGET] if _WIDGET.exists() else [BUILT]
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


def measure(runs: int) -> Iterator[Measured]:
    """Start JupyterLab with and without the extension in turn."""
    yield within("all built files, compressed", [sum(map(_compressed, _built()))], 300, "kB")
    with lab() as server, lab(extension=False) as plain, chromium() as browser:
        tab, other = _tab(browser), _tab(browser)
        ours, theirs = in_turn(
            sized(max(21, runs), 1), partial(started, tab, server), partial(started, other, plain)
        )
        assert not _loaded(other)
        loaded = _loaded(tab)
    more = statistics.median(a - b for a, b in zip(ours, theirs, strict=True))
    yield Measured(
        "JupyterLab's start, ms more with the extension",
        more,
        "<= 50",
        f"with it {spread(ours, 'ms')}, without {spread(theirs, 'ms')}",
        more <= 50,
    )
    parts = {
        name: [path for path in BUILT.rglob("*.js") if mark in path.read_bytes()]
        for name, mark in _LATER.items()
    }
    assert all(parts.values()), parts
    early = [name for name, paths in parts.items() if {*paths} & {*loaded}]
    yield Measured(
        "parts loaded at the start that could wait",
        len(early),
        "0",
        f"{', '.join(early) or 'none'}; {len(loaded)} files, "
        f"{sum(map(_compressed, loaded)):.1f} kB compressed",
        not early,
    )


if __name__ == "__main__":
    for one in measure(21):
        print(one, flush=True)
