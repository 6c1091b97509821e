"""Five hundred jobs in the list."""

from __future__ import annotations

import contextlib
import re
import time

import pytest
from made_jobs import make_job, running_job
from playwright.sync_api import expect

from jupyter_jax_trainer.jobdir import files

STATES = ("Succeeded", "Failed", "Cancelled", "Succeeded", "Succeeded")
LONGEST = "() => Math.max(0, ...window.__tasks)"


@pytest.fixture
def many(jobs_home):
    """Make 500 jobs, of which ten run; give those."""
    now = time.time()
    for number in range(490):
        state = STATES[number % len(STATES)]
        reason = "rank 1: KeyError: 'labels'" if state == "Failed" else None
        make_job(f"sweep-{number}", state, created=now - 3600 - number, reason=reason)
    with contextlib.ExitStack() as jobs:
        yield [
            jobs.enter_context(running_job(f"live-{number}", created=now - number))
            for number in range(10)
        ]


def change(directory, **fields):
    files.write_json(directory.state, {**directory.read_state(), **fields})


def test_the_list_of_500_jobs(many, open_page):
    lab = open_page()
    lab.evaluate(
        """() => {
            window.__tasks = [];
            new PerformanceObserver(list => {
                window.__tasks.push(...list.getEntries().map(entry => entry.duration));
            }).observe({ type: 'longtask' });
        }"""
    )
    lab.command("jaxtrain:show-jobs")
    panel, rows = lab.jobs, lab.jobs.locator(".jaxtrain-row")
    expect(panel.locator(".jaxtrain-head")).to_contain_text("500 jobs")
    expect(rows.first).to_contain_text("live-0")

    # It goes on as one scrolls, to the oldest one.
    last = lab.row("sweep-489")
    panel.hover()
    for _ in range(200):
        if last.count() and last.bounding_box()["y"] < 880:
            break
        lab.page.mouse.wheel(0, 2000)
        lab.evaluate("() => new Promise(done => requestAnimationFrame(() => done(true)))")
    expect(last).to_be_in_viewport()
    expect(rows).to_have_count(500)

    # Words and states.
    search = panel.get_by_role("searchbox")
    search.fill("sweep-12")
    expect(rows).to_have_count(11)  # 12, and 120 to 129
    panel.get_by_role("button", name=re.compile("^Failed")).click()
    expect(rows).to_have_count(2)  # 121 and 126
    search.fill("labels")
    expect(panel.locator(".jaxtrain-head")).to_contain_text("98 of 500")
    search.fill("no such job")
    panel.get_by_role("button", name="Show all").click()
    expect(panel.locator(".jaxtrain-head")).to_contain_text("500 jobs")

    # What changes is shown, and nothing else moves.
    progress = {"step": 77, "total": 100, "fraction": 0.77, "metrics": {}, "time": time.time()}
    change(many[3], progress=progress)
    expect(lab.row("live-3")).to_contain_text("77 %")
    change(many[4], state="Succeeded", history=[{"state": "Succeeded", "time": time.time()}])
    expect(lab.row("live-4").locator(".jaxtrain-state")).to_have_text("Succeeded")
    make_job("new-one", created=time.time())
    expect(rows.first).to_contain_text("new-one")
    expect(panel.locator(".jaxtrain-head")).to_contain_text("501 jobs")
    assert lab.evaluate(LONGEST) < 1000  # milliseconds, however busy the machine is
