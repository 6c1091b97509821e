"""The cases of the guide "Slow, stuck or out of memory", run, and the pictures of them."""

from __future__ import annotations

import subprocess
import sys

import docblocks
import pytest
from harness import eventually, submit
from local.test_space import little_memory
from playwright.sync_api import Locator, expect

from jupyter_jax_trainer import api
from ui.labs import ROOT
from ui.pages import LabPage, unfold
from ui.shots import WIDE, code, data, pictures
from ui.test_docs_rare_pictures import of_main_area
from ui.test_sessions import is_fine

__all__ = ["little_memory", "pictures"]  # fixtures

pytestmark = [pytest.mark.release, pytest.mark.timeout(300)]

PAGE = "docs/guides/data-scientist/diagnosis.md"
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
    unfold(section(view, "spending"), "Time")
    expect(section(view, "spending").locator(".jaxtrain-late tbody tr")).to_have_count(2)
    is_fine(lab, "[id='jaxtrain-job-slow'] .jaxtrain")
    of_main_area(lab, "diagnosis-slow", view, pictures)

    view = view_of(lab, "stuck")
    expect(view).to_contain_text("rank 0 waits in a collective")
    is_fine(lab, "[id='jaxtrain-job-stuck'] .jaxtrain")
    of_main_area(lab, "diagnosis-stuck", view, pictures)
    stuck.cancel()

    view = view_of(lab, "hungry")
    expect(view).to_contain_text("kept[…]")
    unfold(section(view, "machine"), "Machine")
    expect(section(view, "machine").locator("figure").first).to_be_visible()
    is_fine(lab, "[id='jaxtrain-job-hungry'] .jaxtrain")
    view.evaluate("it => { it.scrollTop = 0; it.parentElement.scrollTop = 0; }")
    of_main_area(lab, "diagnosis-hungry", view, pictures)


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
