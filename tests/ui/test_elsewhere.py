"""Jobs as widgets where there is no extension: in marimo, and in a page without any kernel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import policy
import pytest
from harness import eventually, submit, wait_for
from playwright.sync_api import Page, Route, expect
from ports import free_port

from jupyter_jax_trainer import api
from jupyter_jax_trainer.messages import views as say
from jupyter_jax_trainer.widget.built import STATIC
from ui.cells import Job, is_state, moves
from ui.conftest import SIZE
from ui.labs import MEASURING, ROOT, Lab
from ui.looks import DARK, LIGHT
from ui.pages import LOAD, LabPage

SLOW = 60_000  # milliseconds
LAST = re.compile(r"count · Succeeded")

# Counts until the file is there.
COUNTING = """
import os, time
from jupyter_jax_trainer import report
print("first line")
number = 0
while not os.path.exists({end!r}):
    number += 1
    report(step=number, total=1000000, loss=1 / number)
    time.sleep(0.02)
print("all numbers")
"""

MARIMO = """
import marimo
app = marimo.App()

@app.cell
def _():
    import jupyter_jax_trainer
    return (jupyter_jax_trainer,)

@app.cell
def _(jupyter_jax_trainer):
    jupyter_jax_trainer.{shown}
    return
"""

Show = Callable[[str], Page]


@pytest.fixture(autouse=True)
def built() -> None:
    if not (STATIC / "job.js").exists():
        policy.skip_or_fail("labextension", "the widgets are not built: make labextension")


@pytest.fixture
def end(jobs_home: Path, tmp_path: Path) -> Iterator[Path]:
    end = tmp_path / "end"
    yield end
    end.touch()


@pytest.fixture
def page(browser: Any) -> Iterator[Page]:
    context = browser.new_context(viewport=SIZE)
    page = context.new_page()
    page.set_default_timeout(20_000)
    raised: list[str] = []
    page.on("pageerror", lambda error: raised.append(error.stack or str(error)))
    yield page
    context.close()
    assert not raised


# ---------------------------------------------------------------------------- marimo


@pytest.fixture
def in_marimo(page: Page, jobs_home: Path, tmp_path: Path) -> Iterator[Show]:
    """Give what shows an expression of this package as an app of marimo."""
    pytest.importorskip("marimo", reason="[marimo] marimo is not installed")
    servers: list[subprocess.Popen[bytes]] = []
    own = {
        **{name: str(tmp_path) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")},
        "XDG_STATE_HOME": str(tmp_path),
        "KUBECONFIG": str(tmp_path / "no-kubeconfig"),
    }

    def show(shown: str) -> Page:
        notebook, log, port = tmp_path / "notebook.py", tmp_path / "marimo.log", free_port()
        notebook.write_text(MARIMO.format(shown=shown))
        with log.open("ab") as output:
            server = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "marimo",
                    "run",
                    str(notebook),
                    "--headless",
                    "--no-token",
                    "--host=127.0.0.1",
                    f"--port={port}",
                ],
                env={**clean_environment(), **own},
                stdout=output,
                stderr=output,
                cwd=tmp_path,
            )
        servers.append(server)
        address = f"http://127.0.0.1:{port}"

        def is_up() -> bool:
            assert server.poll() is None, log.read_text()
            try:
                with urllib.request.urlopen(address, timeout=5) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        eventually(is_up)
        page.goto(address)
        return page

    yield show
    page.goto("about:blank")
    for server in servers:
        server.terminate()
        server.wait(20)


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in MEASURING}


def goes_on(view: Any) -> None:
    """Wait until a view of a running job has changed by itself."""
    progress = view.locator(".jaxtrain-job-summary-numbers")
    expect(progress).to_contain_text(re.compile(r"\d+/1000000"), timeout=SLOW)
    expect(progress).not_to_have_text(progress.text_content() or "", timeout=SLOW)


def test_a_job_in_marimo(in_marimo: Show, end: Path) -> None:
    job = submit(COUNTING.format(end=str(end)), line="-n 1")
    view = in_marimo(f"job({job.name!r}).widget()").locator(".jaxtrain-job-summary")
    expect(view.locator(".jaxtrain-state")).to_have_text("Running", timeout=SLOW)
    goes_on(view)
    expect(view.get_by_role("group", name="Last lines")).to_contain_text("first line")
    end.touch()
    expect(view.locator(".jaxtrain-state")).to_have_text("Succeeded", timeout=SLOW)
    expect(view.get_by_role("group", name="Last lines")).to_contain_text("all numbers")
    expect(view.get_by_role("img", name=re.compile("^loss is "))).to_be_visible()


def test_cancel_in_marimo(in_marimo: Show, end: Path) -> None:
    job = wait_for(submit(COUNTING.format(end=str(end)), line="-n 1"), "Running")
    page = in_marimo(f"job({job.name!r}).widget()")
    view = page.locator(".jaxtrain-job-summary")
    cancel = view.get_by_role("button", name="Cancel", exact=True)
    cancel.click(timeout=SLOW)
    asked = page.get_by_role("alertdialog")
    asked.get_by_role("button", name="Keep").click()
    expect(asked).to_have_count(0)
    goes_on(view)
    cancel.click()
    asked.get_by_role("button", name="Cancel Job").click()
    expect(view.locator(".jaxtrain-state")).to_have_text("Cancelled", timeout=SLOW)
    assert api.job(job.name).state == "Cancelled"


def test_the_panel_in_marimo(in_marimo: Show, end: Path) -> None:
    job = wait_for(submit(COUNTING.format(end=str(end)), line="-n 1"), "Running")
    panel = in_marimo("panel()").locator(".jaxtrain-panel")
    expect(panel.get_by_role("radio", name=re.compile("^local-cpu"))).to_be_visible(timeout=SLOW)
    panel.get_by_role("textbox", name="Nodes").fill("3")
    expect(panel.locator("pre", has_text="%%jaxtrain -n 3")).to_be_visible()
    # marimo has no cells that a line could go into.
    panel.get_by_role("button", name="Insert into the next cell").click()
    expect(panel.get_by_text(str(say.CANNOT_INSERT_CELL()))).to_be_visible()
    expect(panel.get_by_text("Copy the line above instead")).to_be_visible()

    row = panel.locator(f".jaxtrain-row[data-key='{job.name}']")
    expect(row.locator(".jaxtrain-state")).to_have_text("Running")
    row.click()
    state = panel.locator(".jaxtrain-job header .jaxtrain-state")
    expect(state).to_have_text("Running")
    panel.locator(".jaxtrain-job").get_by_role("button", name="Log", exact=True).first.click()
    rows = panel.locator(".jaxtrain-log-row")
    expect(rows.last).to_contain_text("first line")
    end.touch()
    expect(rows.last).to_contain_text("all numbers", timeout=SLOW)
    panel.get_by_role("button", name="← Back").click()
    expect(state).to_have_text("Succeeded")
    panel.get_by_role("button", name="← Back").click()
    expect(row.locator(".jaxtrain-state")).to_have_text("Succeeded")


# ---------------------------------------------------------------------------- without the extension


@pytest.fixture
def plain_lab(lab_server: Lab, open_page: Callable[..., LabPage]) -> Iterator[LabPage]:
    """Give a JupyterLab in which nothing of ours is but the Python package."""
    lab_server.disable("jupyter-jax-trainer")
    try:
        yield open_page()
    finally:
        lab_server.disable()


def test_a_cell_in_jupyterlab_without_the_extension(
    plain_lab: LabPage, job: Job, page: Page, tmp_path: Path
) -> None:
    """The widget while the job goes on; then a card that needs nothing, not even trust."""
    lab = plain_lab
    assert not lab.evaluate("() => window.jupyterapp.commands.hasCommand('jaxtrain:show-jobs')")
    lab.notebook("plain", LOAD, job.code())
    lab.run(0)
    lab.has_run(0)
    lab.run(1)
    view = lab.cell(1).locator(".jaxtrain-job-widget .jaxtrain-job-summary")
    is_state(view, "Running")
    moves(view)
    job.end()
    lab.has_run(1)
    expect(lab.cell(1)).to_contain_text(LAST)
    expect(view).to_have_count(0)
    lab.command("docmanager:save")

    saved = lab.server.root / "plain.ipynb"
    notebook = nbformat.read(saved, as_version=4)
    notebook.cells.append(nbformat.v4.new_markdown_cell("What was not run here is not trusted."))
    nbformat.write(notebook, saved.with_name("sent.ipynb"))
    lab.command("docmanager:open", path="sent.ipynb")
    lab.page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.context?.path === 'sent.ipynb'"
    )
    expect(lab.cell(1)).to_contain_text(LAST)
    trusted = "() => window.jupyterapp.shell.currentWidget.content.widgets[1].model.trusted"
    assert lab.evaluate(trusted) is False
    for theme in (DARK, LIGHT):
        lab.theme(theme)
        assert not lab.axe(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-RenderedHTML")

    from nbconvert import HTMLExporter

    body, _ = HTMLExporter().from_notebook_node(notebook)
    (tmp_path / "sent.html").write_text(body)
    without_network(page)
    page.goto((tmp_path / "sent.html").as_uri())
    expect(page.get_by_role("status")).to_contain_text(LAST)


# ---------------------------------------------------------------------------- html-manager


def test_a_saved_page_without_a_kernel(page: Page, jobs_home: Path, tmp_path: Path) -> None:
    """A notebook as nbconvert makes a page of it shows what the widget showed last."""
    job = submit(
        "from jupyter_jax_trainer import report\n"
        "for step in range(1, 11):\n"
        "    report(step=step, total=10, loss=1 / step)\n"
        "print('the last line')",
        line="-n 1",
    ).wait(60)
    (tmp_path / "saved.html").write_text(saved_page(job.name, tmp_path))
    refused = without_network(page)
    page.goto((tmp_path / "saved.html").as_uri())
    view = page.locator(".jaxtrain-job-summary")
    expect(view.locator(".jaxtrain-state")).to_have_text("Succeeded", timeout=SLOW)
    expect(view.locator(".jaxtrain-name")).to_have_text(job.name)
    expect(view.get_by_role("group", name="Last lines")).to_contain_text("the last line")
    expect(view.get_by_role("img", name=re.compile("^loss is 0.1 at step 10"))).to_be_visible()
    # There is nobody who could do anything.
    expect(view.get_by_role("button")).to_have_count(1)
    expect(view.get_by_role("button", name="Copy name")).to_be_visible()
    assert not [url for url in refused if "widget" in url], refused


def saved_page(name: str, folder: Path) -> str:
    """Run a notebook that shows a job's widget, and make a page of it."""
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter

    cell = nbformat.v4.new_code_cell(
        f"import jupyter_jax_trainer\njupyter_jax_trainer.job({name!r}).widget()"
    )
    notebook = nbformat.v4.new_notebook(cells=[cell])
    NotebookClient(
        notebook,
        kernel_name="python3",
        store_widget_state=True,
        resources={"metadata": {"path": str(folder)}},
    ).execute(env=clean_environment())
    body, _ = HTMLExporter().from_notebook_node(notebook)
    return str(body)


def without_network(page: Page) -> list[str]:
    """Return the page what it asks the network for from here; what else it asks is listed."""
    modules = ROOT / "labextension" / "node_modules"
    nbextension = Path(sys.prefix) / "share/jupyter/nbextensions/anywidget/index.js"
    here = {
        r"/require(\.min)?\.js$": modules / "requirejs/require.js",
        r"/@jupyter-widgets/html-manager@[^/]+/dist/embed-amd\.js$": modules
        / "@jupyter-widgets/html-manager/dist/embed-amd.js",
        r"/anywidget@[^/]+/dist/index\.js$": nbextension,
    }
    refused: list[str] = []

    def answer(route: Route) -> None:
        url = route.request.url
        for pattern, file in here.items():
            if re.search(pattern, url):
                route.fulfill(path=file, content_type="text/javascript")
                return
        refused.append(url)
        route.abort()

    page.route(re.compile("^https?:"), answer)
    return refused
