"""What a cell shows, by either hand."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Locator, expect

from jupyter_jax_trainer.messages import views as say
from ui.pages import LOAD, LabPage
from ui.walk.hands import Keyboard

PANEL = "import jupyter_jax_trainer\njupyter_jax_trainer.panel()"
CODE = """%%jaxtrain {name} -n 1
import time
from jupyter_jax_trainer import report
for step in range(2000):
    report(step=step, total=2000, loss=1 / (step + 1))
    time.sleep(0.05)
"""


def run_both(hand: Any, lab: LabPage) -> None:
    """Run the two cells of a notebook; the second may still run."""
    lab.cell(0).locator(".cm-content").focus()
    if isinstance(hand, Keyboard):
        lab.keys("Shift+Enter")
        lab.has_run(0)
        lab.keys("Control+Enter", "Escape")
    else:
        notebook = lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        run = notebook.get_by_role("button", name=re.compile("Run this cell and advance"))
        run.click()
        lab.has_run(0)
        run.click()


def test_the_output_of_a_cell(hand: Any, lab: LabPage) -> None:
    name = f"cell-{hand.name}"
    lab.notebook(name, LOAD, CODE.format(name=name))
    run_both(hand, lab)
    card = lab.cell(1).locator(".jaxtrain-job-summary")
    state = card.locator(".jaxtrain-state")
    expect(state).to_have_text("Running", timeout=60_000)

    def button(name: str) -> Locator:
        return card.get_by_role("button", name=name, exact=True)

    hand.copies(button("Copy name"), f"^{name}$")
    if isinstance(hand, Keyboard):
        lab.keys("x", "b")  # the notebook would cut the cell, and insert one
        expect(button("Copy name")).to_be_focused()
        assert lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell").count() == 2
    hand.press(lab.page.locator(".jp-StatusBar-Item").get_by_role("button", name="training job"))
    expect(lab.row(name).locator(".jaxtrain-state")).to_have_text("Running")
    if isinstance(hand, Keyboard):
        lab.cell(1).focus()
    hand.press(button("Detach"))
    expect(lab.cell(1)).to_contain_text(f"Detached. Job '{name}'")
    expect(state).to_have_text("Running")
    if isinstance(hand, Keyboard):
        hand.go(button("Open"))
        lab.keys("Escape")
        expect(lab.cell(1)).to_be_focused()
    hand.press(button("Cancel"))
    hand.dialog("Keep")
    hand.press(button("Cancel"))
    hand.dialog("Cancel Job")
    expect(state).to_have_text("Cancelled", timeout=30_000)
    hand.press(button("Open"))
    expect(lab.job(name).locator("h2")).to_have_text(name)


def test_what_jupyterlab_says_of_an_end(hand: Any, lab: LabPage) -> None:
    name = f"said-{hand.name}"
    lab.notebook(name, LOAD, f"%%jaxtrain {name} -n 1 --detach\n{{}}['labels']")
    run_both(hand, lab)
    toast = lab.page.locator(".Toastify__toast").filter(has_text=f"{name} failed after")
    expect(toast).to_contain_text("KeyError", timeout=60_000)
    hand.press(toast.get_by_role("button", name="Open", exact=True))
    expect(lab.job(name).locator("h2")).to_have_text(name)


def test_the_panel_in_a_cell(hand: Any, lab: LabPage) -> None:
    lab.notebook(f"panel-{hand.name}", LOAD, PANEL)
    run_both(hand, lab)
    panel = lab.cell(1).locator(".jaxtrain-panel")
    local = panel.get_by_role("radio", name=re.compile("^local-cpu"))
    expect(local).to_be_visible(timeout=60_000)

    # A line for the next cell.
    hand.check_box(local)
    hand.write(panel.get_by_role("textbox", name="Nodes"), "3")
    line = "%%jaxtrain -n 3 -r local-cpu"
    expect(panel.locator("pre", has_text=line)).to_be_visible()
    hand.press(panel.get_by_role("button", name="Insert into the next cell"))
    expect(panel.get_by_text(str(say.INSERTED_LATER()))).to_be_visible()

    # From the list to a job and its log, and back.
    row = panel.locator(".jaxtrain-row[data-key='trained']")
    hand.press(row)
    view = panel.locator(".jaxtrain-job")
    expect(view.locator("h2")).to_have_text("trained")
    hand.press(view.get_by_role("button", name="Log", exact=True).first)
    expect(panel.locator(".jaxtrain-log-row").last).to_contain_text("A last line")
    for _ in range(2):
        hand.press(panel.get_by_role("button", name="← Back"))
    expect(row).to_be_visible()
