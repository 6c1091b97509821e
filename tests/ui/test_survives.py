"""Whatever page, kernel, server and network go through, every line of a job is there, once."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import eventually
from playwright.sync_api import Browser, expect

from jupyter_jax_trainer import api
from jupyter_jax_trainer.jobdir import JobDir
from ui.cells import glance, is_state, moves
from ui.cutting import Proxy
from ui.pages import LOAD, LabPage

# Numbers its lines until the file is there.
CODE = """%%jaxtrain counting -r local-cpu
import os, time
from jupyter_jax_trainer import report
number = 0
while not os.path.exists({end!r}):
    print(f"number {{number}}")
    if number % 10 == 0:
        report(step=number, total=1000000, loss=1 / (number + 1))
    number += 1
    time.sleep(0.02)
print("all numbers", number)
"""
NAME = "counting"
WIDE = {"width": 1900, "height": 900}
SILENT = "No connection: this may be out of date."


class Counting:
    """A page in which a job counts: its cell, its view and its log beside each other."""

    def __init__(self, lab: LabPage, end: Path) -> None:
        self._end = end
        lab.notebook(NAME, LOAD, CODE.format(end=str(end)))
        lab.run(0)
        lab.has_run(0)
        lab.run(1)
        is_state(glance(lab.cell(1)), "Running")
        lab.command("docmanager:save")  # else the page would ask before it goes
        self.shown_in(lab)

    def shown_in(self, lab: LabPage) -> None:
        """Open what there is of the job in a page that has its notebook open."""
        self.lab = lab
        self.log = lab.log(NAME)
        self.card = glance(lab.cell(1))
        lab.command("jaxtrain:show-jobs")
        lab.command("jaxtrain:open-job", key=NAME, split=True)
        lab.command("jaxtrain:open-log", key=NAME, split=True)
        self.sees_more()

    def printed(self) -> int:
        """Give how much the job has printed."""
        return JobDir(api.job(NAME).directory).log(0).stat().st_size

    def prints_more(self) -> None:
        """Wait until the job has printed some fifty lines more."""
        goal = self.printed() + 600
        eventually(lambda: self.printed() > goal)

    def sees_more(self) -> None:
        """Wait until the viewer shows lines that have been printed from now on."""
        self.prints_more()
        before = int(self.log.rows.last.inner_text().split()[-1])
        self.lab.page.wait_for_function(
            """([list, before]) => {
                const rows = [...list.querySelectorAll('.jaxtrain-log-text')];
                return rows.some(row => Number(row.textContent.split(' ')[1]) > before + 50);
            }""",
            arg=[self.log.list.element_handle(), before], timeout=90_000,
        )  # fmt: skip

    def check(self) -> None:
        """End the job; the viewer has all its lines, and list, view and card know of the end."""
        lab = self.lab
        expect(lab.job(NAME).locator("header .jaxtrain-state")).to_have_text("Running")
        moves(self.card)
        expect(self.card).not_to_contain_text(SILENT)
        is_state(self.card, "Running")
        self._end.touch()
        self.log.last_is("all numbers")
        count = int(self.log.rows.last.inner_text().split()[-1])
        assert self.log.lines() == [*(f"number {n}" for n in range(count)), f"all numbers {count}"]
        expect(lab.row(NAME).locator(".jaxtrain-state")).to_have_text("Succeeded")
        expect(lab.job(NAME).locator("header .jaxtrain-state")).to_have_text("Succeeded")
        is_state(self.card, "Succeeded")
        assert api.job(NAME).state == "Succeeded"


@pytest.fixture
def counting(
    open_page: Callable[..., LabPage], tmp_path: Path
) -> Iterator[Callable[..., Counting]]:
    end = tmp_path / "end"
    yield lambda **options: Counting(open_page(viewport=WIDE, **options), end)
    end.touch()


def test_a_reload(counting):
    job = counting()
    job.lab.reload()
    job.sees_more()
    job.check()


@contextlib.contextmanager
def asleep(browser: Browser) -> Iterator[None]:
    """Stop all pages of the browser, timers and all, as a laptop that is closed does."""
    processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    pages = [process["id"] for process in processes if process["type"] == "renderer"]
    try:
        _send(signal.SIGSTOP, pages)
        yield
    finally:
        _send(signal.SIGCONT, pages)


def _send(number: signal.Signals, processes: list[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):  # a browser has some to spare
            os.kill(process, number)


def test_a_page_that_sleeps(counting, browser):
    job = counting()
    job.lab.evaluate(
        """() => {
            let last = performance.now();
            window.longest = 0;
            setInterval(() => {
                const now = performance.now();
                window.longest = Math.max(window.longest, now - last);
                last = now;
            }, 20);
        }"""
    )
    with asleep(browser):
        began = time.monotonic()
        for _ in range(4):
            job.prints_more()
        slept = time.monotonic() - began
    job.sees_more()
    assert job.lab.evaluate("() => window.longest") > slept * 700, "its timers went on"
    job.check()


def test_a_closed_browser(counting, open_page):
    job = counting()
    job.lab.page.context.close()
    job.prints_more()
    lab = open_page(viewport=WIDE)
    lab.command("docmanager:open", path=f"{NAME}.ipynb")
    is_state(glance(lab.cell(1)), "Running")
    job.shown_in(lab)
    job.check()


def test_a_restart_of_the_kernel(counting):
    job = counting()
    lab = job.lab
    lab.allow("Could not restore the debugger state")  # JupyterLab's own, when it is too quick
    lab.page.get_by_role("tab", name="counting.ipynb").click()
    lab.page.get_by_role("button", name="Restart the kernel", exact=True).click()
    lab.page.get_by_role("button", name="Confirm Kernel Restart").click()
    lab.kernel_is("idle")
    lab.command("jaxtrain:open-job", key=NAME)
    job.sees_more()
    job.check()


def test_a_restart_of_the_server(counting):
    job = counting()
    # While the server is away, requests of Lab and of ours fail, and Lab says so in a dialog.
    # After that its kernels are unknown.
    job.lab.allow(r"net::ERR_CONNECTION_REFUSED", "WebSocket connection to", r"404 .*/api/kernels/")
    server = job.lab.server
    server.stop()
    for view in (job.lab.jobs, job.lab.job(NAME), job.log.node, job.card):
        expect(view).to_contain_text(SILENT)
    is_state(job.card, "Running")
    job.prints_more()
    server.start()
    job.sees_more()
    job.check()
    # The kernel is gone, so the card is the one to show the last lines.
    expect(job.card.get_by_role("group", name="Last lines")).to_contain_text("all numbers")


@pytest.mark.slow
def test_a_minute_without_network(counting, lab_server):
    proxy = Proxy(lab_server.port)
    try:
        job = counting(port=proxy.port)
        moves(job.card)
        job.lab.allow("net::ERR_INTERNET_DISCONNECTED", "WebSocket connection to")
        context = job.lab.page.context
        proxy.cut()
        context.set_offline(True)
        began = time.monotonic()
        job.prints_more()
        eventually(lambda: time.monotonic() - began > 60, 90)
        context.set_offline(False)
        proxy.mend()
        job.sees_more()
        job.check()
    finally:
        proxy.close()
