"""XProf beside the notebook: its page can do nothing to Jupyter, though it has the same address."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import eventually, run
from playwright.sync_api import expect
from server.test_real_xprof import CELL, LINE, RUN, with_real
from server.test_xprof import profiled, with_fake

from jupyter_jax_trainer.messages import profiles as say
from ui.labs import Lab
from ui.looks import DARK, LIGHT, beyond, colours
from ui.pages import LabPage, unfold
from ui.test_axe import is_fine


@pytest.fixture(scope="module")
def with_xprof(ui_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Give a server where the fake package is installed."""
    with pytest.MonkeyPatch.context() as patch:
        with_fake(patch)
        server = Lab(tmp_path_factory.mktemp("lab"), ui_home)
    yield server
    server.stop()


def test_a_page_of_xprof_reaches_nothing_of_jupyter(with_xprof, open_page):
    profiled("fit", "trace")
    lab = open_page(with_xprof)
    # What the page tries is refused, which the browser says.
    lab.allow("Content Security Policy", "WebSocket", "navigate", "sandbox", "Failed to load")
    lab.evaluate("() => localStorage.setItem('secret', 'mine')")
    lab.command("jaxtrain:show-jobs")
    lab.command("jaxtrain:open-job", key="fit")
    part = lab.job("fit").locator("[data-section=profile]")
    unfold(part, "Profile")
    part.get_by_role("button", name="Open in XProf").click()
    tab = lab.page.locator("[id='jaxtrain-xprof-fit-1']")
    expect(tab).to_contain_text("Without internet")
    frame = tab.locator("iframe")
    assert frame.get_attribute("title") == "XProf: fit"
    assert "same-origin" not in str(frame.get_attribute("sandbox"))
    shown = tab.frame_locator("iframe").locator("#found")
    expect(shown).to_have_text(re.compile("database"), timeout=30_000)
    found = json.loads(shown.inner_text())
    assert json.loads(found.pop("data")) == {"tag": ["overview"]}
    assert (found.pop("cookie"), found.pop("stored"), found.pop("own")) == ("", None, "1")
    assert found.keys() >= {"api", "cookies", "blind", "post", "socket", "above", "navigate"}
    assert set(found.values()) == {"refused"}, found
    assert "jupyterapp" in lab.evaluate("() => Object.keys(window)")  # it is where it was
    # The address of the frame in a tab of its own has no more rights.
    alone = lab.page.context.new_page()
    alone.goto(str(frame.evaluate("frame => frame.src")))
    expect(alone.locator("#found")).to_have_text(re.compile("database"), timeout=30_000)
    found = json.loads(alone.locator("#found").inner_text())
    assert {found[way] for way in ("api", "cookies", "blind", "post", "socket", "database")} == {
        "refused"
    }
    alone.close()


def colours_follow(lab: LabPage, view: str) -> None:
    for theme, dark in ((DARK, True), (LIGHT, False)):
        lab.theme(theme)
        background, text = eventually(lambda: colours(lab, view))
        assert (background < 80 and text > 180) if dark else (background > 240 and text < 80)


@pytest.mark.parametrize(("key", "trace"), [("shown", "trace"), ("broken", "trouble: exit")])
def test_the_tab_of_xprof_has_the_looks_of_others(with_xprof, open_page, key, trace):
    profiled(key, trace)
    lab = open_page(with_xprof)
    lab.allow("Content Security Policy", "WebSocket", "navigate", "sandbox", "Failed to load")
    lab.command("jaxtrain:open-job", key=key)
    part = lab.job(key).locator("[data-section=profile]")
    unfold(part, "Profile")
    part.get_by_role("button", name="Open in XProf").click()
    tab = lab.page.locator(f"[id='jaxtrain-xprof-{key}-1']")
    if key == "shown":
        expect(tab.frame_locator("iframe").locator("#found")).to_have_text(
            re.compile("database"), timeout=30_000
        )
    else:
        failed = say.XPROF_NOT_STARTED(why=say.ENDED_SILENTLY(code=3))
        expect(tab.get_by_role("status")).to_have_text(failed, timeout=30_000)
    view = f"[id='jaxtrain-xprof-{key}-1'] .jaxtrain"
    is_fine(lab, view)
    colours_follow(lab, view)
    content = tab.locator(".jaxtrain")
    for width in (360, 1000):
        content.evaluate("(node, width) => { node.style.width = `${width}px`; }", width)
        assert content.bounding_box()["width"] == width
        assert not beyond(content), f"at {width} px"
    lab.page.emulate_media(forced_colors="active")
    background, text = colours(lab, view)
    assert abs(background - text) > 100


@pytest.fixture
def with_real_xprof(ui_home: Path, tmp_path: Path) -> Iterator[Lab]:
    """Give a server where the real package is installed."""
    with pytest.MonkeyPatch.context() as patch:
        with_real(patch, tmp_path / "packages")
        server = Lab(tmp_path / "lab", ui_home)
    yield server
    server.stop()


@pytest.mark.release
def test_the_real_xprof_runs_in_its_frame(with_real_xprof, open_page):
    run(CELL, line=LINE)
    lab = open_page(with_real_xprof)
    # Charts come from Google's servers, which the page may not ask; and XProf 2.24 reports an error
    # of its own, "f.split is not a function", when another tool is chosen.
    lab.allow("Content Security Policy", "sandbox", "Failed to load", "XProf Error")
    lab.command("jaxtrain:show-jobs")
    lab.command("jaxtrain:open-job", key="fit")
    part = lab.job("fit").locator("[data-section=profile]")
    unfold(part, "Profile")
    part.get_by_role("button", name="Open in XProf").click()
    frame = lab.page.locator("[id='jaxtrain-xprof-fit-cell']").frame_locator("iframe")
    expect(frame.get_by_text(RUN)).to_be_visible(timeout=60_000)
    expect(frame.get_by_text("Performance Summary")).to_be_visible()
    frame.get_by_text("Overview Page").click()
    frame.get_by_role("option", name="Trace Viewer").click()
    traces = frame.frame_locator("iframe")
    expect(traces.locator(".process-track-name")).to_contain_text(
        ["rank-0 /host:CPU"], timeout=60_000
    )
