"""The README's commands in a fresh clone on a machine without Node, and what they show."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import policy
import pytest
import without_node
from harness import eventually
from playwright.sync_api import expect

from ui.cells import SLOW, button, is_state, job_summary
from ui.conftest import picture
from ui.labs import ROOT
from ui.pages import LabPage

pytestmark = [pytest.mark.release, pytest.mark.timeout(1800)]

EXPOSED = {"expose_app_in_browser": True}  # tests wait for `window.jupyterapp`
QUIET = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}


class Made:
    """The server that `make lab` has started."""

    def __init__(self, runtime: Path) -> None:
        # Not jpserver-PID-open.html, which stands beside it: that page opens no notebook.
        self.opens = eventually(
            lambda: [
                f for f in runtime.glob("jpserver-file-to-run-*-open.html") if f.stat().st_size
            ],
            120,
        )[0]
        told = json.loads(next(runtime.glob("jpserver-*.json")).read_text())
        self.root = Path(told["root_dir"])
        self._url = told["url"]

    def page_url(self, path: str, _port: int | None = None) -> str:
        """Return what a browser is told to open, whatever is asked for."""
        return self.opens.as_uri() if path else self._url


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    if not (ROOT / ".git").exists():
        policy.skip_or_fail("git", "this is no clone")
    subprocess.run(["git", "clone", "--quiet", ROOT, tmp_path / "clone"], check=True)
    return tmp_path / "clone"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Give the variables of somebody new here; of what lies around only pip's cache is used."""
    config = tmp_path / "config"
    (config / "labconfig").mkdir(parents=True)
    (config / "jupyter_lab_config.json").write_text(json.dumps({"LabApp": EXPOSED}))
    (config / "labconfig" / "page_config.json").write_text(json.dumps(QUIET))
    (tmp_path / "home").mkdir()
    cache = os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))
    own = {
        "HOME": str(tmp_path / "home"),
        "PIP_CACHE_DIR": cache,
        "JUPYTER_CONFIG_DIR": str(config),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "run"),
        "BROWSER": "true",  # the test opens the page
    }
    kept = without_node.environment(tmp_path / "programs")
    ours = ("JAXTRAIN_", "JUPYTER_", "PYTEST_", "VIRTUAL_ENV")
    return {name: value for name, value in kept.items() if not name.startswith(ours)} | own


def make(target: str, clone: Path, environment: dict[str, str]) -> list[str]:
    return ["make", "-C", str(clone), target, f"PYTHON={Path(sys.executable).resolve()}"]


@contextlib.contextmanager
def lab_of(clone: Path, environment: dict[str, str], log: Path) -> Iterator[Made]:
    """Run `make lab`."""
    with log.open("wb") as out:
        running = subprocess.Popen(
            make("lab", clone, environment),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield Made(Path(environment["JUPYTER_RUNTIME_DIR"]))
    finally:
        os.killpg(running.pid, signal.SIGTERM)
        running.wait(30)


def test_the_readme_without_node(
    clone: Path, environment: dict[str, str], browser: Any, tmp_path: Path, request: Any
) -> None:
    done = subprocess.run(
        make("quickstart", clone, environment), env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "accuracy on 360 images that it has never seen: 9" in done.stdout

    with lab_of(clone, environment, tmp_path / "lab.log") as made:
        context = browser.new_context(viewport={"width": 1600, "height": 1000})
        lab = LabPage(context, made)  # type: ignore[arg-type]
        try:
            the_quick_start(lab)
        finally:
            picture(lab, request)
            context.close()


def the_quick_start(lab: LabPage) -> None:
    """Run the notebook that is open, and look at the job in all views."""
    lab.open()
    page = lab.page
    page.get_by_role("tab", name="JAX Training", exact=True).click()
    expect(lab.row("digits")).to_be_visible()  # that of `make quickstart`
    lab.cell(0).click()  # the menu is that of the notebook in front
    lab.kernel_is("idle")
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    view = job_summary(page.locator(".jp-NotebookPanel"))
    expect(view.locator(".jaxtrain-job-summary-numbers")).to_contain_text(
        re.compile(r"\d+/300"), timeout=SLOW
    )
    is_state(view, "Succeeded")
    button(view, "Open").click()
    shown = lab.job("digits-2")  # the cell's name, once more
    shown.get_by_role("button", name="Log", exact=True).first.click()
    expect(page.locator(".jaxtrain-log-list")).to_contain_text("2 processes with 4 devices")
