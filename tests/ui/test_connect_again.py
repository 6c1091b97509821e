"""Where there is no connection: what the page says, and that all is there when somebody asks for it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest
from harness import eventually
from made_jobs import running_job
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import expect
from server.servers import Page
from websocket import WebSocketBadStatusException

from jupyter_jax_trainer.jobdir import files
from ui.cells import SLOW
from ui.counting import AWAY, SILENT
from ui.labs import Lab

# JupyterLab is not concerned by any of this, but for rights to jobs.
CONFIG = """
from pathlib import Path
from jupyter_server.auth import Authorizer


class Listed(Authorizer):
    async def is_authorized(self, handler, user, action, resource):
        return f"{{action}} {{resource}}" not in Path({refused!r}).read_text().splitlines()


c.ServerApp.authorizer_class = Listed
c.JaxTrain.max_pages = 3
"""
WITHOUT = ("--ServerApp.jpserver_extensions={'jupyter_jax_trainer.server': False}",)


@pytest.fixture(scope="module")
def server(ui_home, tmp_path_factory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    (folder / "refused").write_text("")
    (folder / "config").mkdir()
    config = CONFIG.format(refused=str(folder / "refused"))
    (folder / "config" / "jupyter_server_config.py").write_text(config)
    server = Lab(folder, ui_home)
    yield server
    server.stop()


def refuse(server, what):
    (server.root.parent / "refused").write_text(what)


@pytest.fixture
def job(jobs_home):
    with running_job("fit", created=time.time(), logs={0: ["first line"]}) as directory:
        yield directory


def report(job, step):
    progress = {
        "step": step,
        "total": 100,
        "fraction": step / 100,
        "metrics": {},
        "time": time.time(),
    }
    files.write_json(job.state, {**job.read_state(), "progress": progress})


def connected(server):
    """Return a page; those of the test before may have to go first."""

    def connect():
        with contextlib.suppress(WebSocketBadStatusException):
            return Page(server)

    return eventually(connect)


def dismissing(page):
    """Have what JupyterLab says of its server dismissed when it is in the way."""
    dialog = page.page.locator(".jp-Dialog")
    page.page.add_locator_handler(dialog, lambda: dialog.get_by_role("button").last.click())


@pytest.mark.release
@pytest.mark.timeout(300)  # three pages, and a server that starts three times
def test_a_server_part_that_was_missing_for_a_while(server, job, open_page):
    first = open_page(server=server, viewport={"width": 1900, "height": 900})
    first.allow(*AWAY, "404")
    first.command("jaxtrain:show-jobs")
    first.command("jaxtrain:open-job", key="fit")
    first.command("jaxtrain:open-log", key="fit", split=True)
    views = (first.jobs, first.job("fit"), first.log("fit").node)
    first.log("fit").last_is("first line")
    for view in views:
        expect(view).not_to_contain_text(SILENT)

    # The server comes back without its part: the page looks for that every five minutes from now on.
    def is_missing(answer):
        return "jaxtrain/api/jobs" in answer.url and answer.status == 404

    server.stop()
    server.enabling = WITHOUT
    try:
        with first.page.expect_response(is_missing, timeout=60_000):
            server.start(404)
        others = [open_page(server=server) for _ in range(2)]
        for page in others:
            page.allow(*AWAY, "404")
            page.command("jaxtrain:show-jobs")
            expect(page.jobs).to_contain_text("Server extension not found", timeout=SLOW)
            expect(page.jobs).to_contain_text("jupyter server extension enable jupyter_jax_trainer")
    finally:
        del server.enabling
        server.stop()
        server.start()
    for page in (first, *others):
        dismissing(page)

    # Each of the ways to ask for it.
    for view in views:
        expect(view).to_contain_text(SILENT)
    views[-1].get_by_role("button", name="Reconnect now").click()
    others[0].jobs.get_by_role("button", name="Try again").click()
    others[1].palette("Reconnect to Training Jobs")
    for view in views:
        expect(view).not_to_contain_text(SILENT, timeout=SLOW)
    report(job, 77)
    expect(first.job("fit")).to_contain_text("77 %", timeout=SLOW)
    for page in (first, *others):
        expect(page.row("fit")).to_contain_text("77 %", timeout=SLOW)
        report(job, 78)
        expect(page.row("fit")).to_contain_text("78 %", timeout=SLOW)
        report(job, 77)


def test_who_may_not_see_jobs_sees_them_when_he_may(server, job, open_page):
    refuse(server, "read jaxtrain\n")
    try:
        page = open_page(server=server)
        page.allow("403")
        page.command("jaxtrain:show-jobs")
        page.command("jaxtrain:open-job", key="fit")
        for view in (page.jobs, page.job("fit")):
            expect(view).to_contain_text(
                "No permission to see the jobs of this server", timeout=SLOW
            )
            expect(view).to_contain_text("Log in again, or ask the administrator of this server.")
    finally:
        refuse(server, "")
    # By the button, or by itself: the page tries it every half a minute at least.
    with contextlib.suppress(PlaywrightError):
        page.job("fit").get_by_role("button", name="Try again").click(timeout=2000)
    expect(page.row("fit")).to_contain_text("24 %", timeout=SLOW)
    expect(page.job("fit").locator("header .jaxtrain-state")).to_have_text("Running")


def test_one_page_too_many_is_told_and_comes_in_when_another_goes(server, job, open_page):
    with contextlib.ExitStack() as pages:
        for _ in range(3):
            pages.callback(connected(server).socket.shutdown)
        page = open_page(server=server)
        page.allow("503")
        page.command("jaxtrain:show-jobs")
        expect(page.jobs).to_contain_text("No connection to the Jupyter server", timeout=SLOW)
        expect(page.jobs).to_contain_text("too many pages may be open")
        expect(page.jobs.get_by_role("button", name="Try again")).to_be_visible()
    expect(page.row("fit")).to_contain_text("24 %", timeout=SLOW)
