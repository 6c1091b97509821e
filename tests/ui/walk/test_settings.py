"""The settings, in JupyterLab's own editor, by either hand."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from ui.pages import LabPage
from ui.walk.hands import Keyboard


def test_settings(hand: Any, lab: LabPage) -> None:
    page = lab.page
    if isinstance(hand, Keyboard):
        hand.command("Settings Editor")
    else:
        page.locator(".lm-MenuBar-itemLabel").get_by_text("Settings", exact=True).click()
        page.locator(".lm-Menu-itemLabel").get_by_text("Settings Editor", exact=True).click()
    editor = page.locator("#setting-editor")
    hand.write(editor.get_by_role("searchbox"), "JAX Training")
    hand.press(editor.get_by_role("tab", name="JAX Training: Logs"))
    times = editor.get_by_label("Times of lines")
    hand.choose(times, "off")
    hand.command("Show Training Jobs")
    hand.menu(lab.row("trained"), "Open Log")
    expect(lab.log("trained").node.get_by_role("button", name="no times")).to_be_visible()
    hand.command("Settings Editor") if isinstance(hand, Keyboard) else page.get_by_role(
        "tab", name="Settings"
    ).first.click()
    hand.choose(times, "clock")
    expect(lab.log("trained").node.get_by_role("button", name="time of day")).to_be_visible()
