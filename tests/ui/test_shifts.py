"""Nothing jumps while views are opened and filled, nor while a page brings them back."""

from __future__ import annotations

import re

import pytest
from harness import eventually, submit, wait_for
from playwright.sync_api import expect

from jupyter_jax_trainer import api
from ui.looks import nothing_jumped, reload_watching_shifts, runs, watch_shifts
from ui.pages import LOAD, LabPage

RUNNING, ENDED = "goes-on", "has-ended"
KEYS = (RUNNING, ENDED)
# Side by side or below each other: what a job's view has in its columns.
WIDTHS = [1600, pytest.param(1000, marks=pytest.mark.release)]
ENDS = {"Succeeded": "", "Failed": "raise ValueError('it ends badly')"}


@pytest.fixture
def jobs(jobs_home, tmp_path):
    """Have a job that runs, and one that has ended."""
    end = tmp_path / "end"
    submit(runs("", steps=50), line=f"{ENDED} -n 2").wait(60)
    running = submit(runs(end), line=f"{RUNNING} -n 2")
    wait_for(running, "Running")
    eventually(lambda: {point["rank"] for point in running.metrics()} == {0, 1})
    yield
    end.touch()


def goes_on() -> None:
    """Let what a view shows now and then come twice or more."""
    before = len(list(api.job(RUNNING).metrics()))
    eventually(lambda: len(list(api.job(RUNNING).metrics())) > before + 150)


def job_is_full(lab: LabPage, key: str) -> None:
    job = lab.job(key)
    expect(job.locator(".jaxtrain-plots canvas")).to_have_count(2)
    expect(job.locator("tr[data-rank]")).to_have_count(2)
    expect(job.get_by_role("button", name="Choose", exact=True)).to_be_visible()
    expect(job.locator(".jaxtrain-events li").first).to_be_visible()


def log_is_full(lab: LabPage, key: str) -> None:
    log = lab.log(key)
    expect(log.rows.last).to_contain_text("step")
    expect(log.node.get_by_role("button", name="Only rank 1")).to_be_visible()


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_jumps_while_views_are_opened(jobs, open_page, width):
    lab = open_page(viewport={"width": width, "height": 1000})
    watch_shifts(lab)
    lab.command("jaxtrain:show-jobs")
    expect(lab.jobs.locator(".jaxtrain-row")).to_have_count(2)
    for key in KEYS:
        lab.command("jaxtrain:open-job", key=key)
        job_is_full(lab, key)
        goes_on()
        lab.command("jaxtrain:open-log", key=key)
        log_is_full(lab, key)
        goes_on()
    nothing_jumped(lab, f"[id='jaxtrain-log-{ENDED}'] .jaxtrain-log")


GOES = """
import os, time
from jupyter_jax_trainer import report
def wait(what):
    while not os.path.exists(f"{folder}/{{what}}"): time.sleep(0.05)
wait("report")
for step in range(20): report(step + 1, 20, loss=1 / (step + 1))
print("step", flush=True)
wait("end")
{last}
kept = [1.0]
"""


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("width", [*WIDTHS, 700])
def test_nothing_jumps_while_a_job_goes_from_its_begin_to_its_end(
    jobs, open_page, tmp_path, width, end
):
    code = GOES.format(folder=tmp_path, last=ENDS[end])
    running = wait_for(submit(code, line="goes -n 2 -o kept"), "Running")
    lab = open_page(viewport={"width": width, "height": 1200})
    lab.command("jaxtrain:show-jobs")
    lab.command("jaxtrain:open-job", key=running.name)
    job, state = lab.job(running.name), lab.row(running.name).locator(".jaxtrain-state")
    expect(job.get_by_role("group", name="Results")).to_contain_text("when the job ends")
    expect(state).to_have_text("Running")
    watch_shifts(lab)
    (tmp_path / "report").touch()
    expect(job.locator(".jaxtrain-plots canvas")).to_have_count(1)
    expect(lab.row(running.name).get_by_role("progressbar")).to_be_visible()
    expect(job.get_by_role("group", name="Last lines").get_by_text("step")).to_have_count(2)
    (tmp_path / "end").touch()
    expect(state).to_have_text(end)
    if end == "Succeeded":
        expect(job.get_by_role("group", name="Results")).to_contain_text("1 came back")
    else:
        expect(job.get_by_role("group", name="Failure")).to_contain_text("it ends badly")
    expect(job.locator(".jaxtrain-progress")).to_contain_text("20/20")
    nothing_jumped(lab, f"[id='jaxtrain-job-{running.name}'] .jaxtrain-job")


@pytest.mark.parametrize(
    ("kept", "end", "width"),
    [
        (" -o kept", "Succeeded", 1400),
        ("", "Succeeded", 1400),
        ("", "Failed", 1400),
        ("", "Failed", 700),
    ],
)
def test_the_cells_below_stay_where_they_are_when_a_job_ends(open_page, tmp_path, kept, end, width):
    lab = open_page(viewport={"width": width, "height": 1000})
    # Detached, for the traceback of a cell that waits is JupyterLab's to show, below the job.
    detach = " --detach" if end == "Failed" else ""
    cell = f"%%jaxtrain -n 2{kept}{detach}\n{GOES.format(folder=tmp_path, last=ENDS[end])}"
    lab.notebook("below", LOAD, cell, "print('the next')")
    lab.run(0)
    lab.run(1)
    card = lab.cell(1).locator(".jaxtrain-job-summary")
    (tmp_path / "report").touch()
    expect(card.locator(".jaxtrain-spark")).to_be_visible(timeout=60_000)
    expect(card).to_contain_text("20/20")
    # A cell that waits prints the line of rank 0 itself.
    lines = card.get_by_role("group", name="Last lines").get_by_text("step")
    expect(lines).to_have_count(2 if detach else 1)
    if not detach:
        expect(lab.cell(1).locator(".jp-OutputArea-output").last).to_contain_text("step")
    top = "element => element.getBoundingClientRect().top"
    watch_shifts(lab)
    before = lab.cell(2).evaluate(top)
    (tmp_path / "end").touch()
    expect(card.locator(".jaxtrain-state")).to_have_text(end)
    lab.has_run(1)
    assert lab.cell(2).evaluate(top) == before
    nothing_jumped(lab, ".jaxtrain-job-summary")


@pytest.mark.parametrize("key", KEYS)
def test_nothing_jumps_while_a_page_brings_views_back(jobs, open_page, key):
    lab = open_page(path=f"lab/workspaces/{key}?reset", viewport={"width": 1600, "height": 1000})
    lab.command("jaxtrain:show-jobs")
    lab.command("jaxtrain:open-job", key=key)
    lab.command("jaxtrain:open-log", key=key, split=True)
    kept = lab.server.page_url(f"lab/api/workspaces/{key}")
    eventually(lambda: f"jaxtrain-log-{key}" in lab.page.request.get(kept).text())
    expect(lab.page).not_to_have_url(re.compile("reset"))  # or it would forget them again
    reload_watching_shifts(lab)
    expect(lab.jobs.locator(".jaxtrain-row")).to_have_count(2)
    job_is_full(lab, key)
    log_is_full(lab, key)
    goes_on()
    nothing_jumped(lab, f"[id='jaxtrain-job-{key}'] .jaxtrain-job")
