"""The list of jobs and the view of one, by either hand."""

from __future__ import annotations

import re
from typing import Any

from harness import eventually
from playwright.sync_api import Locator, expect

from ui.pages import LabPage
from ui.walk.hands import Keyboard


def test_jobs(hand: Any, lab: LabPage) -> None:
    own = f"old-{hand.name}"
    hand.card("Training Jobs")
    panel, rows = lab.jobs, lab.jobs.locator(".jaxtrain-row")
    search = panel.get_by_role("searchbox")
    hand.write(search, own)
    expect(rows).to_have_count(1)
    chip = panel.get_by_role("button", name=re.compile("^Failed"))
    hand.press(chip)
    hand.press(panel.get_by_role("button", name="Show all"))
    expect(panel.locator(":focus")).to_have_count(1)  # not lost with what was pressed
    hand.press(chip)
    expect(lab.row(own)).to_have_count(0)
    expect(lab.row("stumbled")).to_be_visible()
    hand.press(chip)

    hand.menu(lab.row(own), "Copy Name")
    eventually(lambda: hand.clipboard() == own)
    hand.menu(lab.row(own), "Open Log")
    expect(lab.log(own).node).to_be_visible()
    hand.menu(lab.row(own), "Open Notebook")
    lab.page.wait_for_function(
        """name => {
            const { currentWidget } = window.jupyterapp.shell;
            return currentWidget?.context?.path === name && currentWidget.content.activeCellIndex === 2;
        }""",
        arg=f"of-{hand.name}.ipynb",
    )
    lab.kernel_is("idle")  # until then the notebook takes the focus
    hand.command("Show Training Jobs")
    expect(panel.locator(":focus")).to_have_count(1)
    for answer, left in (("Keep", 1), ("Delete", 0)):
        hand.menu(lab.row(own), "Delete…")
        hand.dialog(answer)
        expect(lab.row(own)).to_have_count(left)
    hand.press(lab.row("trained"))
    expect(lab.job("trained").locator("h2")).to_have_text("trained")


def test_a_job(hand: Any, lab: LabPage) -> None:
    hand.command("Show Training Jobs")
    hand.press(lab.row("trained"))
    job = lab.job("trained")
    canvas = job.locator(".jaxtrain-plots canvas")
    expect(canvas).to_have_count(2)

    def press(name: str, exact: bool = True) -> Locator:
        button = job.get_by_role("button", name=name, exact=exact)
        hand.press(button)
        return button

    hand.copies(job.get_by_role("button", name="Copy name"), "^trained$")

    # The plots.
    metrics = job.get_by_role("group", name="Metrics", exact=True)
    drawn = "() => document.querySelector('.jaxtrain-plots canvas').toDataURL()"
    for name in ("Log", "Time"):
        button = metrics.get_by_role("button", name=name, exact=True)
        before = lab.evaluate(drawn)
        hand.press(button)
        lab.page.wait_for_function(f"before => ({drawn})() !== before", arg=before)
        expect(button).to_have_attribute("aria-pressed", "true")
        hand.press(
            metrics.get_by_role("button", name="Step" if name == "Time" else name, exact=True)
        )
    plot = job.locator(".jaxtrain-canvas").first
    everything = metrics.get_by_role("button", name="Show all")
    values = job.locator(".jaxtrain-legend").first
    before = values.inner_text()
    if isinstance(hand, Keyboard):
        hand.go(plot)
        lab.keys("ArrowRight")
        expect(values).not_to_have_text(before)
        lab.keys("+")
    else:
        plot.hover(position={"x": 100, "y": 60})
        expect(values).not_to_have_text(before)
        lab.page.mouse.down()
        plot.hover(position={"x": 200, "y": 60})
        lab.page.mouse.up()
    expect(everything).to_be_enabled()
    hand.press(everything)
    expect(everything).to_be_disabled()
    press("Choose")
    press("rank 0")
    press("rank 1")
    press("accuracy")
    expect(canvas).to_have_count(1)
    expect(values).to_contain_text("rank 1")
    press("accuracy")
    press("first")
    press("Compare")
    hand.write(job.get_by_role("searchbox"), "stumb")
    hand.check_box(job.get_by_role("checkbox"))
    press("Remove stumbled")
    expect(job.get_by_role("checkbox")).not_to_be_checked()
    assert (
        hand.downloads(job.get_by_role("button", name="Save loss as CSV")).read_bytes()[:4]
        == b"job,"
    )
    picture = hand.downloads(job.get_by_role("button", name="Save loss as PNG"))
    assert picture.read_bytes()[1:4] == b"PNG"

    # The other parts; each can be closed.
    assert hand.downloads(job.get_by_role("button", name="Save logs")).read_bytes()[:2] == b"PK"
    hand.copies(
        job.get_by_role("group", name="Code").get_by_role("button", name="Copy"), "%%jaxtrain"
    )
    expect(job.get_by_role("group", name="Results")).to_contain_text("float")
    for name in ("Ranks", "Events", "Code"):
        fold = job.get_by_role("button", name=name, exact=True)
        for opened in ("false", "true"):
            hand.press(fold)
            expect(fold).to_have_attribute("aria-expanded", opened)
    hand.press(job.locator("tr[data-rank='1']"))
    expect(lab.log("trained").node.get_by_role("button", name="Only rank 1")).to_have_attribute(
        "aria-pressed", "true"
    )

    hand.command("Show Training Jobs")
    hand.press(lab.row("stumbled"))
    failed = lab.job("stumbled")
    hand.copies(failed.get_by_role("button", name="Copy traceback"), "KeyError")
    hand.press(failed.get_by_role("button", name="Open the log of rank 1"))
    expect(lab.log("stumbled").node).to_be_visible()
