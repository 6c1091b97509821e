"""The cases of the guide "Slow, stuck or out of memory", run, and the pictures of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import docblocks
import pytest
from harness import eventually, submit
from local.test_space import little_memory
from playwright.sync_api import Locator, expect

from jupyter_jax_trainer import api
from jupyter_jax_trainer.messages import jobs as say
from ui.labs import ROOT
from ui.pages import LabPage, unfold
from ui.shots import WIDE, code, data, in_all, pictures, save
from ui.test_docs_rare_pictures import SIZES, of_main_area
from ui.test_sessions import is_fine

__all__ = ["little_memory", "pictures"]  # fixtures

pytestmark = [pytest.mark.release, pytest.mark.timeout(300)]

PAGE = "docs/guides/data-scientist/diagnosis.md"
TITLES = {"metrics": "Metrics", "spending": "Time", "machine": "Machine"}
# In little memory, of which this process must not be a part.
SUBMITTER = """
import os, sys
open({procs!r}, "w").write(str(os.getpid()))
sys.path[:0] = {path!r}
from harness import submit
submit({cell!r}, line={line!r})
"""


def view_of(lab: LabPage, name: str) -> Locator:
    lab.command("jaxtrain:open-job", key=name)
    return lab.job(name).locator(".jaxtrain")


def section(view: Locator, name: str) -> Locator:
    return view.locator(f"[data-section={name}]")


def arrange(view: Locator, *opened: str) -> None:
    """Open these sections of a job's page, and close the others of which there is a choice."""
    for name, title in TITLES.items():
        button = section(view, name).get_by_role("button", name=title, exact=True)
        if (button.get_attribute("aria-expanded") == "true") != (name in opened):
            button.click()
        expect(button).to_have_attribute("aria-expanded", "true" if name in opened else "false")


def whole_in_sight(lab: LabPage, name: str, view: Locator, part: Locator, folder: Path) -> None:
    """Take pictures of a job's page from its top on, each so high that a part is whole in it."""

    def fit(kind: str) -> None:
        lab.page.set_viewport_size(SIZES[kind])
        view.evaluate("it => { it.scrollTop = 0; it.parentElement.scrollTop = 0; }")
        shown, box = view.bounding_box(), part.bounding_box()
        assert shown and box
        more = box["y"] + box["height"] + 8 - shown["y"] - shown["height"]
        height = SIZES[kind]["height"] + max(0, round(more))
        lab.page.set_viewport_size({**SIZES[kind], "height": height})

    in_all(lab, fit, lambda how: save(view, f"{name}-{how}", folder))


def test_three_cases(open_page, pictures, little_memory, monkeypatch):
    monkeypatch.setenv("JAXTRAIN_STUCK_TIMEOUT", "3")
    monkeypatch.setenv("JAXTRAIN_WARM", "0")
    lines, cells = zip(
        *(block.text.removeprefix("%%jaxtrain ").split("\n", 1) for block in docblocks.code(PAGE)),
        strict=True,
    )
    slow = submit(cells[0], line=lines[0])
    stuck = submit(cells[1], line=lines[1])
    program = SUBMITTER.format(
        procs=str(little_memory / "cgroup.procs"),
        path=[str(ROOT / "tests"), str(ROOT)],
        cell=cells[2],
        line=lines[2],
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    hungry = api.job("hungry")
    slow.wait(120)
    eventually(lambda: not hungry.active, 120)
    lab = open_page(viewport=WIDE)
    view = view_of(lab, "slow")
    expect(view).to_contain_text("rank 1 costs up to")
    arrange(view, "spending")
    late = section(view, "spending").locator(".jaxtrain-late")
    expect(late.locator("tbody tr")).to_have_count(2)
    expect(section(view, "spending")).to_contain_text("Compile cache: ")
    is_fine(lab, "[id='jaxtrain-job-slow'] .jaxtrain")
    whole_in_sight(lab, "diagnosis-slow", view, late, pictures)

    view = view_of(lab, "stuck")
    arrange(view, "metrics")
    expect(view).to_contain_text(say.RANK_WAITS(rank=0, place="").strip())
    is_fine(lab, "[id='jaxtrain-job-stuck'] .jaxtrain")
    whole_in_sight(lab, "diagnosis-stuck", view, section(view, "ranks"), pictures)
    stuck.cancel()

    view = view_of(lab, "hungry")
    expect(view).to_contain_text("kept[…]")
    arrange(view, "machine")
    plots = section(view, "machine").locator("figure")
    for plot in (plots.nth(0), plots.nth(1)):
        plot.scroll_into_view_if_needed()  # it is drawn when it is seen
        expect(plot.locator("canvas")).to_be_visible()
    is_fine(lab, "[id='jaxtrain-job-hungry'] .jaxtrain")
    whole_in_sight(lab, "diagnosis-hungry", view, plots.nth(1), pictures)


def test_a_profile(open_page, pictures):
    job = submit(code(8000, 0.0, 50), data(), "mnist-7 -n 2")
    eventually(lambda: len(list(job.metrics())) > 3)
    assert job.profile(1).name == "1"
    lab = open_page(viewport=WIDE)
    view = view_of(lab, "mnist-7")
    part = section(view, "profile")
    unfold(part, "Profile")
    expect(part.locator("tbody tr").first).to_be_visible(timeout=60_000)
    job.cancel()
    is_fine(lab, "[id='jaxtrain-job-mnist-7'] .jaxtrain")
    part.evaluate("it => it.scrollIntoView()")
    of_main_area(lab, "profile", view, pictures)
