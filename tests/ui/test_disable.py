"""Each plugin can be left out."""

from __future__ import annotations

import pytest
from harness import submit
from playwright.sync_api import expect

PLUGINS = {
    "jobs": "jaxtrain:show-jobs",
    "runtimes": "jaxtrain:show-runtimes",
    "logs": "jaxtrain:open-log",
}


@pytest.fixture
def without(lab_server):
    yield lab_server.disable
    lab_server.disable()


ALL = [*PLUGINS, "mime", "status"]


@pytest.mark.parametrize("plugin", ALL)
def test_one_plugin_is_left_out(plugin, without, open_page):
    without(f"jupyter-jax-trainer:{plugin}")
    job = submit("print('hello')", line="-n 1").wait(60)
    lab = open_page()
    plugins = lab.evaluate(
        "names => names.filter(name => window.jupyterapp.hasPlugin(`jupyter-jax-trainer:${name}`))",
        ALL,
    )
    assert plugins == [name for name in ALL if name != plugin]
    there = lab.evaluate(
        "names => names.filter(name => window.jupyterapp.commands.hasCommand(name))",
        list(PLUGINS.values()),
    )
    assert there == [command for name, command in PLUGINS.items() if name != plugin]
    if plugin != "jobs":
        lab.command("jaxtrain:show-jobs")
        expect(lab.row(job.name)).to_be_visible()
        lab.row(job.name).click()
        expect(lab.job(job.name).locator("header .jaxtrain-state")).to_have_text("Succeeded")
    if plugin != "logs":
        lab.command("jaxtrain:open-log", key=job.name)
        lab.log(job.name).last_is("hello")
    if plugin != "runtimes":
        lab.command("jaxtrain:show-runtimes")
        expect(lab.picker.get_by_role("radio", name="local-cpu")).to_be_visible()


def test_without_the_connection_there_is_nothing_of_ours_and_jupyterlab_is_as_it_was(
    without, open_page
):
    without("jupyter-jax-trainer:connection")
    lab = open_page()
    lab.allow("No provider for: jupyter-jax-trainer:IConnection")
    there = lab.evaluate("() => window.jupyterapp.commands.listCommands()")
    assert "notebook:run-cell" in there and not [
        name for name in there if name.startswith("jaxtrain:")
    ]
    lab.notebook("plain", "print(6 * 7)")
    lab.run(0)
    expect(lab.cell(0).locator(".jp-OutputArea-output")).to_have_text("42")
