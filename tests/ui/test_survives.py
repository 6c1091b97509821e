"""Whatever page, kernel, server and network go through, every line of a job is there, once."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import eventually
from playwright.sync_api import Browser, expect

from ui.cells import is_state, job_summary, moves
from ui.counting import AWAY, NAME, SILENT, CountingBeside, cells
from ui.cutting import Proxy
from ui.pages import LabPage

WIDE = {"width": 1900, "height": 900}


@pytest.fixture
def counting(
    open_page: Callable[..., LabPage], tmp_path: Path
) -> Iterator[Callable[..., CountingBeside]]:
    end = tmp_path / "end"

    def begin(**options: Any) -> CountingBeside:
        lab = open_page(own=True, viewport=WIDE, **options)
        lab.notebook(NAME, *cells(end))
        return CountingBeside(lab, end)

    yield begin
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


@pytest.mark.release
def test_a_closed_browser(counting, open_page):
    job = counting()
    job.lab.page.context.close()
    job.prints_more()
    lab = open_page(viewport=WIDE)
    lab.command("docmanager:open", path=f"{NAME}.ipynb")
    is_state(job_summary(lab.cell(1)), "Running")
    job.shown_in(lab)
    job.check()


def test_a_restart_of_the_kernel(counting):
    job = counting()
    lab = job.lab
    lab.page.get_by_role("tab", name="counting.ipynb").click()
    lab.restart_kernel()
    lab.command("jaxtrain:open-job", key=NAME)
    job.sees_more()
    job.check()


def test_a_restart_of_the_server(counting):
    job = counting()
    job.lab.allow(*AWAY)
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
@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        pytest.param(True, 5, id="told"),
        # Until it is noticed, which takes three quarters of a minute.
        pytest.param(False, 0, id="silent", marks=pytest.mark.release),
        pytest.param(True, 60, id="told-for-a-minute", marks=pytest.mark.release),
        pytest.param(False, 60, id="silent-for-a-minute", marks=pytest.mark.release),
    ],
)
def test_a_time_without_network(counting, lab_server, told, seconds):
    """With and without the browser's knowing: what forgets connections need not be this machine."""
    proxy = Proxy(lab_server.port)
    try:
        job = counting(port=proxy.port)
        moves(job.card)
        job.lab.allow("net::ERR_INTERNET_DISCONNECTED", "WebSocket connection to")
        context = job.lab.page.context
        proxy.cut()
        context.set_offline(told)
        began = time.monotonic()
        job.prints_more()
        for view in () if told else (job.lab.jobs, job.lab.job(NAME), job.log.node, job.card):
            expect(view).to_contain_text(SILENT, timeout=70_000)
        eventually(lambda: time.monotonic() - began > seconds, 90)
        context.set_offline(False)
        proxy.mend()
        job.sees_more()
        job.check()
    finally:
        proxy.close()
