"""From a runtime of a cluster to its pods' logs, in JupyterLab."""

from __future__ import annotations

import re

import pytest
from cluster.conftest import cluster, namespace
from cluster.jobs import PATIENCE, stop_followers
from playwright.sync_api import expect

from ui.labs import Lab
from ui.pages import LOAD

__all__ = ["cluster", "namespace"]  # fixtures

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

CODE = """import time
from jupyter_jax_trainer import report
for step in range(100_000):
    report(step=step, loss=1 / (step + 1))
    print(f"step {step}")
    time.sleep(0.05)
"""
WAIT = PATIENCE * 1000


@pytest.fixture
def desk(cluster, namespace, ui_home, tmp_path):
    """Give a JupyterLab whose kubeconfig names the namespace of this test."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster("config", "view", "--raw", "--flatten"))
    cluster("--kubeconfig", str(kubeconfig), "config", "set-context", "--current",
            f"--namespace={namespace.name}")  # fmt: skip
    server = Lab(tmp_path, ui_home, kubeconfig)
    yield server
    server.stop()
    stop_followers(ui_home)


def test_the_whole_path_on_a_cluster(open_page, desk, namespace, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))  # the fixtures clean up with it
    lab = open_page(desk)
    page, picker = lab.page, lab.picker
    lab.notebook("cluster", LOAD, CODE)
    lab.run(0)
    lab.has_run(0)
    lab.cell(1).click()
    page.get_by_role("tab", name="Runtimes for JAX Training").click()
    places = picker.get_by_label("Run on")
    there = places.locator("option").filter(has_text="kubernetes")
    places.select_option(there.first.get_attribute("value"))
    picker.get_by_role("radio", name=re.compile("^jax-cpu")).click(timeout=WAIT)
    picker.get_by_label("Nodes").fill("2")
    picker.get_by_role("button", name="Insert").click()
    expect(lab.cell(1)).to_contain_text("%%jaxtrain")
    first = lab.source(1).splitlines()[0]
    assert re.search(r"-n 2\b", first) and "-r jax-cpu" in first, first
    picker.get_by_role("button", name="Run cell").click()

    page.get_by_role("tab", name="JAX Training", exact=True).click()
    row = lab.jobs.locator(".jaxtrain-row").first
    expect(row.locator(".jaxtrain-state")).to_have_text("Running", timeout=WAIT)
    key = str(row.get_attribute("data-key"))
    row.click()
    job = lab.job(key)
    pods = namespace.pods(key)
    for pod in pods:  # names are cut in the middle, and whole in the tip
        expect(job.get_by_title(pod["metadata"]["name"]).first).to_be_visible()
    job.get_by_role("button", name="Log", exact=True).first.click()
    log = lab.log(key)
    expect(log.rows.last).to_contain_text(re.compile(r"step \d+"), timeout=WAIT)
    before = log.rows.last.inner_text()
    expect(log.rows.last).not_to_have_text(before)
    assert len(pods) == 2
    expect(log.node.locator(".jaxtrain-rank").filter(has_text="1").first).to_be_visible()

    job.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel Job").click()
    expect(row.locator(".jaxtrain-state")).to_have_text("Cancelled", timeout=WAIT)
    expect(log.status).not_to_contain_text("following")
    assert log.lines()  # what was printed stays
