"""The keys of `labextension/schema`, pressed, and its entry in the menu of a cell."""

from __future__ import annotations

from harness import eventually, submit
from playwright.sync_api import expect

from ui.pages import LOAD


def test_each_shortcut_does_what_it_says(lab):
    job = submit("print('a last line')", line="-n 1").wait(60)
    lab.notebook("keys", "1 + 1", "2 + 2")
    code = lab.cell(0).locator(".cm-content")
    code.click()
    lab.keys("Alt+Shift+X")
    eventually(lambda: lab.source(0) == "%%jaxtrain\n1 + 1")

    # The menu is that of the cell under the mouse, whichever was the active one.
    expect(lab.cell(0)).to_contain_text("%%jaxtrain")
    lab.cell(1).locator(".cm-content").click(button="right")
    lab.page.get_by_role("menuitem", name="Make This Cell a Training Job").click()
    eventually(lambda: lab.source(1) == "%%jaxtrain\n2 + 2")
    assert lab.source(0) == "%%jaxtrain\n1 + 1"
    hint = lab.page.locator(".Toastify__toast", has_text="Run %load_ext jupyter_jax_trainer once")
    expect(hint).to_have_count(1)  # for two cells of a notebook
    hint.get_by_role("button", name="Insert Cell").click()
    expect(lab.cell(2)).to_contain_text("2 + 2")
    eventually(lambda: lab.source(1) == LOAD)

    expect(lab.jobs).to_be_hidden()
    code.click()
    lab.keys("Alt+Shift+J")
    expect(lab.row(job.name)).to_be_visible()
    expect(lab.jobs.locator(":focus")).to_have_count(1)

    lab.keys("Alt+Shift+L")
    lab.log(job.name).last_is("a last line")
    expect(lab.log(job.name).list).to_be_focused()
