"""The wheel as a stranger has it: installed by pip, with the oldest JupyterLab and Notebook promised."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import other_python
import pytest
from playwright.sync_api import expect

from jupyter_jax_trainer import api
from ui.cells import Job, is_state, job_summary, moves
from ui.labs import NOTEBOOK, PAGE_TIMEOUT, PROMISED, Installed
from ui.pages import LOAD, LabPage, write_notebook

OpenPage = Callable[..., LabPage]

pytestmark = [pytest.mark.release, pytest.mark.timeout(other_python.INSTALL_S)]

NUMBERS = "for n in range(100):\n    print('number', n)"


def run(*command: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.sub(r"\x1b\[\d+m", "", done.stdout + done.stderr)


def test_jupyter_finds_it(wheel_python: Path, installed: Installed, tmp_path: Path) -> None:
    def ask(*command: str) -> str:
        return run(str(wheel_python), *command, cwd=tmp_path, env=installed.environment())

    listed = ask("-m", "jupyter", "labextension", "list")
    assert re.search(r"jupyter-jax-trainer .*enabled.* OK", listed), listed
    listed = ask("-m", "jupyter", "server", "extension", "list")
    assert re.search(r"^ +jupyter_jax_trainer\.server +enabled", listed, re.M), listed
    assert re.search(r"^ +jupyter_jax_trainer\.server +OK", listed, re.M), listed
    found = ask("-c", "import jupyter_jax_trainer; print(jupyter_jax_trainer.__file__)").strip()
    assert Path(found).is_relative_to(wheel_python.parents[1])
    static = Path(found).parent / "widget" / "static"
    assert {"job.js", "job.css", "panel.js", "panel.css"} <= {
        path.name for path in static.iterdir()
    }


def test_a_cell_in_jupyterlab(installed: Installed, open_page: OpenPage, job: Job) -> None:
    lab = open_page(installed)
    assert lab.evaluate("() => window.jupyterapp.version") == PROMISED
    told = "() => JSON.parse(document.getElementById('jupyter-config-data').textContent)"
    assert lab.evaluate(told)["jaxtrainPageTimeout"] == str(PAGE_TIMEOUT)
    _, _, code = job.code().partition("\n")  # the line is for the picker to write
    lab.notebook("stranger", LOAD, code)
    lab.run(0)
    lab.has_run(0)
    lab.cell(1).click()
    lab.command("jaxtrain:show-runtimes")
    lab.picker.get_by_role("radio", name=re.compile("^local-cpu")).click()
    lab.picker.get_by_role("button", name="Insert").click()
    expect(lab.cell(1)).to_contain_text("%%jaxtrain -r local-cpu")
    lab.picker.get_by_role("button", name="Run cell").click()
    view = job_summary(lab.cell(1))
    is_state(view, "Running")
    moves(view)
    job.end()
    is_state(view, "Succeeded")

    (done,) = api.jobs()
    lab.command("jaxtrain:show-jobs")
    expect(lab.row(done.name).locator(".jaxtrain-state")).to_have_text("Succeeded")
    lab.row(done.name).click()
    shown = lab.job(done.name)
    expect(shown.locator(".jaxtrain-plots canvas").first).to_be_visible()
    shown.get_by_role("button", name="Log", exact=True).first.click()
    assert lab.log(done.name).lines() == ["first line", "all numbers"]


def test_a_cell_in_notebook_7(installed: Installed, open_page: OpenPage) -> None:
    write_notebook(installed.root / "seven.ipynb", LOAD, f"%%jaxtrain -r local-cpu\n{NUMBERS}")
    page = open_page(installed, "notebooks/seven.ipynb")
    assert page.evaluate("() => window.jupyterapp.version") == NOTEBOOK
    page.kernel_is("idle")
    for number in (0, 1):
        page.run(number)
        page.has_run(number)
    is_state(job_summary(page.cell(1)), "Succeeded")
    (job,) = api.jobs()
    page.command("jaxtrain:show-jobs")
    page.row(job.name).click()
    page.job(job.name).get_by_role("button", name="Log", exact=True).first.click()
    assert page.log(job.name).lines() == [f"number {n}" for n in range(100)]
