"""In Notebook 7: list, job, log and picker are there, in the places that it has."""

from __future__ import annotations

import pytest
from harness import eventually, submit
from playwright.sync_api import expect

from jupyter_jax_trainer import api
from ui.counting import AWAY, NAME, SILENT, Counting, cells
from ui.labs import Notebook7
from ui.pages import LOAD, write_notebook


@pytest.fixture(scope="module")
def notebook7(ui_home, tmp_path_factory):
    pytest.importorskip("notebook", reason="[notebook7] notebook is not installed")
    server = Notebook7(tmp_path_factory.mktemp("notebook7"), ui_home)
    yield server
    server.stop()


def copied(page) -> str:
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    return page.evaluate("() => navigator.clipboard.readText()")


def test_list_job_and_log(notebook7, open_page):
    code = "%%jaxtrain -r local-cpu\nfor n in range(100):\n    print('number', n)"
    write_notebook(notebook7.root / "seven.ipynb", LOAD, code)
    page = open_page(server=notebook7, path="notebooks/seven.ipynb")
    page.kernel_is("idle")
    page.run(0)
    page.has_run(0)
    page.run(1)
    page.has_run(1)
    (job,) = api.jobs()

    page.command("jaxtrain:show-jobs")
    expect(page.row(job.name).locator(".jaxtrain-state")).to_have_text("Succeeded")
    page.row(job.name).click()
    view = page.job(job.name)
    expect(view.locator("header .jaxtrain-state")).to_have_text("Succeeded")
    expect(view).to_be_in_viewport()
    view.get_by_role("button", name="Log", exact=True).first.click()
    log = page.log(job.name)
    log.last_is("number 99")
    expect(log.list).to_be_in_viewport()
    assert log.lines() == [f"number {n}" for n in range(100)]

    # A link to a line, as somebody else follows it.
    line = log.rows.nth(3)
    text = line.locator(".jaxtrain-log-text").inner_text()
    line.click()
    page.keys("Enter")
    log.node.get_by_role("button", name="Copy link").click()
    link = eventually(lambda: "jaxtrain-log=" in (read := copied(page)) and read)
    assert "notebooks/seven.ipynb?" in link
    other = open_page(server=notebook7, path=link.partition("/hub/user/jo/")[2])
    expect(other.log(job.name).list.locator("[data-current] .jaxtrain-log-text")).to_have_text(text)


def test_the_output_of_a_cell(notebook7, open_page, tmp_path):
    end = tmp_path / "end"
    code = f"""%%jaxtrain seven -r local-cpu
import os, time
from jupyter_jax_trainer import report
number = 0
while not os.path.exists({str(end)!r}):
    number += 1
    report(step=number, total=1000000, loss=1 / number)
    time.sleep(0.02)
print("all numbers")
"""
    write_notebook(notebook7.root / "output.ipynb", LOAD, code)
    page = open_page(server=notebook7, path="notebooks/output.ipynb")
    page.kernel_is("idle")
    page.run(0)
    page.has_run(0)
    page.run(1)
    view = page.cell(1).locator(".jaxtrain-job-summary")
    state = view.locator(".jaxtrain-state")
    expect(state).to_have_text("Running", timeout=60_000)
    view.get_by_role("button", name="Detach").click()
    page.has_run(1)
    page.command("docmanager:save")
    page.reload()
    numbers = view.locator(".jaxtrain-job-summary-numbers")
    expect(numbers).to_contain_text("/1000000", timeout=60_000)
    expect(numbers).not_to_have_text(numbers.text_content())
    expect(state).to_have_text("Running")
    view.get_by_role("button", name="Open").click()
    expect(page.job("seven").locator("header .jaxtrain-state")).to_be_in_viewport()
    end.touch()
    expect(state).to_have_text("Succeeded", timeout=60_000)
    expect(view.get_by_role("group", name="Last lines")).to_contain_text("all numbers")


@pytest.mark.timeout(300)
@pytest.mark.release
def test_a_job_goes_on_while_kernel_page_and_server_come_and_go(notebook7, open_page, tmp_path):
    end = tmp_path / "end"
    write_notebook(notebook7.root / f"{NAME}.ipynb", *cells(end))

    def opened():
        page = open_page(server=notebook7, path=f"notebooks/{NAME}.ipynb", own=True)
        page.allow(*AWAY)
        page.kernel_is("idle")
        return page

    page = opened()
    job = Counting(page, end)
    job.lives()

    page.restart_kernel()
    job.sees_more()
    job.lives()

    page.page.context.close()
    job.prints_more()
    job.shown_in(opened())
    job.lives()

    notebook7.stop()
    for view in (job.log.node, job.card):
        expect(view).to_contain_text(SILENT)
    job.prints_more()
    notebook7.start()
    job.sees_more()
    job.check()


def test_the_picker_writes_into_the_cell(notebook7, open_page):
    write_notebook(notebook7.root / "pick.ipynb", "1 + 1")
    page = open_page(server=notebook7, path="notebooks/pick.ipynb")
    page.kernel_is("idle")
    page.command("jaxtrain:show-runtimes")
    page.picker.get_by_role("textbox", name="Nodes").fill("2")
    page.picker.get_by_role("button", name="Insert").click()
    expect(page.cell(0)).to_contain_text("%%jaxtrain -n 2")


def test_the_tree_page_has_the_list(notebook7, open_page):
    job = submit("print(1)", line="-n 1").wait(60)
    page = open_page(server=notebook7, path="tree")
    page.command("jaxtrain:show-jobs")
    expect(page.row(job.name)).to_be_visible()
