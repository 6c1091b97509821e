"""The form of the picker and the line of a cell: each follows the other, and nothing else changes."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator

import pytest
from harness import eventually
from playwright.sync_api import expect

from jupyter_jax_trainer.messages import options as say
from jupyter_jax_trainer.options.spec import parse_cell_line, spec_from_options
from ui.cutting import hold_questions
from ui.labs import Lab
from ui.pages import LabPage
from ui.walk.conftest import NOWHERE

WHOLE = say.NOT_WHOLE(option="--devices-per-node", low=1, high=1024, value="'none'")
# A field, what nobody can mean there, what is said of that, and what is right.
FIELDS = [
    ("Devices per node", "none", WHOLE, "2"),
    ("Namespace", "Team A", "valid Kubernetes", "team-a"),
    ("Result variables", "loss[0]", "a variable", "loss, params"),
    ("Cores per node", "many", "of cores", "1.5"),
    ("Memory per node", "512m", "Did you mean 512Mi?", "16Gi"),
    ("Time limit", "soon", "a duration", "1h30m"),
    ("Queue", "fast lane", "valid Kubernetes", "fast-lane"),
]
MEANT = spec_from_options(
    backend="kubernetes",
    devices_per_node=2,
    namespace="team-a",
    out=["loss", "params"],
    cpu="1.5",
    memory="16Gi",
    timeout="1h30m",
    queue="fast-lane",
)

CELL = """%%jaxtrain -n 3   --store /tmp/x -o loss  # for the "paper"
loss = 1
"""


def test_the_form_and_the_line_follow_each_other(lab):
    lab.notebook("trip", CELL)
    code = lab.cell(0).locator(".cm-content")
    code.click()
    lab.command("jaxtrain:show-runtimes")
    picker = lab.picker
    nodes, out = picker.get_by_label("Nodes"), picker.get_by_label("Result variables")
    expect(nodes).to_have_value("3")
    expect(out).to_have_value("loss")
    assert lab.source(0) == CELL

    # From the cell into the form.
    code.click()
    lab.keys("ControlOrMeta+Home", *["ArrowRight"] * len("%%jaxtrain -n 3"), "Backspace", "4")
    expect(nodes).to_have_value("4")
    assert lab.source(0) == CELL.replace("-n 3", "-n 4")

    # From the form into the cell: one option, and the rest as it stands, with its blanks.
    nodes.fill("5")
    eventually(lambda: lab.source(0) == CELL.replace("-n 3", "-n 5"))
    out.fill("loss, accuracy")
    changed = CELL.replace("-n 3", "-n 5").replace("-o loss", "-o loss,accuracy")
    eventually(lambda: lab.source(0) == changed)

    # The notebook takes it back as it does what was typed, and the form goes back with it.
    code.click()
    lab.keys("ControlOrMeta+Z")
    eventually(lambda: lab.source(0) != changed)
    for _ in range(4):
        if lab.source(0) != CELL:
            lab.keys("ControlOrMeta+Z")
    assert lab.source(0) == CELL
    expect(nodes).to_have_value("3")
    expect(out).to_have_value("loss")


def test_what_the_form_does_not_know_stays(lab):
    cell = "%%jaxtrain -n 2 --colour 'light blue' $PLACE\n1 + 1\n"
    lab.notebook("stays", cell)
    lab.cell(0).locator(".cm-content").click()
    lab.command("jaxtrain:show-runtimes")
    nodes = lab.picker.get_by_label("Nodes")
    expect(nodes).to_have_value("2")
    nodes.fill("6")
    eventually(lambda: lab.source(0) == cell.replace("-n 2", "-n 6"))


@pytest.fixture
def far(lab_server: Lab) -> Iterator[None]:
    """Let there be a cluster, which does not answer: a line needs none."""
    lab_server.kubeconfig.write_text(json.dumps(NOWHERE))
    yield
    lab_server.kubeconfig.unlink()


def test_what_is_typed_into_each_field(far, lab):
    lab.allow("503")  # of the cluster that does not answer
    lab.notebook("fields", "1 + 1")
    lab.command("jaxtrain:show-runtimes")
    picker = lab.picker
    picker.get_by_label("Run on").select_option(label="kubernetes · far (current)")
    picker.get_by_role("button", name="More").click()
    line, insert = picker.locator(".jaxtrain-foot pre"), picker.get_by_role("button", name="Insert")

    for label, wrong, said, right in FIELDS:
        field = picker.get_by_label(label, exact=True)
        told = picker.locator(".jaxtrain-errors", has_text=said)
        field.fill(wrong)
        lab.keys("Tab")
        expect(told).to_be_visible()
        expect(field).to_have_value(wrong)  # to be mended, not to be typed again
        expect(line).not_to_contain_text(wrong)
        expect(insert).to_have_attribute("aria-disabled", "true")
        field.fill(right)
        lab.keys("Tab")
        expect(told).to_have_count(0)
        expect(line).to_contain_text(right.replace(" ", ""))
    expect(insert).to_have_attribute("aria-disabled", "false")
    insert.click()
    eventually(lambda: lab.source(0) == f"{line.inner_text()}\n1 + 1")
    assert parse_cell_line(line.inner_text().removeprefix("%%jaxtrain")) == MEANT

    # On this machine some of it has no meaning, and each field says so itself.
    picker.get_by_label("Run on").select_option(label="this machine")
    strays = picker.locator(".jaxtrain-field", has_text="Only applies on Kubernetes.")
    expect(strays).to_have_count(2)
    expect(strays.first).to_contain_text("Memory per node")
    expect(strays.last).to_contain_text("Queue")
    expect(picker.get_by_role("button", name="Run cell")).to_have_attribute("aria-disabled", "true")
    for label in ("Memory per node", "Queue"):
        picker.get_by_label(label).fill("")
    expect(strays).to_have_count(0)
    expect(line).to_have_text(
        "%%jaxtrain --devices-per-node 2 --cpu 1.5 -o loss,params --timeout 1h30m"
    )
    expect(picker.get_by_role("button", name="Run cell")).to_have_attribute(
        "aria-disabled", "false"
    )


def test_who_is_in_the_form_stays_there_while_another_place_is_looked_at(lab, silent):
    """Whatever is asked and answered meanwhile, and with all that was typed."""
    held = hold_questions(lab.page)
    lab.notebook("stay", "%%jaxtrain --backend kubernetes\n1 + 1")
    lab.cell(0).locator(".cm-content").click()
    picker = lab.picker
    place, nodes = picker.get_by_label("Run on"), picker.get_by_label("Nodes")
    namespace = picker.get_by_label("Namespace")
    health = picker.locator(".jaxtrain-health")
    with looks(lab):
        lab.command("jaxtrain:show-runtimes")
    namespace.focus()
    lab.keys("ControlOrMeta+A", *"other")
    held["runtimes"].fulfill(json={"runtimes": []})
    expect(picker.get_by_text("No training runtimes for JAX found.")).to_be_visible()
    held["health"].fulfill(json={"findings": []})
    expect(health).to_contain_text("No problems found")
    expect(namespace).to_be_focused()
    expect(namespace).to_have_value("other")
    with looks(lab):
        lab.keys(*"-team", "Enter")
    assert "other-team" in lab.source(0)

    place.focus()
    with looks(lab):
        place.select_option(label="this machine")
    expect(place).to_be_focused()
    nodes.focus()
    lab.keys("3")
    eventually(lambda: lab.source(0).startswith("%%jaxtrain -n 3"))
    expect(health).to_have_text("Checking this machine…")
    held["health"].continue_()
    expect(health.locator(".jaxtrain-summary")).to_be_visible()
    # An answer is lost, as when a laptop changes its network: the picker asks again by itself.
    lab.allow("ERR_FAILED")
    with looks(lab):
        held["runtimes"].abort()
        expect(picker.get_by_text("The Jupyter server is not responding.")).to_be_visible()
    expect(nodes).to_be_focused()
    for question in held.values():
        question.continue_()
    expect(picker.get_by_role("radio", name=re.compile("^local-cpu"))).to_be_visible()
    expect(picker.get_by_text("The Jupyter server is not responding.")).to_have_count(0)
    expect(nodes).to_be_focused()
    lab.keys("2")
    expect(nodes).to_have_value("32")
    eventually(lambda: lab.source(0).startswith("%%jaxtrain -n 32"))


@contextlib.contextmanager
def looks(lab: LabPage) -> Iterator[None]:
    """Wait until the picker has asked about a place that it has not looked at before."""
    asked = [
        lab.page.expect_request(re.compile(rf"/api/{name}\?")) for name in ("health", "runtimes")
    ]
    with asked[0], asked[1]:
        yield
