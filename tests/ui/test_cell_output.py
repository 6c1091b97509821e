"""A job in the output of its cell: live past the kernel and the page, and with its end when saved."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from harness import eventually, wait_for
from playwright.sync_api import expect

from jupyter_jax_trainer import api
from jupyter_jax_trainer.messages import views as say
from ui.cells import PANEL, SLOW, Job, begin, begin_waiting, button, is_state, job_summary, moves
from ui.pages import LabPage


def save(lab: LabPage) -> None:
    lab.command("docmanager:save")
    assert not is_dirty(lab)


def is_dirty(lab: LabPage) -> bool:
    return bool(lab.evaluate("() => window.jupyterapp.shell.currentWidget.context.model.dirty"))


STDOUT = ".jp-OutputArea-output[data-mime-type*=stdout]"


def bundle(lab: LabPage, number: int) -> dict[str, Any]:
    """Return what the notebook has of the job in the output of a cell."""
    found: list[dict[str, Any]] = lab.evaluate(
        """number => {
            const { model } = window.jupyterapp.shell.currentWidget.content.widgets[number];
            return model.outputs.toJSON().map(({ data }) => data).filter(Boolean);
        }""",
        number,
    )
    return next((data for data in found if "application/vnd.jaxtrain.job+json" in data), {})


def test_from_the_start_to_a_cancel(lab, job):
    view = begin_waiting(lab, "whole", job)
    expect(view).to_contain_text("sent gate Gate")
    job.open_gate()
    is_state(view, "Running")
    moves(view)
    tail = view.get_by_role("group", name="Last lines")
    expect(tail).to_have_count(0)  # the cell prints them below
    expect(lab.cell(1).locator(STDOUT)).to_contain_text("first line", timeout=SLOW)

    # The cell lets go; its view doesn't.
    button(view, "Detach").click()
    lab.has_run(1)
    expect(lab.cell(1)).to_contain_text(f"Detached. Job '{job.name}'")
    expect(button(view, "Detach")).to_have_count(0)
    is_state(view, "Running")
    expect(tail).to_contain_text("first line")
    moves(view)

    lab.restart_kernel()
    moves(view)

    button(view, "Open").click()
    page = lab.job(job.name)
    expect(page.locator("header .jaxtrain-state")).to_have_text("Running")
    expect(page).to_be_in_viewport()
    expect(view).to_be_in_viewport()  # the job's page is beside the notebook
    moves(view)

    cancel, asked = button(view, "Cancel"), lab.page.get_by_role("dialog")
    cancel.click()
    asked.get_by_role("button", name="Keep").click()
    expect(asked).to_have_count(0)
    assert api.job(job.name).state == "Running"
    cancel.click()
    asked.get_by_role("button", name="Cancel Job").click()
    is_state(view, "Cancelled")
    assert api.job(job.name).state == "Cancelled"
    expect(cancel).to_have_count(0)
    expect(tail).to_contain_text("first line")  # no cell has printed it to the end


def test_a_running_job_leaves_the_document_alone(lab, job):
    view = begin(lab, job)
    # With the widget the document has all that it will have until the end.
    eventually(lambda: "application/vnd.jupyter.widget-view+json" in bundle(lab, 1))
    expect(lab.cell(1).locator(STDOUT)).to_contain_text("first line", timeout=SLOW)
    save(lab)
    lab.evaluate(
        """() => {
            const { model } = window.jupyterapp.shell.currentWidget.context;
            window.changes = 0;
            model.contentChanged.connect(() => window.changes++);
        }"""
    )
    reports = len(api.job(job.name).metrics())
    moves(view)
    eventually(lambda: len(api.job(job.name).metrics()) > reports + 60)
    assert lab.evaluate("() => window.changes") == 0
    assert not is_dirty(lab)

    # JupyterLab's own, when the kernel closes a widget that it opened before the page came.
    lab.allow("Comm not found for comm id")
    # A page that comes anew while the cell waits has the view from the notebook, and goes on.
    lab.reload()
    view = job_summary(lab.cell(1))
    is_state(view, "Running")
    moves(view)
    assert not is_dirty(lab)
    job.end()
    is_state(view, "Succeeded")


def test_what_a_finished_job_leaves(lab, job):
    view = begin(lab, job)
    moves(view)
    job.end()
    lab.has_run(1)
    is_state(view, "Succeeded")
    # The cell has printed the lines.
    expect(view.get_by_role("group", name="Last lines")).to_have_count(0)
    expect(lab.cell(1).get_by_text("all numbers")).to_have_count(2)  # in the code, too
    expect(button(view, "Cancel")).to_have_count(0)
    expect(button(view, "Open")).to_be_visible()
    said = bundle(lab, 1)["application/vnd.jaxtrain.job+json"]
    assert said["printed"] is True
    assert said["last"]["row"]["state"] == "Succeeded"
    assert is_dirty(lab)
    save(lab)

    numbers = view.locator(".jaxtrain-job-summary-numbers").text_content()
    api.job(job.name).delete()
    expect(view).to_contain_text("no longer exists")
    lab.reload()
    expect(view).to_contain_text("as saved in the notebook", timeout=SLOW)
    expect(view.get_by_role("group", name="Last lines")).to_have_count(0)
    is_state(view, "Succeeded")
    expect(view.locator(".jaxtrain-job-summary-numbers")).to_have_text(numbers or "")
    expect(view.get_by_role("img", name=re.compile("^loss is "))).to_be_visible()
    expect(view.get_by_role("button")).to_have_count(1)
    expect(button(view, "Copy name")).to_be_visible()
    assert not is_dirty(lab)


def test_all_views_show_the_same(lab: LabPage, open_page: Callable[..., LabPage], job: Job) -> None:
    again = "import jupyter_jax_trainer\njupyter_jax_trainer.job('count')"
    first = begin(lab, job, again, options="--detach")
    lab.has_run(1)
    lab.run(2)
    lab.has_run(2)
    second = job_summary(lab.cell(2))
    is_state(second, "Running")
    save(lab)

    # A view of the output beside the notebook, and the notebook in another tab of the browser.
    lab.cell(1).locator(".cm-content").click()
    lab.command("notebook:create-output-view")
    beside = job_summary(lab.page.locator(".jp-LinkedOutputView"))
    expect(button(first, "Cancel")).to_be_visible()
    other = open_page(beside=lab, path="lab/workspaces/other?reset")
    other.command("docmanager:open", path="count.ipynb")
    in_tab = [job_summary(other.cell(1)), job_summary(other.cell(2))]
    for view in in_tab:
        moves(view)
    lab.page.bring_to_front()
    views = [first, second, beside]
    for view in views:
        moves(view)
        expect(view.get_by_role("group", name="Last lines")).to_contain_text("first line")
    job.end()
    wait_for(api.job(job.name), "Succeeded")
    for page, those in ((lab, views), (other, in_tab)):
        page.page.bring_to_front()
        for view in those:
            is_state(view, "Succeeded")
    shown = {
        view.locator(".jaxtrain-job-summary-numbers").text_content() for view in [*views, *in_tab]
    }
    assert len(shown) == 1, shown


def test_what_is_near_the_window_is_ready(lab, job):
    tall = "from IPython.display import HTML\nHTML('<div style=\"height: 4000px\">tall</div>')"
    view = begin(lab, job, tall, options="--detach")
    lab.has_run(1)
    lab.run(2)
    lab.has_run(2)

    def scroll(past: int) -> None:
        """Scroll until the view ends so far above what can be seen."""
        view.evaluate(
            """(view, past) => {
                const outer = view.closest('.jp-WindowedPanel-outer');
                const { bottom } = view.getBoundingClientRect();
                outer.scrollTop += bottom - outer.getBoundingClientRect().top + past;
            }""",
            past,
        )
        expect(view).not_to_be_in_viewport()

    numbers = view.locator(".jaxtrain-job-summary-numbers")
    scroll(100)
    for _ in range(3):
        expect(numbers).not_to_have_text(numbers.text_content() or "")
    scroll(1000)
    job.end()
    wait_for(api.job(job.name), "Succeeded")
    scroll(100)
    expect(view.locator(".jaxtrain-state")).to_have_text("Succeeded")


def test_the_panel(lab, job):
    begin(lab, job, PANEL, options="--detach")
    lab.has_run(1)
    lab.run(2)
    lab.has_run(2)
    panel = lab.cell(2).locator(".jaxtrain-panel")
    expect(panel.get_by_role("region", name="Runtimes")).to_be_visible(timeout=SLOW)
    row = panel.locator(f".jaxtrain-row[data-key='{job.name}']")
    expect(row.locator(".jaxtrain-state")).to_have_text("Running")

    panel.get_by_role("radio", name=re.compile("^local-cpu")).click()
    panel.get_by_role("textbox", name="Nodes").fill("3")
    line = "%%jaxtrain -n 3 -r local-cpu"
    expect(panel.locator("pre", has_text=line)).to_be_visible()
    panel.get_by_role("button", name="Insert into the next cell").click()
    expect(panel.get_by_text(str(say.INSERTED_LATER()))).to_be_visible()

    # From the list to the job and its log, and back.
    row.click()
    view = panel.locator(".jaxtrain-job")
    expect(view.locator("header .jaxtrain-state")).to_have_text("Running")
    view.get_by_role("button", name="Log", exact=True).first.click()
    rows = panel.locator(".jaxtrain-log-row")
    expect(rows.last).to_contain_text("first line")
    job.end()
    expect(rows.last).to_contain_text("all numbers", timeout=SLOW)
    panel.get_by_role("button", name="← Back").click()
    expect(view.locator("header .jaxtrain-state")).to_have_text("Succeeded")
    panel.get_by_role("button", name="← Back").click()
    expect(row.locator(".jaxtrain-state")).to_have_text("Succeeded")

    lab.run(0)
    expect(lab.cell(1)).to_contain_text(line)
