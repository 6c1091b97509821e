"""What JupyterLab itself says of jobs: how many run, and, once in all tabs, that one has ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import eventually, submit, wait_for
from playwright.sync_api import expect

from jupyter_jax_trainer import api
from ui.pages import LabPage

CODE = """import os, time
while not os.path.exists({end!r}):
    time.sleep(0.02)
{last}
"""

# Takes down whatever JupyterLab tells, since some of it goes by itself.
LISTEN = """() => {
    const seen = new Set();
    window.told = [];
    new MutationObserver(() => {
        for (const toast of document.querySelectorAll('.Toastify__toast')) {
            if (!seen.has(toast)) {
                seen.add(toast);
                window.told.push(toast.querySelector('.jp-toast-message').textContent);
            }
        }
    }).observe(document.body, { childList: true, subtree: true });
}"""


HIDE = """hidden => {
    Object.defineProperty(document, 'hidden', { get: () => hidden, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
}"""


class Tab:
    """A tab of the browser, in front or behind, and all that JupyterLab has told in it."""

    def __init__(self, lab: LabPage) -> None:
        self.lab = lab
        lab.evaluate(LISTEN)

    def behind(self, hidden: bool) -> None:
        """Bring it behind another tab, or to the front: a browser without windows has no such thing."""
        self.lab.evaluate(HIDE, hidden)

    def told(self) -> list[str]:
        """Return what it has told, in the order in which it did."""
        return list(self.lab.evaluate("() => window.told"))

    def tells(self, text: str) -> None:
        """Wait until it tells this; by then it has made up its mind on what ended before."""
        eventually(lambda: any(re.search(text, each) for each in self.told()))


@pytest.fixture
def jobs(jobs_home: Path, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Let four jobs run; give what ends one."""
    ways = {"one": "", "two": "{}['labels']", "three": "", "four": "{}['labels']"}
    jobs = [
        submit(CODE.format(end=str(tmp_path / name), last=last), line=f"{name} -n 1")
        for name, last in ways.items()
    ]
    for job in jobs:
        wait_for(job, "Running")
    yield lambda name: (tmp_path / name).touch()


def test_what_is_said_of_jobs(open_page, jobs, settings):
    lab = open_page()
    first = Tab(lab)
    second = Tab(open_page(beside=lab, path="lab/workspaces/other?reset"))
    lab.page.bring_to_front()

    # How many run is in the status bar; a click leads to them.
    standing = lab.page.locator("#jp-main-statusbar").get_by_role(
        "button", name=re.compile("training job")
    )
    expect(standing).to_have_text("4 training jobs running")
    expect(standing).to_have_attribute("title", re.compile("^four · Running\n"))
    expect(lab.jobs).to_be_hidden()
    standing.click()
    expect(lab.row("one")).to_be_visible()
    expect(lab.jobs.locator(":focus")).to_have_count(1)

    # The tab that is looked at tells of an end, and the other one knows.
    second.behind(True)
    jobs("one")
    first.tells("^one succeeded in ")
    expect(standing).to_have_text("3 training jobs running")
    first.behind(True)
    second.behind(False)
    jobs("two")
    second.tells("^two failed after .*KeyError")
    assert len(second.told()) == 1
    second.behind(True)
    first.behind(False)

    # From now on only failures, please.
    lab.command("settingeditor:open", query="JAX Training: Jobs")
    lab.page.locator("select", has_text="failed").select_option("failed")
    expect(lab.page.get_by_role("button", name="Restore to Defaults")).to_be_visible()
    jobs("three")
    expect(lab.row("three").locator(".jaxtrain-state")).to_have_text("Succeeded", timeout=60_000)
    jobs("four")
    first.tells("^four failed after .*KeyError")
    assert [each.split()[0] for each in first.told()] == ["one", "four"]
    assert len(second.told()) == 1
    expect(standing).to_have_count(0)

    # The last one stays until somebody has seen it, and leads to the job.
    toast = lab.page.locator(".Toastify__toast").filter(has_text="four failed")
    toast.get_by_role("button", name="Open", exact=True).click()
    expect(lab.job("four").locator("header .jaxtrain-state")).to_have_text("Failed")


def test_what_has_ended_while_no_page_was_open_is_said_once(open_page, jobs):
    lab = open_page()
    lab.command("jaxtrain:show-jobs")
    expect(lab.row("one")).to_be_visible()
    lab.page.goto("about:blank")
    for name in ("one", "two", "three", "four"):
        jobs(name)
    for name in ("one", "two", "three", "four"):
        eventually(lambda name=name: api.job(name).state in ("Succeeded", "Failed"))
    lab.open()
    toasts = lab.page.locator(".Toastify__toast")
    for name in ("one succeeded", "two failed", "three succeeded", "four failed"):
        expect(toasts.filter(has_text=name)).to_have_count(1)
    lab.open()
    lab.command("jaxtrain:show-jobs")
    expect(lab.row("one")).to_be_visible()
    lab.page.wait_for_timeout(1000)
    expect(toasts).to_have_count(0)
