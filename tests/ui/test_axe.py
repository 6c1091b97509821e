"""Nothing is against the rules of accessibility, in whatever view or state, in every theme."""

from __future__ import annotations

import re

import pytest
from harness import eventually, submit, wait_for
from playwright.sync_api import expect

from jupyter_jax_trainer import api
from ui.looks import DARK, HIGH_CONTRAST, LIGHT, runs
from ui.pages import LabPage

JOBS, PICKER = "#jaxtrain-panel", "#jaxtrain-runtimes"
# What is ours in JupyterLab's menus and dialogs; lines between the items of a menu are not.
MENU, ASKED = ".lm-Menu-item[data-type=command]", ".jp-Dialog-body"
MACHINE = re.compile(r"^CPU \d+ % · memory [\d.]+ of [\d.]+ GiB$")
STANDING, CARD = ".jaxtrain-standing-button", ".jp-LauncherCard[title*='training' i]"


def is_fine(lab: LabPage, *views: str) -> None:
    found = []
    for theme in (DARK, LIGHT):
        lab.theme(theme)
        for view in views:
            expect(lab.page.locator(view).first).to_be_visible()
            found += [f"{view} in {theme}: {each}" for each in lab.axe(view)]
    assert not found, "\n".join(found)


def job_of(key: str) -> str:
    return f"[id='jaxtrain-job-{key}'] .jaxtrain"


def log_of(key: str) -> str:
    return f"[id='jaxtrain-log-{key}'] .jaxtrain"


@pytest.fixture
def running(jobs_home, tmp_path):
    """Give the name of a job that runs; another one has printed nothing."""
    end = tmp_path / "end"
    submit("x = 1", line="prints-nothing -n 1").wait(60)
    job = wait_for(submit(runs(end), line="goes-on -n 2"), "Running")
    eventually(lambda: {point["rank"] for point in job.metrics()} == {0, 1})
    yield job.name
    end.touch()


def test_what_is_opened_within_views(running, open_page):
    lab = open_page(viewport={"width": 1600, "height": 1000})
    lab.command("jaxtrain:show-jobs")
    lab.command("jaxtrain:open-job", key=running)
    lab.command("jaxtrain:open-log", key=running, split=True)
    job, log = lab.job(running), lab.log(running)
    for name in ("Choose", "Compare"):
        job.get_by_role("button", name=name, exact=True).click()
    job.get_by_role("checkbox", name=re.compile("^prints-nothing")).check()
    expect(job.get_by_role("button", name="Remove prints-nothing")).to_be_visible()
    expect(log.rows.last).to_contain_text("step")
    log.list.focus()
    lab.keys("Home", "Enter")
    expect(log.node.get_by_role("region", name="Full line")).to_be_visible()
    is_fine(lab, job_of(running), log_of(running))
    log.list.focus()
    lab.keys("?")
    expect(log.node.get_by_role("dialog", name="Keys")).to_be_visible()
    is_fine(lab, log_of(running))
    lab.keys("Escape")

    row = lab.row(running)
    row.hover()
    row.get_by_role("button", name="Actions for").click()
    expect(lab.page.get_by_role("menuitem", name="Copy Name")).to_be_visible()
    is_fine(lab, MENU, JOBS)
    lab.keys("Escape")
    for key, word in ((running, "Cancel"), ("prints-nothing", "Delete")):
        lab.row(key).click(button="right")
        lab.page.get_by_role("menuitem", name=f"{word}…").click()
        expect(lab.page.locator(ASKED)).to_be_visible()
        is_fine(lab, ASKED)
        lab.page.get_by_role("button", name="Keep").click()


def test_with_high_contrast(running, open_page):
    lab = open_page(viewport={"width": 1600, "height": 1000})
    lab.theme(HIGH_CONTRAST)
    lab.command("jaxtrain:show-jobs")
    lab.command("jaxtrain:open-job", key=running)
    lab.command("jaxtrain:open-log", key=running, split=True)
    expect(lab.log(running).rows.last).to_contain_text("step")
    found = [each for view in (JOBS, job_of(running), log_of(running)) for each in lab.axe(view)]
    lab.command("jaxtrain:show-runtimes")
    lab.picker.get_by_role("button", name="More").wait_for()
    assert not found + lab.axe(PICKER)


def test_what_stands_among_things_of_jupyterlab(running, lab):
    lab.command("launcher:create")
    is_fine(lab, STANDING, CARD)


def test_what_is_used_of_this_machine_in_the_status_bar(lab):
    expect(lab.page.locator(STANDING)).to_have_text(MACHINE)
    is_fine(lab, STANDING)
    lab.theme(HIGH_CONTRAST)
    assert not lab.axe(STANDING)


