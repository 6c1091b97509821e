"""The name of a job that was deleted is free: the next job of that name is shown, not the first."""

from __future__ import annotations

from harness import submit
from playwright.sync_api import expect


def test_views_that_are_open_show_the_next_job_of_the_name(open_page):
    first = submit("print('the first one')", line="fit -n 1")
    first.wait(60)
    lab = open_page()
    lab.command("jaxtrain:open-job", key="fit")
    lab.command("jaxtrain:open-log", key="fit")
    view, log = lab.job("fit"), lab.log("fit")
    log.last_is("the first one")
    first.delete()
    expect(log.node).to_contain_text("Job 'fit' no longer exists")
    submit("print('the second one')\nprint('of two lines')", line="fit -n 1").wait(60)
    lab.command("jaxtrain:open-log", key="fit")
    log.last_is("of two lines")
    assert log.lines() == ["the second one", "of two lines"]
    lab.command("jaxtrain:open-job", key="fit")
    expect(view.get_by_role("group", name="Last lines")).to_contain_text("of two lines")
    expect(view).not_to_contain_text("the first one")
    expect(view).not_to_contain_text("longer exists")
