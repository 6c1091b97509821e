"""Whatever page, kernel, server and network go through, every line of a job is there, once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import eventually
from playwright.sync_api import expect

from jupyter_jax_trainer import api
from jupyter_jax_trainer.jobdir import JobDir
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
        report(step=number, half=number / 2)
    number += 1
    time.sleep(0.02)
print("all numbers", number)
"""
NAME = "counting"


class Counting:
    """A page in which a job counts, with its view and its log open beside each other."""

    def __init__(self, lab: LabPage, end: Path) -> None:
        self.lab = lab
        self._end = end
        lab.notebook("counting", LOAD, CODE.format(end=str(end)))
        lab.run(0)
        lab.has_run(0)
        lab.run(1)
        lab.command("jaxtrain:show-jobs")
        expect(lab.row(NAME).locator(".jaxtrain-state")).to_have_text("Running", timeout=60_000)
        lab.command("docmanager:save")  # else the page would ask before it goes
        lab.command("jaxtrain:open-job", key=NAME)
        lab.command("jaxtrain:open-log", key=NAME, split=True)
        self.log = lab.log(NAME)
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
        """End the job; the viewer has all its lines, and list and view know of the end."""
        lab = self.lab
        expect(lab.job(NAME).locator("header .jaxtrain-state")).to_have_text("Running")
        self._end.touch()
        self.log.last_is("all numbers")
        count = int(self.log.rows.last.inner_text().split()[-1])
        assert self.log.lines() == [*(f"number {n}" for n in range(count)), f"all numbers {count}"]
        expect(lab.row(NAME).locator(".jaxtrain-state")).to_have_text("Succeeded")
        expect(lab.job(NAME).locator("header .jaxtrain-state")).to_have_text("Succeeded")
        assert api.job(NAME).state == "Succeeded"


@pytest.fixture
def counting(
    open_page: Callable[..., LabPage], tmp_path: Path
) -> Iterator[Callable[..., Counting]]:
    end = tmp_path / "end"
    yield lambda **options: Counting(open_page(**options), end)
    end.touch()


def test_a_reload(counting):
    job = counting()
    job.lab.reload()
    job.sees_more()
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
    expect(job.lab.page.get_by_text("No connection: this may be out of date.").first).to_be_visible()
    job.prints_more()
    server.start()
    job.sees_more()
    job.check()


@pytest.mark.slow
def test_a_minute_without_network(counting, lab_server):
    proxy = Proxy(lab_server.port)
    try:
        job = counting(port=proxy.port)
        job.lab.allow("net::ERR_INTERNET_DISCONNECTED", "WebSocket connection to")
        context = job.lab.page.context
        proxy.cut()
        context.set_offline(True)
        began = time.monotonic()
        eventually(lambda: time.monotonic() - began > 60, 90)
        context.set_offline(False)
        proxy.mend()
        job.sees_more()
        job.check()
    finally:
        proxy.close()
