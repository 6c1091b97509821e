"""The form of the picker and the line of a cell: each follows the other, and nothing else changes."""

from __future__ import annotations

from harness import eventually
from playwright.sync_api import expect

CELL = """%%jaxtrain -n 3   --store /tmp/x -o loss  # for the "paper"
loss = 1
"""


def test_the_form_and_the_line_follow_each_other(lab):
    lab.notebook("trip", CELL)
    code = lab.cell(0).locator(".cm-content")
    code.click()
    lab.command("jaxtrain:show-runtimes")
    picker = lab.picker
    nodes, out = picker.get_by_label("Nodes"), picker.get_by_label("Bring back")
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
