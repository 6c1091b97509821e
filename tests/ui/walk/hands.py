"""Two ways through the same pages: with the mouse alone, and with the keyboard alone.

Words are typed by both. The page itself counts what a hand must not do.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from harness import eventually
from playwright.sync_api import Locator, expect

from ui.pages import LabPage

# What is one stop of Tab, with arrows from one part to the next.
ROVING = "[role=treegrid], [role=radiogroup], .jaxtrain-ranks, [role=tablist]"

FOREIGN = """type => {
    window.__foreign = [];
    const note = event => event.isTrusted && window.__foreign.push(`${event.type} ${event.key ?? ''}`);
    window.addEventListener(type, note, true);
}"""

# What shows that the focus is there; how the page sees it, where nothing does.
SHOWN = """element => {
    if (!element.closest('.jaxtrain')) {
        return '';
    }
    const around = element.closest('label') ?? element;
    const ways = [element, around].map(each => getComputedStyle(each));
    const shown = ways.some(({ outlineStyle, outlineWidth, boxShadow }) =>
        (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none');
    const states = [':focus', ':focus-visible', ':focus-within', ':hover', ':active'];
    return shown ? '' : JSON.stringify({
        states: states.filter(state => element.matches(state)),
        page: document.hasFocus(), there: element.isConnected, outline: ways[0].outline,
    });
}"""


class Hand:
    """What somebody does to a page.

    Attributes
    ----------
    lab
        The page.
    page
        The same, for Playwright.
    """

    name: str
    foreign: str

    def __init__(self, lab: LabPage) -> None:
        self.lab = lab
        self.page = lab.page
        lab.evaluate(FOREIGN, self.foreign)
        self.page.add_init_script(f"({FOREIGN})({json.dumps(self.foreign)})")  # wherever it goes

    def check(self) -> None:
        """Fail when the page has seen the other hand."""
        seen = self.lab.evaluate("() => window.__foreign")
        # Words are typed, the browser's menu has Copy, and Shift is held for a click.
        allowed = r"keydown (.|Control|Meta|Shift)"
        assert not [each for each in seen if not re.fullmatch(allowed, each)], seen

    def dialog(self, answer: str) -> None:
        """Answer the question that JupyterLab asks."""
        asked = self.page.get_by_role("dialog")
        self.press(asked.get_by_role("button", name=answer))
        expect(asked).to_have_count(0)

    def clipboard(self) -> str:
        """Return what would be pasted."""
        return str(self.lab.evaluate("() => navigator.clipboard.readText()"))

    def copies(self, target: Locator, text: str) -> None:
        """Press something that copies, and look at what it has copied."""
        self.lab.evaluate("() => navigator.clipboard.writeText('')")
        self.press(target)
        eventually(lambda: re.search(text, self.clipboard()))

    def downloads(self, target: Locator) -> Path:
        """Press something that saves a file, and give that."""
        with self.page.expect_download() as download:
            self.press(target)
        return Path(download.value.path())

    def press(self, target: Locator) -> None:
        raise NotImplementedError

    def write(self, field: Locator, text: str) -> None:
        raise NotImplementedError


class Mouse(Hand):
    """Clicks, and types words."""

    name, foreign = "mouse", "keydown"

    def press(self, target: Locator) -> None:
        target.click()

    def write(self, field: Locator, text: str) -> None:
        field.click(click_count=3)
        self.page.keyboard.type(text)

    def choose(self, box: Locator, label: str) -> None:
        box.select_option(label=label)  # the browser's own list, which no test can click

    def check_box(self, box: Locator) -> None:
        box.click()

    def menu(self, row: Locator, item: str) -> None:
        row.click(button="right")
        self.page.locator(".lm-Menu-item").filter(has_text=item).first.click()

    def command(self, label: str) -> None:
        """Give a command by the menu bar."""
        self.page.locator(".lm-MenuBar-itemLabel").get_by_text("Run", exact=True).click()
        items = self.page.locator(".lm-Menu-itemLabel")
        items.get_by_text("JAX Training", exact=True).click()
        items.get_by_text(label, exact=True).click()

    def card(self, label: str) -> None:
        """Press a card of a new launcher."""
        self.page.get_by_role("button", name="New Launcher").first.click()
        self.page.locator(".jp-LauncherCard:visible").filter(has_text=label).click()


class Keyboard(Hand):
    """Presses keys alone. Whatever it comes to must be seen to have the focus."""

    name, foreign = "keyboard", "pointerdown"

    def go(self, target: Locator) -> None:
        """Bring the focus to something by Tab, and by arrows within what is one stop."""
        expect(target).to_be_visible()
        for _ in range(120):
            where = target.evaluate(
                f"""(target, roving) => {{
                    const here = document.activeElement;
                    if (here === target) {{
                        return 'here' + ({SHOWN})(target);
                    }}
                    const part = target.closest(roving);
                    const radios = target.type === 'radio' && here.name === target.name;
                    const plain = part?.matches('[role=radiogroup]') && target.role !== 'radio';
                    const alike = !plain && here.tagName === target.tagName && here.role === target.role;
                    const within = radios || (alike && part?.contains(here));
                    const before = target.compareDocumentPosition(here) & 4;
                    if (within) {{
                        return part?.matches('[role=tablist]') && part.dataset.orientation !== 'vertical'
                            ? (before ? 'ArrowLeft' : 'ArrowRight')
                            : (before ? 'ArrowUp' : 'ArrowDown');
                    }}
                    return here !== document.body && before ? 'Shift+Tab' : 'Tab';
                }}""",
                ROVING,
            )
            if where == "here":
                return
            if where.startswith("here"):
                self.page.wait_for_timeout(50)  # the window may be without the focus for a moment
            else:
                self.page.keyboard.press(where)
        raise AssertionError(
            f"nothing shows that the focus is at {target}: {where}"
            if where.startswith("here")
            else f"no key comes to {target}; the focus is at {self.lab.focus()}"
        )

    def press(self, target: Locator) -> None:
        self.go(target)
        self.page.keyboard.press("Enter")

    def check_box(self, box: Locator) -> None:
        self.go(box)
        self.page.keyboard.press("Space")

    def write(self, field: Locator, text: str) -> None:
        self.go(field)
        self.lab.keys("ControlOrMeta+A")
        self.page.keyboard.type(text)

    def choose(self, box: Locator, label: str) -> None:
        where = """(box, label) => [
            box.selectedIndex, [...box.options].findIndex(option => option.label === label)
        ]"""
        for _ in range(20):
            self.go(box)  # JupyterLab may have taken the focus meanwhile
            at, wanted = box.evaluate(where, label)
            if at == wanted:
                break
            self.lab.keys("ArrowDown" if at < wanted else "ArrowUp")
        expect(box.locator("option:checked")).to_have_text(label)

    def menu(self, row: Locator, item: str) -> None:
        self.go(row)
        self.lab.keys("Shift+F10")
        active = self.page.locator(".lm-Menu-item.lm-mod-active")
        for _ in range(20):
            self.lab.keys("ArrowDown")
            if item in active.inner_text():
                break
        expect(active).to_contain_text(item)
        expect(active).to_be_focused()  # else the key would go elsewhere, and leave the menu open
        self.lab.keys("Enter")

    def command(self, label: str) -> None:
        """Give a command by the palette."""
        self.lab.palette(label)

    def card(self, label: str) -> None:
        self.lab.keys("ControlOrMeta+Shift+L")
        self.press(self.page.locator(".jp-LauncherCard:visible").filter(has_text=label))


HANDS: dict[str, Any] = {"mouse": Mouse, "keyboard": Keyboard}
