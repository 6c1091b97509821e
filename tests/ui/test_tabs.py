"""Two tabs of the browser, and two views of a job: each shows everything."""

from __future__ import annotations

from harness import eventually, submit, wait_for
from playwright.sync_api import expect

CODE = """import os, time
from jupyter_jax_trainer import report
number = 0
while not os.path.exists({end!r}):
    print(f"number {{number}}")
    report(step=number, half=number / 2)
    number += 1
    time.sleep(0.05)
print("all numbers", number)
"""


def test_two_tabs_show_the_same_job(open_page, tmp_path):
    end = tmp_path / "end"
    first = open_page()
    job = submit(CODE.format(end=str(end)), line="-n 1")
    wait_for(job, "Running")
    # The second one has a workspace of its own, as JupyterLab gives a tab.
    second = open_page(beside=first, path="lab/workspaces/other?reset")
    tabs = (first, second)
    for lab in tabs:
        lab.command("jaxtrain:show-jobs")
        lab.command("jaxtrain:open-job", key=job.name)
        lab.command("jaxtrain:open-log", key=job.name, split=True)
        expect(lab.row(job.name).locator(".jaxtrain-state")).to_have_text("Running")
        expect(lab.log(job.name).rows.last).to_contain_text("number")
    # What is done to the log in one tab is not done in the other one.
    log = first.log(job.name)
    log.node.get_by_role("searchbox").fill("number 3")
    expect(log.rows.locator("mark").first).to_be_visible()
    log.node.get_by_role("searchbox").fill("n[^a]m.*r [3]")  # where it matches the server says
    log.node.get_by_role("button", name="Regular expression", exact=True).click()
    expect(log.rows.locator("mark").first).to_have_text("number 3")
    log.node.get_by_role("button", name="filter").click()
    log.node.get_by_role("searchbox", name="without", exact=True).fill("number 1")
    first.keys("Enter")
    assert second.log(job.name).rows.locator("mark").count() == 0
    eventually(lambda: len(job.metrics()) > 40)
    end.touch()
    for lab in tabs:
        lab.page.bring_to_front()  # a tab at the back draws nothing
        expect(lab.row(job.name).locator(".jaxtrain-state")).to_have_text("Succeeded")
        view = lab.job(job.name)
        expect(view.locator("header .jaxtrain-state")).to_have_text("Succeeded")
        expect(view.locator(".jaxtrain-plots canvas")).to_be_visible()
        lab.log(job.name).list.press("End")  # the search has let go
        lab.log(job.name).last_is("all numbers")
    lines = [line.text for line in job.logs()]
    assert second.log(job.name).lines() == lines
    first.page.bring_to_front()
    assert first.log(job.name).lines() == [line for line in lines if "number 1" not in line]
