"""The output of a cell goes on by itself after a restart of the server and a minute without network."""

from __future__ import annotations

import time

import pytest
from harness import eventually
from playwright.sync_api import expect

from jupyter_jax_trainer import api
from ui.cells import begin, is_state, moves
from ui.cutting import Proxy

SILENT = "No connection: this may be out of date."


def reports_more(job) -> None:
    """Wait until the job has reported some more, whether or not anybody hears of it."""
    before = len(list(api.job(job.name).metrics()))
    eventually(lambda: len(list(api.job(job.name).metrics())) > before + 50)


def goes_on_to_its_end(view, job) -> None:
    moves(view)
    expect(view).not_to_contain_text(SILENT)
    is_state(view, "Running")
    job.end()
    is_state(view, "Succeeded")


def test_a_restart_of_the_server(lab, job):
    view = begin(lab, job)
    moves(view)
    # While the server is away, requests of Lab and of ours fail, and Lab says so in a dialog.
    # After that its kernels are unknown.
    lab.allow(r"net::ERR_CONNECTION_REFUSED", "WebSocket connection to", r"404 .*/api/kernels/")
    lab.server.stop()
    expect(view).to_contain_text(SILENT)
    is_state(view, "Running")
    reports_more(job)
    lab.server.start()
    goes_on_to_its_end(view, job)
    # The kernel is gone, so the card is the one to show the last lines.
    expect(view.get_by_role("group", name="Last lines")).to_contain_text("all numbers")


@pytest.mark.slow
def test_a_minute_without_network(open_page, lab_server, job):
    proxy = Proxy(lab_server.port)
    try:
        lab = open_page(port=proxy.port)
        view = begin(lab, job)
        moves(view)
        lab.allow("net::ERR_INTERNET_DISCONNECTED", "WebSocket connection to")
        context = lab.page.context
        proxy.cut()
        context.set_offline(True)
        began = time.monotonic()
        reports_more(job)
        eventually(lambda: time.monotonic() - began > 60, 90)
        context.set_offline(False)
        proxy.mend()
        goes_on_to_its_end(view, job)
    finally:
        proxy.close()