def test_where_there_is_nothing(running, open_page):
    lab = open_page(viewport={"width": 1600, "height": 1000})
    lab.command("jaxtrain:show-jobs")
    lab.jobs.get_by_role("searchbox").fill("nothing is called so")
    expect(lab.jobs.get_by_text("No matching jobs")).to_be_visible()
    lab.command("jaxtrain:open-job", key="prints-nothing")
    job = lab.job("prints-nothing")
    job.get_by_role("button", name="Compare", exact=True).click()
    job.get_by_role("searchbox").fill("nothing is called so")
    expect(job.get_by_text("No matching jobs")).to_be_visible()
    expect(job.get_by_text("No metrics yet")).to_be_visible()
    lab.command("jaxtrain:open-log", key="prints-nothing", split=True)
    expect(lab.log("prints-nothing").node).to_contain_text("No output")
    is_fine(lab, JOBS, job_of("prints-nothing"), log_of("prints-nothing"))

    lab.command("jaxtrain:open-log", key=running)
    log = lab.log(running).node
    log.get_by_role("searchbox", name="Search the log").fill("never printed")
    expect(log.get_by_text("no matches")).to_be_visible()
    is_fine(lab, log_of(running))
    log.get_by_role("button", name="filter").click()
    log.get_by_role("searchbox", name="with", exact=True).fill("never printed")
    lab.keys("Enter")
    expect(log.get_by_text("No matching lines")).to_be_visible()
    is_fine(lab, log_of(running))


def test_no_jobs_at_all(lab):
    lab.command("jaxtrain:show-jobs")
    expect(lab.jobs.get_by_text("No jobs yet")).to_be_visible()
    is_fine(lab, JOBS)


def test_jobs_that_are_gone(jobs_home, open_page):
    lab = open_page(viewport={"width": 1600, "height": 1000})
    lab.allow("404")
    submit("print(1)", line="goes -n 1").wait(60)
    lab.command("jaxtrain:open-job", key="goes")
    lab.command("jaxtrain:open-log", key="goes", split=True)
    expect(lab.log("goes").rows.last).to_contain_text("1")
    api.job("goes").delete()
    lab.command("jaxtrain:open-job", key="never-was", split=True)
    lab.command("jaxtrain:open-log", key="never-was", split=True)
    views = [job_of("goes"), job_of("never-was"), log_of("never-was")]
    for view in views:
        expect(lab.page.locator(view).get_by_role("alert")).to_contain_text("This cannot be shown")
    is_fine(lab, *views)
    lab.command("jaxtrain:open-log", key="goes")
    is_fine(lab, log_of("goes"))


def test_a_page_whose_server_does_not_answer(lab):
    lab.allow("Failed to load resource", "WebSocket")
    opened = []

    def pass_on(socket) -> None:
        opened.append(socket)
        socket.connect_to_server()

    def refuse(socket) -> None:
        socket.close()

    live = re.compile("/jaxtrain/api/live")
    lab.page.route_web_socket(live, pass_on)
    lab.reload()
    lab.command("jaxtrain:show-jobs")
    expect(lab.jobs.get_by_text("No jobs yet")).to_be_visible()
    lab.page.route(re.compile("/jaxtrain/api/"), lambda route: route.abort())
    lab.page.route_web_socket(live, refuse)
    opened[-1].close()
    expect(lab.jobs.get_by_text("Disconnected")).to_be_visible()
    is_fine(lab, JOBS)
    lab.reload()
    lab.command("jaxtrain:show-jobs")
    expect(lab.jobs.get_by_role("alert")).to_contain_text("is not responding")
    is_fine(lab, JOBS)
    lab.command("jaxtrain:show-runtimes")
    expect(lab.picker.get_by_role("alert")).to_contain_text("is not responding")
    is_fine(lab, PICKER)


def test_the_picker_with_all_that_can_be_open(lab, silent):
    lab.allow("503")  # of the cluster that does not answer
    lab.notebook("axe", "1 + 1")
    lab.command("jaxtrain:show-runtimes")
    picker = lab.picker
    picker.locator(".jaxtrain-summary").click()
    picker.get_by_role("button", name="Details of local-cpu").click()
    picker.get_by_role("button", name="More").click()
    for label, text in (
        ("Nodes", "four"),
        ("Result variables", "loss[0]"),
        ("Cores per node", "many"),
    ):
        picker.get_by_label(label, exact=True).fill(text)
    expect(picker.locator(".jaxtrain-errors p")).to_have_count(3)
    is_fine(lab, PICKER)
    picker.get_by_label("Run on").select_option(label="kubernetes · far-away (current)")
    expect(picker.locator(".jaxtrain-health")).to_have_text("Querying the cluster…")
    is_fine(lab, PICKER)
    silent.close()
    picker.locator(".jaxtrain-summary").click(timeout=60_000)
    expect(picker.get_by_role("button", name="Check again")).to_have_count(2)
    is_fine(lab, PICKER)
