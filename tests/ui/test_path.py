"""From a runtime to a cancelled job in JupyterLab: by the mouse, and by the keyboard."""

from __future__ import annotations

import re

import pytest
from harness import eventually
from playwright.sync_api import expect

from jupyter_jax_trainer import api
from ui.pages import LOAD

CODE = """import time
from jupyter_jax_trainer import report
for step in range(2000):
    report(step=step, total=2000, loss=1 / (step + 1))
    print(f"step {step} of 2000")
    time.sleep(0.05)
"""


def the_job():
    """Return the name of the job that has been started."""
    return eventually(api.jobs)[0].name


def goes_on(lab, key):
    """The list and the view of a running job change by themselves."""
    expect(lab.row(key).locator(".jaxtrain-state")).to_have_text("Running", timeout=60_000)
    progress = lab.job(key).locator(".jaxtrain-progress")
    expect(progress).to_contain_text(re.compile(r"\d+/2000"))
    before = progress.inner_text()
    expect(progress).not_to_have_text(before)
    values = lab.job(key).locator(".jaxtrain-legend").first
    expect(values).to_contain_text(re.compile(r"\d"))
    before = values.inner_text()
    expect(values).not_to_have_text(before)
    rows = lab.log(key).rows
    expect(rows.last).to_contain_text(re.compile(r"step \d+ of 2000"))
    before = rows.last.inner_text()
    expect(rows.last).not_to_have_text(before)


def is_cancelled(lab, key):
    expect(lab.row(key).locator(".jaxtrain-state")).to_have_text("Cancelled", timeout=30_000)
    expect(lab.job(key).locator("header .jaxtrain-state")).to_have_text("Cancelled")
    expect(lab.log(key).status).not_to_contain_text("following")
    assert api.job(key).state == "Cancelled"


def test_with_the_mouse(lab):
    lab.notebook("mouse", LOAD, CODE)
    page = lab.page
    lab.cell(0).click()
    page.get_by_role("button", name=re.compile("Run this cell and advance")).click()
    lab.has_run(0)

    # The picker writes the line, and runs the cell.
    lab.cell(1).click()
    page.get_by_role("tab", name="Runtimes for JAX Training").click()
    picker = lab.picker
    expect(picker.get_by_text("this cell has no %%jaxtrain line")).to_be_visible()
    picker.get_by_role("radio", name=re.compile("^local-cpu")).click()
    picker.get_by_role("button", name="Insert").click()
    expect(lab.cell(1)).to_contain_text("%%jaxtrain -r local-cpu")
    assert lab.source(1) == f"%%jaxtrain -r local-cpu\n{CODE}"
    picker.get_by_role("button", name="Run cell").click()

    # The job comes into the list, its view is a click away, and its log another one.
    page.get_by_role("tab", name="JAX Training", exact=True).click()
    key = the_job()
    lab.row(key).click()
    lab.job(key).get_by_role("button", name="Log", exact=True).first.click()
    goes_on(lab, key)

    # Words to search are typed; all else is clicked.
    log = lab.log(key)
    search = log.node.get_by_role("searchbox")
    search.click()
    page.keyboard.type("step 7 of")
    expect(log.node.locator(".jaxtrain-log-count")).to_have_text("1 of 1")
    expect(log.rows.locator("mark")).to_have_text("step 7 of")
    log.node.get_by_role("button", name="↓ follow").click()
    log.status.get_by_text("following").wait_for()

    cancel = lab.job(key).get_by_role("button", name="Cancel")
    cancel.click()
    page.get_by_role("dialog").get_by_role("button", name="Keep").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert api.job(key).state == "Running"
    cancel.click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel Job").click()
    is_cancelled(lab, key)
    lab.job(key).get_by_role("button", name="Notebook", exact=True).click()
    expect(lab.cell(1)).to_contain_text(f"Job '{key}' was cancelled")


@pytest.mark.slow
def test_with_the_keyboard(lab):
    lab.notebook("keys", LOAD, CODE)
    page, picker = lab.page, lab.picker
    lab.keys("Shift+Enter")
    lab.has_run(0)

    # From the form, by Tab and arrows, to a line and a run.
    lab.palette("Show Training Runtimes")
    expect(picker.get_by_text("this cell has no %%jaxtrain line")).to_be_visible()
    lab.tab_to(picker.get_by_role("radio", name=re.compile("^Automatic")))
    lab.keys("ArrowDown", "Enter")
    expect(picker.locator(".jaxtrain-choice[aria-checked=true]")).to_contain_text("local-cpu")
    lab.tab_to(picker.get_by_role("button", name="Insert"))
    lab.keys("Enter")
    run = picker.get_by_role("button", name="Run cell")
    expect(run).to_be_focused()  # it has taken the place of the other one
    expect(picker.get_by_text("in sync")).to_be_visible()
    assert lab.source(1) == f"%%jaxtrain -r local-cpu\n{CODE}"
    lab.keys("Enter")
    key = the_job()

    # Down from the filter into the list, Enter to the view, and from there to the log.
    lab.palette("Show Training Jobs")
    lab.row(key).wait_for()
    expect(lab.jobs.locator(":focus")).to_have_count(1)
    lab.keys("ArrowDown", "Enter")
    lab.tab_to(lab.job(key).get_by_role("button", name="Log", exact=True).first)
    lab.keys("Enter")
    log = lab.log(key)
    expect(log.list).to_be_focused()
    goes_on(lab, key)
    lab.keys("/")
    page.keyboard.type("step 7 of")
    expect(log.node.locator(".jaxtrain-log-count")).to_have_text("1 of 1")
    lab.keys("ArrowDown")
    expect(log.list).to_be_focused()
    expect(log.list.locator("[aria-selected=true]")).to_contain_text("step 7 of")
    lab.keys("f")
    expect(log.status).to_contain_text("following")

    lab.palette("Show Training Jobs")
    expect(lab.jobs.locator(":focus")).to_have_count(1)
    lab.keys("ArrowDown", "Delete", "Enter")  # Enter is "Keep"
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert api.job(key).state == "Running"
    expect(lab.row(key)).to_be_focused()
    lab.keys("Shift+F10", *["ArrowDown"] * 5)  # Open, Open Log, Open Notebook, Copy Name
    expect(page.locator(".lm-Menu-item.lm-mod-active")).to_have_text("Cancel…")
    lab.keys("Enter")
    lab.tab_to(page.get_by_role("button", name="Cancel Job"))
    lab.keys("Enter")
    is_cancelled(lab, key)
