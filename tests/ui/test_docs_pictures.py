"""The pictures in docs/images, from real jobs: `make pictures` makes them anew."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import eventually, submit, wait_failed
from playwright.sync_api import Locator, expect

from jupyter_jax_trainer import api
from ui.cells import PANEL
from ui.pages import LOAD, LabPage
from ui.shots import DATA, NARROW, THEMES, WIDE, code, data, pictures, save, save_part

__all__ = ["pictures"]  # a fixture

CELL, PANEL_NARROW = {"width": 1000, "height": 900}, {"width": 600, "height": 1500}
FAILS = """        if step == 150 and rank == 2:
            batch = {"images": x}
            y = batch["labels"]
"""


@pytest.fixture
def scene(open_page) -> Iterator[LabPage]:
    """Make jobs with a past, and a notebook in which one runs."""
    values = data()
    submit(code(200, 0, 2), values, "sweep-16 -n 4 -o weights").wait(90)
    wait_failed(submit(code(200, 0.005, 10) + FAILS, values, "sweep-17 -n 4"))
    submit("print(images.mean())", values, "evaluate -n 1").wait(60)
    stopped = submit(code(2000, 0.02, 10), values, "resnet-long-run -n 2")
    eventually(lambda: stopped.steps or stopped.state == "Failed")
    stopped.cancel()
    eventually(lambda: stopped.state == "Cancelled")
    lab = open_page(viewport=WIDE)
    lab.notebook("overview", PANEL)
    lab.run(0)
    panel = lab.cell(0).locator(".jaxtrain-panel")
    panel.get_by_role("radio", name=re.compile("^local-cpu")).click(timeout=60_000)
    panel.get_by_role("textbox", name="Nodes").fill("4")
    expect(panel.locator("pre", has_text="-n 4 -r local-cpu")).to_be_visible()
    line = "%%jaxtrain mnist-4 -n 4 -o weights\n"
    lab.notebook("digits", LOAD, DATA, line + code(4000, 0.05, 5).rstrip())
    for number in (0, 1, 2):
        lab.run(number)
    yield lab


def in_front(lab: LabPage, name: str) -> Locator:
    view = lab.job(name)
    lab.command("jaxtrain:open-job", key=name)
    expect(view.locator("h2")).to_have_text(name)
    if name in ("mnist-4", "sweep-16"):
        expect(view.locator(".jaxtrain-plots canvas").first).to_be_visible()
    lab.evaluate("() => document.activeElement.blur()")
    return view


def shoot(lab: LabPage, kind: str, folder: Path) -> None:
    """Take the pictures of all views of the main area as they are now."""
    for name, view in {"running": "mnist-4", "failed": "sweep-17", "succeeded": "sweep-16"}.items():
        save(in_front(lab, view).locator(".jaxtrain"), f"job-{name}-{kind}", folder)
    lab.command("jaxtrain:open-log", key="mnist-4")
    log = lab.log("mnist-4")
    search = log.node.get_by_role("searchbox")
    log.node.get_by_role("button", name="Regular expression").first.click()
    search.fill(r"loss [0-9.]+5 ")
    expect(log.rows.locator("mark").first).to_be_visible()
    save(log.node.locator(".jaxtrain"), f"log-{kind}", folder)
    search.fill("")
    log.node.get_by_role("button", name="Regular expression").first.click()
    lab.command("jaxtrain:open-log", key="sweep-17")
    log = lab.log("sweep-17")
    log.node.get_by_role("button", name="first error").click()
    expect(log.list.locator("[aria-selected=true]")).to_contain_text("Traceback")
    lab.keys("Escape")
    log.list.focus()
    lab.keys("ArrowRight", "End")
    expect(log.list).to_contain_text("KeyError: 'labels'")
    save(log.node.locator(".jaxtrain"), f"log-traceback-{kind}", folder)
    log.node.get_by_role("button", name="first error").click()
    log.list.focus()
    lab.keys("ArrowLeft")


def shoot_cells(lab: LabPage, theme: str, folder: Path) -> None:
    """Take the pictures of what cells show: a job, with its code above it, and the panel."""
    page = lab.page
    for size, kind in ((CELL, "wide"), (NARROW, "narrow")):
        page.set_viewport_size(size)
        lab.command("docmanager:open", path="digits.ipynb")
        cell = lab.cell(2)
        view = cell.locator(".jaxtrain-job-summary")
        cell.evaluate("cell => cell.scrollIntoView({ block: 'start' })")
        for name in ("Detach", "Cancel", "Open"):
            expect(view.get_by_role("button", name=name, exact=True)).to_be_visible()
        expect(view.get_by_role("img", name=re.compile("^loss is"))).to_be_visible()
        expect(view.get_by_role("group", name="Last lines")).to_contain_text("accuracy")
        lab.evaluate("() => document.activeElement.blur()")
        if kind == "narrow":
            save(view, f"cell-{theme}-narrow", folder)
        else:
            # All of the cell, but not the lines that it has printed below.
            page.mouse.move(0, 0)
            code, card = cell.locator(".jp-InputArea").bounding_box(), view.bounding_box()
            assert code and card
            bottom = card["y"] + card["height"] + 1
            clip = {**code, "y": code["y"] - 4, "height": bottom - code["y"] + 4}
            save_part(page, clip, f"cell-{theme}-wide", folder)
    for size, kind in ((WIDE, "wide"), (PANEL_NARROW, "narrow")):
        page.set_viewport_size(size)
        lab.command("docmanager:open", path="overview.ipynb")
        panel = lab.cell(0).locator(".jaxtrain-panel-widget")
        expect(panel.locator(".jaxtrain-row[data-key='mnist-4']")).to_contain_text("%")
        save(panel, f"panel-{theme}-{kind}", folder)


@pytest.mark.release
@pytest.mark.timeout(300)
def test_pictures_of_every_view(scene, pictures):
    lab, page, folder = scene, scene.page, pictures
    lab.command("jaxtrain:show-jobs")
    expect(lab.row("mnist-4")).to_contain_text(re.compile(r"\d %"), timeout=60_000)
    eventually(lambda: len(list(api.job("mnist-4").metrics())) > 60)
    for theme, name in THEMES.items():
        lab.theme(name)
        page.set_viewport_size(WIDE)
        # The side bar beside the notebook, then as narrow as it gets.
        for panel, node in {"jobs": lab.jobs, "runtimes": lab.picker}.items():
            lab.command(f"jaxtrain:show-{panel}")
            lab.side_bar(300)
            lab.command("docmanager:open", path="digits.ipynb")
            lab.cell(2).click(position={"x": 300, "y": 8})
            lab.cell(2).evaluate("cell => cell.scrollIntoView({ block: 'start' })")
            if panel == "runtimes":
                expect(node.get_by_text("in sync")).to_be_visible()
            save(page.locator("#main"), f"{panel}-{theme}-wide", folder)
            lab.side_bar(200)
            save(node, f"{panel}-{theme}-narrow", folder)
        lab.evaluate("() => window.jupyterapp.shell.collapseLeft()")
        shoot_cells(lab, theme, folder)
        page.set_viewport_size(WIDE)
        shoot(lab, f"{theme}-wide", folder)
        page.set_viewport_size(NARROW)
        shoot(lab, f"{theme}-narrow", folder)
    assert len(list(folder.glob("*-wide.png"))) == len(list(folder.glob("*-narrow.png"))) == 18
