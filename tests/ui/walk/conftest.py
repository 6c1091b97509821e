"""A stranger's walk through every view: with the mouse alone, and with the keyboard alone.

What they walk through is the installed wheel, with the oldest JupyterLab promised.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import other_python
import pytest
from harness import submit
from made_jobs import make_job
from playwright.sync_api import expect

from jupyter_jax_trainer import api
from jupyter_jax_trainer.errors import JobFailed
from jupyter_jax_trainer.jobdir import files
from ui.conftest import SIZE, failed, picture
from ui.labs import Installed
from ui.pages import LabPage, write_notebook
from ui.walk.hands import HANDS

TRAINED = """import jax
from jupyter_jax_trainer import report
for step in range(100):
    report(step=step, loss=1 / (step + 1), accuracy=1 - 1 / (step + 1))
    print(f"step {step} of 100")
print("long", "x" * 5000, "end of the line")
print("A last line")
loss = 0.01
"""
STUMBLED = """import jax
print("step 1")
if jax.process_index() == 1:
    {}["labels"]
"""
NOWHERE = {
    "clusters": [{"name": "far", "cluster": {"server": "http://127.0.0.1:9"}}],
    "contexts": [{"name": "far", "context": {"cluster": "far", "user": "me"}}],
    "users": [{"name": "me", "user": {}}],
    "current-context": "far",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(other_python.INSTALL_S))


@pytest.fixture(scope="package")
def jobs_of_walks(ui_home: Path, installed: Installed) -> Iterator[None]:
    """Make what the walks come across: a job that trained, one that failed, and old ones."""
    from jupyter_jax_trainer.jobdir import layout

    installed.kubeconfig.write_text(json.dumps(NOWHERE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXTRAIN_HOME", str(ui_home))
        patch.setenv("JAXTRAIN_CORES", "64")
        failing = submit(STUMBLED, line="stumbled -n 2")
        submit(TRAINED, line="trained -n 2 -o loss").wait(60)
        with pytest.raises(JobFailed):
            failing.wait(60)
        for name in HANDS:
            make_job(f"old-{name}", "Cancelled", created=1.7e9)
            write_notebook(installed.root / f"of-{name}.ipynb", "1", "2", "3")
            manifest = layout.JobDir(layout.jobs_directory() / f"old-{name}").manifest
            origin = {"notebook": str(installed.root / f"of-{name}.ipynb"), "cell": "cell-2"}
            files.write_json(manifest, {**json.loads(manifest.read_text()), "origin": origin})
        yield
        for job in api.jobs():
            if job.active:
                job.cancel()
            job.delete()
    installed.kubeconfig.unlink()


@pytest.fixture(scope="package", params=list(HANDS))
def walker(
    request: pytest.FixtureRequest, browser: Any, installed: Installed, jobs_of_walks: None
) -> Iterator[Any]:
    """Give a hand, with a page that all its walks have."""
    context = browser.new_context(viewport=SIZE)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    lab = LabPage(context, installed)
    lab.allow("502", "503")  # of clusters that refuse, or do not answer
    # JupyterLab's own, of notebooks that are closed soon.
    lab.allow(
        "Could not restore the debugger state", r"'promise'\)\s+at \S+\.invoke \(\S+jlab_core"
    )
    lab.open()
    # JupyterLab opens one itself when it has listed the files, which may take the focus from a menu.
    lab.command("launcher:create")
    yield HANDS[request.param](lab)
    context.close()


@pytest.fixture
def hand(walker: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give a hand, and look in the end that it was no other and that the page is well."""
    for command in ("docmanager:save-all", "application:close-all"):
        walker.lab.command(command)
    expect(walker.lab.page.locator(".jp-Launcher")).to_be_visible()  # in place of what was closed
    yield walker
    if failed(request):
        picture(walker.lab, request)
    else:
        walker.check()
        walker.lab.check()


@pytest.fixture
def lab(hand: Any) -> Any:
    return hand.lab
