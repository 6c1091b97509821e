"""The settings: views follow them at once, and nonsense in them does no harm."""

from __future__ import annotations

import re

import pytest
from harness import eventually
from made_jobs import make_job
from playwright.sync_api import expect

from ui.cells import SLOW
from ui.pages import LabPage

CHATTER = "[Gloo] Rank 0 is connected to 1 peer ranks."
LONG = "long " * 2000


@pytest.fixture
def logs(jobs_home):
    for name in ("one", "two"):
        make_job(name, logs={0: [CHATTER, "hello", LONG]})


class Log:
    """The log of a job, as the settings have it."""

    def __init__(self, lab: LabPage, key: str) -> None:
        lab.command("jaxtrain:open-log", key=key, split=True)
        self._log = log = lab.log(key)
        self.times = log.node.get_by_title("Change timestamps (t)")
        expect(log.rows.filter(has_text="hello")).to_be_visible(timeout=SLOW)

    def is_shown(self, times: str, chatter: bool) -> None:
        """Wait until it has such times, and what libraries say or not."""
        rows = self._log.rows
        expect(rows).to_have_count(3 if chatter else 2, timeout=SLOW)
        expect(rows.filter(has_text=CHATTER)).to_have_count(1 if chatter else 0)
        hello = re.compile(rf"^{times}\s*0\s*hello$")
        expect(rows.filter(has_text="hello")).to_have_text(hello, timeout=SLOW)

    def open_line(self) -> None:
        """Show the long line in full."""
        self._log.rows.last.locator("[data-full]").click()
        expect(self._log.node.locator(".jaxtrain-log-detail pre")).to_contain_text("long long")

    def is_wrapped(self, wrapped: bool) -> None:
        line = self._log.node.locator(".jaxtrain-log-detail pre")
        eventually(lambda: line.evaluate("it => it.scrollWidth <= it.clientWidth") == wrapped)


CLOCK, SINCE, NONE = r"\d\d:\d\d:\d\d", r"\+00:00:01", ""


def test_logs_follow_the_settings(open_page, logs, settings):
    settings("logs", {"times": "since", "wrap": False, "raw": True})
    lab = open_page()
    lab.command("settingeditor:open", query="JAX Training: Logs")
    one = Log(lab, "one")
    one.is_shown(SINCE, chatter=True)
    one.open_line()
    one.is_wrapped(False)

    # Whatever is set is so at once, in what is open and in what is opened.
    times = lab.page.locator("select", has_text="since")
    times.select_option("off")
    one.is_shown(NONE, chatter=True)
    lab.page.get_by_role("checkbox", name="Wrap long lines").check()
    one.is_wrapped(True)
    lab.page.get_by_role("checkbox", name="Show library startup messages").first.uncheck()
    one.is_shown(NONE, chatter=False)
    two = Log(lab, "two")
    two.is_shown(NONE, chatter=False)

    # What somebody has chosen for one log stays with it.
    two.times.click()
    two.is_shown(CLOCK, chatter=False)
    times.select_option("since")
    lab.command("jaxtrain:open-log", key="one")
    one.is_shown(SINCE, chatter=False)
    lab.command("jaxtrain:open-log", key="two")
    two.is_shown(CLOCK, chatter=False)


def test_a_new_line_begins_with_the_options_of_the_settings(open_page, settings):
    settings("runtimes", {"line": "-n 3 --timeout 2h"})
    lab = open_page()
    lab.notebook("usual", "1 + 1", "2 + 2", "3 + 3", "4 + 4")
    lab.command("jaxtrain:show-runtimes")
    field = lab.page.locator("input[label='Options of new lines']")

    def inserts(cell: int, line: str) -> None:
        lab.cell(cell).locator(".cm-content").click()
        expect(lab.picker.locator(".jaxtrain-foot pre")).to_have_text(line, timeout=SLOW)
        lab.keys("Alt+Shift+X")
        eventually(lambda: lab.source(cell) == f"{line}\n{cell + 1} + {cell + 1}")

    def sets(what: str) -> None:
        lab.command("settingeditor:open", query="JAX Training: Runtimes")
        field.fill(what)
        lab.command("docmanager:open", path="usual.ipynb")

    inserts(0, "%%jaxtrain -n 3 --timeout 2h")
    sets("-d cpu")
    inserts(1, "%%jaxtrain -d cpu")
    # Of what cannot be the rest is taken, or nothing.
    sets("-n 2 --timeout never")
    inserts(2, "%%jaxtrain -n 2")
    sets("-n 2 '")
    inserts(3, "%%jaxtrain")


def test_nonsense_in_the_settings_does_no_harm(open_page, logs, settings):
    settings("logs", {"times": "sideways", "wrap": "perhaps", "raw": 7, "colour": "green"})
    settings("jobs", {"notify": ["x"]})
    settings("runtimes", {"line": 7})
    lab = open_page()
    lab.notebook("nonsense", "1 + 1", "2 + 2")
    lab.cell(0).locator(".cm-content").click()
    lab.keys("Alt+Shift+X")
    eventually(lambda: lab.source(0) == "%%jaxtrain\n1 + 1")
    lab.keys("Alt+Shift+J")
    expect(lab.row("one")).to_be_visible()
    log = Log(lab, "one")
    log.is_shown(CLOCK, chatter=False)
    log.open_line()
    log.is_wrapped(True)
