"""Sessions in JupyterLab: in the list, in a view of their own, in the card of a cell, in the picker."""

from __future__ import annotations

import re

import pytest
from harness import submit
from playwright.sync_api import Locator, expect

from ui.looks import DARK, LIGHT, beyond, nothing_jumped, watch_shifts
from ui.pages import LOAD, LabPage

FIRST = """%%jaxtrain -s lab -n 2
import jax.numpy as jnp
from jupyter_jax_trainer import report
weights = jnp.ones((512, 512))
step, gone = 0, jnp.ones(8)
gone.delete()"""
RUNS = """import os, time
while not os.path.exists({go!r}): time.sleep(0.02)
for step in range(100_000):
    report(step=step, total=100_000, loss=1.0)
    time.sleep(0.02)"""
FAILS = "%%jaxtrain -s lab\n{}['labels']"
VIEWS = ("#jaxtrain-panel", "[id='jaxtrain-job-lab'] .jaxtrain", ".jaxtrain-output")


@pytest.fixture
def lab(open_page) -> LabPage:
    """Give a page with a notebook whose first cell has started a session."""
    page = open_page(viewport={"width": 1600, "height": 1000})
    page.command("jaxtrain:show-jobs")
    page.notebook("sessions", LOAD, FIRST, FAILS, "seven = 7")
    for number in (0, 1):
        page.run(number)
        page.has_run(number)
    return page


def rows_of(view: Locator, part: str) -> Locator:
    return view.locator(f"[data-section={part}] tbody tr")


def is_fine(lab: LabPage, *views: str) -> None:
    found = []
    for theme in (DARK, LIGHT):
        lab.theme(theme)
        found += [f"{view} in {theme}: {each}" for view in views for each in lab.axe(view)]
    assert not found, "\n".join(found)


def test_a_session_from_its_first_cell_to_its_end(lab, tmp_path):
    go = tmp_path / "go"
    # The card leads to the session, in which its cell and its variables are.
    card = lab.cell(1).locator(".jaxtrain-job-summary")
    card.get_by_role("button", name="session lab").click()
    view = lab.job("lab")
    expect(rows_of(view, "cells")).to_have_count(1)
    expect(rows_of(view, "variables")).to_have_count(4)
    expect(rows_of(view, "variables").first).to_contain_text(re.compile("weights.*1 MB"))
    view.get_by_role("button", name="Variable", exact=True).click()
    expect(rows_of(view, "variables").first).to_contain_text("deleted")
    expect(view.locator(".jaxtrain-progress")).to_contain_text("ends in 29 m")
    expect(rows_of(view, "ranks").first).to_contain_text("MB")

    # Nothing moves from the first report of a cell to its end.
    lab.run(2)
    expect(lab.row("lab-cell-2")).to_contain_text("KeyError", timeout=60_000)
    submit(RUNS.format(go=str(go)), line="-s lab")
    expect(view.locator(".jaxtrain-progress")).to_contain_text("runs lab-cell-3")
    expect(rows_of(view, "cells").first).to_contain_text("Running")
    watch_shifts(lab)
    go.touch()
    expect(lab.row("lab").locator(".jaxtrain-reason")).to_have_text("runs lab-cell-3")
    expect(lab.row("lab-cell-3").get_by_role("progressbar")).to_be_visible()
    view.get_by_role("button", name="Interrupt").click()
    expect(rows_of(view, "cells").first).to_contain_text("Cancelled")
    expect(view.locator(".jaxtrain-progress")).to_contain_text("idle for")
    expect(rows_of(view, "variables")).to_have_count(4)
    nothing_jumped(lab, "[id='jaxtrain-job-lab'] .jaxtrain-job")
    view.get_by_role("button", name="Save", exact=True).click()
    expect(view.get_by_text("Saved at")).to_contain_text("weights", timeout=60_000)
    is_fine(lab, *VIEWS)

    # By the keyboard: cells are opened, and folded.
    rows_of(view, "cells").first.focus()
    lab.keys("ArrowDown", "ArrowDown", "Enter")
    expect(lab.job("lab-cell-2").locator("h2")).to_have_text("lab-cell-2")
    lab.row("lab").focus()
    lab.keys("ArrowLeft")
    expect(lab.row("lab-cell-1")).to_have_count(0)
    lab.keys("ArrowRight")
    expect(lab.row("lab-cell-1")).to_have_count(1)

    # Variables are lost, and the session is ended, only once one has said so.
    lab.command("jaxtrain:open-job", key="lab")
    view.get_by_role("button", name="Restart").click()
    lab.page.get_by_role("button", name="Keep").click()
    expect(rows_of(view, "variables")).to_have_count(4)
    view.get_by_role("button", name="Restart").click()
    lab.page.get_by_role("button", name="Restart Session").click()
    expect(view.get_by_text("Lost in the last restart: gone, step, weights")).to_be_visible()
    expect(view.locator(".jaxtrain-progress")).to_contain_text("idle for", timeout=60_000)
    lab.command("jaxtrain:open-log", key="lab")
    expect(lab.log("lab").node.locator("[data-kind=note]").first).to_have_text(
        re.compile("cell 1: lab-cell-1$")
    )

    # The picker offers it as the target of a cell.
    lab.command("jaxtrain:show-runtimes")
    lab.cell(3).locator(".cm-content").click()
    where = lab.picker.get_by_label("Run on")
    where.select_option("session lab")
    expect(lab.picker.get_by_label("Nodes")).to_be_disabled()
    lab.picker.get_by_role("button", name="More").click()
    is_fine(lab, "#jaxtrain-runtimes")
    lab.side_bar(180)
    assert not beyond(lab.picker.locator(".jaxtrain-picker"))
    lab.picker.get_by_role("button", name="Insert").click()
    expect(lab.cell(3)).to_contain_text("%%jaxtrain -s lab")
    lab.picker.get_by_role("button", name="Run cell").click()
    lab.has_run(3)
    expect(rows_of(view, "variables")).to_have_text([re.compile("^seven")])
    lab.command("jaxtrain:show-jobs")
    lab.command("jaxtrain:open-job", key="lab")
    lab.page.set_viewport_size({"width": 700, "height": 900})
    for view in (lab.jobs, lab.job("lab").locator(".jaxtrain")):
        assert not beyond(view)
    lab.job("lab").get_by_role("button", name="End").click()
    lab.page.get_by_role("button", name="End Session").click()
    expect(lab.row("lab").locator(".jaxtrain-state")).to_have_text("Cancelled")
