"""The picker, by either hand."""

from __future__ import annotations

import re
from typing import Any

from harness import eventually
from playwright.sync_api import expect

from ui.pages import LOAD, LabPage
from ui.walk.hands import Keyboard


def test_runtimes(hand: Any, lab: LabPage) -> None:
    lab.notebook(f"form-{hand.name}", LOAD, "loss = 1", "%%jaxtrain mine -e A=b -n 2\nloss = 2")
    lab.cell(0).locator(".cm-content").focus()
    if isinstance(hand, Keyboard):
        lab.keys("Shift+Enter")
    else:
        notebook = lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        notebook.get_by_role("button", name=re.compile("Run this cell and advance")).click()
    lab.has_run(0)
    hand.command("Show Training Runtimes")
    picker = lab.picker
    expect(picker.locator(":focus")).to_have_count(1)

    def press(name: str) -> None:
        hand.press(picker.get_by_role("button", name=re.compile(name)))

    # A cluster that does not answer says so, and can be asked again.
    places = picker.get_by_label("Run on")
    hand.choose(places, places.locator("option").nth(1).inner_text())
    expect(picker.get_by_role("alert").first).to_contain_text(
        re.compile("Install it: pip install .*kubernetes"), timeout=30_000
    )
    press("Check again")
    hand.choose(places, "this machine")

    # How this machine is, and what its runtime is.
    summary = picker.locator(".jaxtrain-summary")
    for opened in ("true", "false"):
        hand.press(summary)
        expect(summary).to_have_attribute("aria-expanded", opened)
    press("^Details of local-cpu")
    expect(picker.locator(".jaxtrain-details")).to_contain_text("Python")
    hand.check_box(picker.get_by_role("radio", name=re.compile("^local-cpu")))

    # Each kind of field.
    hand.write(picker.get_by_label("Nodes"), "two")
    expect(picker.get_by_label("Nodes")).to_have_attribute("aria-invalid", "true")
    hand.write(picker.get_by_label("Nodes"), "2")
    hand.write(picker.get_by_label("Devices per node"), "4")
    expect(picker.locator(".jaxtrain-ask")).to_contain_text("8 devices")
    cpu = picker.get_by_role("radiogroup", name="Device")
    if isinstance(hand, Keyboard):
        hand.go(cpu.locator("input:checked"))
        lab.keys("ArrowLeft", "ArrowLeft", "ArrowLeft")
    else:
        hand.press(cpu.get_by_text("CPU"))
    hand.write(picker.get_by_label("Result variables"), "loss")
    press("^More")
    hand.write(picker.get_by_label("Time limit"), "90m")
    line = picker.locator(".jaxtrain-foot pre")
    for part in ("-n 2", "--devices-per-node 4", "-r local-cpu", "-o loss", "--timeout", "cpu"):
        expect(line).to_contain_text(part)
    text = line.inner_text()
    hand.copies(picker.locator(".jaxtrain-foot").get_by_role("button", name="Copy"), "jaxtrain")

    # Into the cell, and in step with it from then on.
    press("^Insert")
    eventually(lambda: lab.source(1) == f"{text}\nloss = 1")
    hand.write(picker.get_by_label("Nodes"), "3")
    eventually(lambda: "-n 3" in lab.source(1).splitlines()[0])
    press("^Run cell|▶ Run cell")
    state = lab.cell(1).locator(".jaxtrain-job-summary .jaxtrain-state")
    expect(state).to_have_text("Succeeded", timeout=60_000)

    # A line that is there: the form shows it, and what it does not know of stays.
    if isinstance(hand, Keyboard):
        hand.go(lab.cell(1).locator(".jaxtrain-job-summary").get_by_role("button", name="Open"))
        lab.keys("Escape", "ArrowDown")
        hand.command("Show Training Runtimes")  # Tab would come by the other cell, and take that
    else:
        lab.cell(2).locator(".cm-content").click()
    expect(picker.get_by_label("Nodes")).to_have_value("2")
    hand.write(picker.get_by_label("Nodes"), "5")
    eventually(lambda: lab.source(2) == "%%jaxtrain mine -e A=b -n 5\nloss = 2")
