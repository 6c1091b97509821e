"""The keys of `labextension/schema`, pressed."""

from __future__ import annotations

from harness import eventually, submit
from playwright.sync_api import expect


def test_each_shortcut_does_what_it_says(lab):
    job = submit("print('a last line')", line="-n 1").wait(60)
    lab.notebook("keys", "1 + 1")
    code = lab.cell(0).locator(".cm-content")
    code.click()
    lab.keys("Alt+Shift+X")
    eventually(lambda: lab.source(0) == "%%jaxtrain\n1 + 1")

    expect(lab.jobs).to_be_hidden()
    code.click()
    lab.keys("Alt+Shift+J")
    expect(lab.row(job.name)).to_be_visible()
    expect(lab.jobs.locator(":focus")).to_have_count(1)

    lab.keys("Alt+Shift+L")
    lab.log(job.name).last_is("a last line")
    expect(lab.log(job.name).list).to_be_focused()
