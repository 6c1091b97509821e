"""XProf beside the notebook: its page can do nothing to Jupyter, though it has the same address."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from server.test_xprof import profiled, with_fake

from ui.labs import Lab
from ui.pages import unfold


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
