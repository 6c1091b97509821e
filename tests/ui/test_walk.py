"""A stranger's walk through every view: with the mouse alone, and with the keyboard alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import eventually, submit
from made_jobs import make_job
from playwright.sync_api import Locator, expect

from jupyter_jax_trainer import api, files
from jupyter_jax_trainer.errors import JobFailed
from ui.conftest import SIZE, failed, picture
from ui.hands import HANDS, Hand, Keyboard
from ui.labs import Lab
from ui.pages import LOAD, LabPage, write_notebook

TRAINED = """import jax
from jupyter_jax_trainer import report
for step in range(100):
    report(step=step, loss=1 / (step + 1), accuracy=1 - 1 / (step + 1))
    print(f"step {step} of 100")
print("long", "x" * 5000, "end of the line")
print("A last line")
loss = 0.01
"""
STUMBLED = """import jax
print("step 1")
if jax.process_index() == 1:
    {}["labels"]
"""
CODE = """%%jaxtrain {name} -n 1
import time
from jupyter_jax_trainer import report
for step in range(2000):
    report(step=step, total=2000, loss=1 / (step + 1))
    time.sleep(0.05)
"""
NOWHERE = {
    "clusters": [{"name": "far", "cluster": {"server": "http://127.0.0.1:9"}}],
    "contexts": [{"name": "far", "context": {"cluster": "far", "user": "me"}}],
    "users": [{"name": "me", "user": {}}],
    "current-context": "far",
}

@pytest.fixture(scope="module")
def jobs_of_module(ui_home: Path, lab_server: Lab) -> Iterator[None]:
    """Make what the walks come across: a job that trained, one that failed, and old ones."""
    from jupyter_jax_trainer import jobdir

    lab_server.kubeconfig.write_text(json.dumps(NOWHERE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXTRAIN_HOME", str(ui_home))
        patch.setenv("JAXTRAIN_CORES", "64")
        failing = submit(STUMBLED, line="stumbled -n 2")
        submit(TRAINED, line="trained -n 2 -o loss").wait(60)
        with pytest.raises(JobFailed):
            failing.wait(60)
        for name in HANDS:
            make_job(f"old-{name}", "Cancelled", created=1.7e9)
            write_notebook(lab_server.root / f"of-{name}.ipynb", "1", "2", "3")
            manifest = jobdir.JobDir(jobdir.jobs_directory() / f"old-{name}").manifest
            origin = {"notebook": str(lab_server.root / f"of-{name}.ipynb"), "cell": "cell-2"}
            files.write_json(manifest, {**json.loads(manifest.read_text()), "origin": origin})
        yield
        for job in api.jobs():
            if job.active:
                job.cancel()
            job.delete()
    lab_server.kubeconfig.unlink()


@pytest.fixture(scope="module", params=list(HANDS))
def walker(
    request: pytest.FixtureRequest, browser: Any, lab_server: Lab, jobs_of_module: None
) -> Iterator[Any]:
    """Give a hand, with a page that all its walks have."""
    context = browser.new_context(viewport=SIZE)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    lab = LabPage(context, lab_server)
    lab.allow("502")  # of the cluster that does not answer
    # JupyterLab's own, of notebooks that are closed soon.
    lab.allow("Could not restore the debugger state", r"'promise'\)\s+at \S+\.invoke \(\S+jlab_core")
    lab.open()
    yield HANDS[request.param](lab)
    context.close()


@pytest.fixture
def hand(walker: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give a hand, and look in the end that it was no other and that the page is well."""
    for command in ("docmanager:save-all", "application:close-all"):
        walker.lab.command(command)
    yield walker
    if failed(request):
        picture(walker.lab, request)
    else:
        walker.check()
        walker.lab.check()


@pytest.fixture
def lab(hand: Any) -> Any:
    return hand.lab


def clipboard(hand: Hand) -> str:
    return str(hand.lab.evaluate("() => navigator.clipboard.readText()"))


def copied(hand: Hand, target: Locator, text: str | re.Pattern[str]) -> None:
    """Press something that copies, and look at what it has copied."""
    hand.lab.evaluate("() => navigator.clipboard.writeText('')")
    hand.press(target)
    eventually(lambda: re.search(text, clipboard(hand)))


def downloaded(hand: Hand, target: Locator) -> Path:
    """Press something that saves a file, and give that."""
    with hand.page.expect_download() as download:
        hand.press(target)
    return Path(download.value.path())


def test_runtimes(hand: Any, lab: LabPage, lab_server: Lab) -> None:
    lab.notebook(f"form-{hand.name}", "print('hello')")
    hand.command("Show Training Runtimes")
    picker = lab.picker

    def press(name: str) -> None:
        hand.press(picker.get_by_role("button", name=re.compile(name)))

    # A cluster that does not answer says so, and can be asked again.
    places = picker.get_by_label("Run on")
    hand.choose(places, places.locator("option").nth(1).inner_text())
    expect(picker.get_by_role("alert").first).to_be_visible(timeout=30_000)
    press("Look again")
    hand.choose(places, "this machine")

    # How this machine is, and what its runtime is.
    summary = picker.locator(".jaxtrain-summary")
    for opened in ("true", "false"):
        hand.press(summary)
        expect(summary).to_have_attribute("aria-expanded", opened)
    press("^Details of local-cpu")
    expect(picker.locator(".jaxtrain-details")).to_contain_text("Python")
    hand.check_box(picker.get_by_role("radio", name=re.compile("^local-cpu")))

    # Each kind of field.
    hand.write(picker.get_by_label("Nodes"), "two")
    expect(picker.get_by_label("Nodes")).to_have_attribute("aria-invalid", "true")
    hand.write(picker.get_by_label("Nodes"), "2")
    hand.write(picker.get_by_label("Devices per node"), "4")
    expect(picker.locator(".jaxtrain-ask")).to_contain_text("8 devices")
    cpu = picker.get_by_role("radiogroup", name="Device")
    if isinstance(hand, Keyboard):
        hand.go(cpu.locator("input:checked"))
        lab.keys("ArrowLeft", "ArrowLeft", "ArrowLeft")
    else:
        hand.press(cpu.get_by_text("CPU"))
    hand.write(picker.get_by_label("Bring back"), "loss")
    press("^More")
    hand.write(picker.get_by_label("Time limit"), "90m")
    line = picker.locator(".jaxtrain-foot pre")
    for part in ("-n 2", "--devices-per-node 4", "-r local-cpu", "-o loss", "--timeout", "cpu"):
        expect(line).to_contain_text(part)
    text = line.inner_text()
    copied(hand, picker.locator(".jaxtrain-foot").get_by_role("button", name="Copy"), "jaxtrain")

    # Into the cell, and in step with it from then on.
    press("^Insert")
    eventually(lambda: lab.source(0) == f"{text}\nprint('hello')")
    hand.write(picker.get_by_label("Nodes"), "3")
    eventually(lambda: "-n 3" in lab.source(0).splitlines()[0])
    expect(picker.get_by_role("button", name="Run cell")).to_be_enabled()


def test_jobs(hand: Any, lab: LabPage) -> None:
    own = f"old-{hand.name}"
    hand.card("Training Jobs")
    panel, rows = lab.jobs, lab.jobs.locator(".jaxtrain-row")
    search = panel.get_by_role("searchbox")
    hand.write(search, own)
    expect(rows).to_have_count(1)
    chip = panel.get_by_role("button", name=re.compile("^Failed"))
    hand.press(chip)
    hand.press(panel.get_by_role("button", name="Show all"))
    expect(panel.locator(":focus")).to_have_count(1)  # not lost with what was pressed
    hand.press(chip)
    expect(rows).to_have_count(1)
    expect(lab.row("stumbled")).to_be_visible()
    hand.press(chip)

    hand.menu(lab.row(own), "Copy Name")
    eventually(lambda: clipboard(hand) == own)
    hand.menu(lab.row(own), "Open Log")
    expect(lab.log(own).node).to_be_visible()
    hand.menu(lab.row(own), "Open Notebook")
    lab.page.wait_for_function(
        """name => {
            const { currentWidget } = window.jupyterapp.shell;
            return currentWidget?.context?.path === name && currentWidget.content.activeCellIndex === 2;
        }""",
        arg=f"of-{hand.name}.ipynb",
    )
    lab.kernel_is("idle")  # until then the notebook takes the focus
    hand.command("Show Training Jobs")
    expect(panel.locator(":focus")).to_have_count(1)
    for answer, left in (("Keep", 1), ("Delete", 0)):
        hand.menu(lab.row(own), "Delete…")
        hand.dialog(answer)
        expect(lab.row(own)).to_have_count(left)
    hand.press(lab.row("trained"))
    expect(lab.job("trained").locator("h2")).to_have_text("trained")


def test_a_job(hand: Any, lab: LabPage) -> None:
    hand.command("Show Training Jobs")
    hand.press(lab.row("trained"))
    job = lab.job("trained")
    canvas = job.locator(".jaxtrain-plots canvas")
    expect(canvas).to_have_count(2)

    def press(name: str, exact: bool = True) -> Locator:
        button = job.get_by_role("button", name=name, exact=exact)
        hand.press(button)
        return button

    copied(hand, job.get_by_role("button", name="Copy name"), "^trained$")

    # The plots.
    metrics = job.get_by_role("group", name="Metrics", exact=True)
    for name in ("Log", "Time"):
        button = metrics.get_by_role("button", name=name, exact=True)
        hand.press(button)
        expect(button).to_have_attribute("aria-pressed", "true")
        hand.press(metrics.get_by_role("button", name="Step" if name == "Time" else name, exact=True))
    plot = job.locator(".jaxtrain-canvas").first
    everything = metrics.get_by_role("button", name="Show all")
    values = job.locator(".jaxtrain-legend").first
    before = values.inner_text()
    if isinstance(hand, Keyboard):
        hand.go(plot)
        lab.keys("ArrowRight")
        expect(values).not_to_have_text(before)
        lab.keys("+")
    else:
        plot.hover(position={"x": 100, "y": 60})
        expect(values).not_to_have_text(before)
        lab.page.mouse.down()
        plot.hover(position={"x": 200, "y": 60})
        lab.page.mouse.up()
    expect(everything).to_be_enabled()
    hand.press(everything)
    expect(everything).to_be_disabled()
    press("Choose")
    press("rank 0")
    press("rank 1")
    press("accuracy")
    expect(canvas).to_have_count(1)
    expect(values).to_contain_text("rank 1")
    press("accuracy")
    press("first")
    press("Compare")
    hand.write(job.get_by_role("searchbox"), "stumb")
    hand.check_box(job.get_by_role("checkbox"))
    press("Leave out stumbled")
    expect(job.get_by_role("checkbox")).not_to_be_checked()
    assert downloaded(hand, job.get_by_role("button", name="Save loss as CSV")).read_bytes()[:4] == b"job,"
    picture = downloaded(hand, job.get_by_role("button", name="Save loss as PNG"))
    assert picture.read_bytes()[1:4] == b"PNG"

    # The other parts; each can be closed.
    assert downloaded(hand, job.get_by_role("button", name="Save logs")).read_bytes()[:2] == b"PK"
    copied(hand, job.get_by_role("group", name="Code").get_by_role("button", name="Copy"), "%%jaxtrain")
    expect(job.get_by_role("group", name="Results")).to_contain_text("float")
    for name in ("Ranks", "Events", "Code"):
        fold = job.get_by_role("button", name=name, exact=True)
        for opened in ("false", "true"):
            hand.press(fold)
            expect(fold).to_have_attribute("aria-expanded", opened)
    hand.press(job.locator("tr[data-rank='1']"))
    expect(lab.log("trained").node.get_by_role("button", name="Only rank 1")).to_have_attribute(
        "aria-pressed", "true"
    )

    hand.command("Show Training Jobs")
    hand.press(lab.row("stumbled"))
    failed = lab.job("stumbled")
    copied(hand, failed.get_by_role("button", name="Copy traceback"), "KeyError")
    hand.press(failed.get_by_role("button", name="Open the log of rank 1"))
    expect(lab.log("stumbled").node).to_be_visible()


def test_a_log(hand: Any, lab: LabPage) -> None:
    by_keys = isinstance(hand, Keyboard)
    hand.command("Show Training Jobs")
    hand.menu(lab.row("trained"), "Open Log")
    log = lab.log("trained")
    log.last_is("A last line")

    def tool(name: str) -> Locator:
        return log.node.get_by_role("button", name=name, exact=True).first

    def either(key: str, name: str) -> None:
        """Press a key of the list, or what is there for the mouse."""
        if by_keys:
            expect(log.list).to_be_focused()
            lab.keys(key)
        else:
            hand.press(tool(name))

    if tool("Only rank 1").get_attribute("aria-pressed") == "true":
        hand.press(tool("Only rank 1"))  # as another walk has left it
    if by_keys:
        hand.go(log.list)

    # What the keys are.
    either("?", "Keys")
    hand.press(log.node.get_by_role("dialog").get_by_role("button", name="Close"))

    # Search: words, regular expressions, case; next and before.
    count = log.node.locator(".jaxtrain-log-count")
    search = log.node.get_by_role("searchbox", name="Search in the log")
    hand.write(search, r"STEP \d0 of")
    expect(count).to_have_text("no match")
    hand.press(tool("Regular expression"))
    expect(count).to_have_text(re.compile(r"of 18$"))
    hand.press(tool("Upper and lower case differ"))
    expect(count).to_have_text("no match")
    hand.press(tool("Upper and lower case differ"))
    expect(count).to_have_text(re.compile(r"of 18$"))
    first = count.inner_text()
    if by_keys:
        hand.go(search)
        lab.keys("ArrowDown")
    either("n", "Next match")
    expect(count).not_to_have_text(first)
    either("N", "Match before")
    expect(count).to_have_text(first)

    # A line, a time; the first one, and the last one again.
    if by_keys:
        lab.keys("g")
        place = log.node.get_by_label("go to")
        expect(place).to_be_focused()
        lab.page.keyboard.type("12")
        lab.keys("Enter")
    else:
        hand.press(tool("filter"))
        place = log.node.get_by_label("go to")
        hand.write(place, "12")
        hand.press(tool("Go"))
    expect(log.status).to_contain_text("line 12 of")
    if by_keys:
        lab.keys("End")
    else:
        log.list.hover()
        lab.page.mouse.wheel(0, 100_000)
    expect(log.status).to_contain_text(re.compile(r"line (\d+) of \1"))

    # Only some lines: of a rank, with and without words.
    hand.press(tool("Only rank 1"))
    expect(log.rows.locator(".jaxtrain-rank").first).to_have_text("1")
    expect(log.rows.locator(".jaxtrain-rank", has_text="0")).to_have_count(0)
    hand.press(tool("Only rank 1"))
    def filtered(label: str, text: str) -> None:
        field = log.node.get_by_label(label, exact=True)
        if text:
            hand.write(field, text)
            lab.keys("Enter") if by_keys else log.list.click(position={"x": 300, "y": 5})
        elif by_keys:
            hand.write(field, "")
            lab.keys("Delete", "Enter")
        else:
            box = field.bounding_box()
            assert box
            field.click(position={"x": box["width"] - 12, "y": box["height"] / 2})  # its cross

    filtered("with", "step 7 of")
    expect(log.rows).to_have_count(2)
    filtered("without", "step")
    expect(log.node).to_contain_text("No line is like that.")
    filtered("with", "")
    expect(log.rows).to_have_count(4)
    filtered("without", "")
    expect(log.status).to_contain_text("of 204")

    # The times, by a button and by a key.
    times = log.rows.first.locator(".jaxtrain-log-time")
    hand.press(tool("time of day"))
    expect(times).to_have_text(re.compile(r"\+00:00:\d\d"))
    hand.press(tool("since start"))
    expect(times).to_have_count(0)
    hand.press(tool("no times"))

    # A long line in full, to copy or to link to.
    if by_keys:
        hand.write(search, "end of the line")  # which the list does not even have
        expect(count).to_have_text(re.compile("of 2$"))
        lab.keys("ArrowDown", "Enter")
    else:
        log.list.hover()
        lab.page.mouse.wheel(0, 100_000)
        hand.press(log.rows.locator("[data-full]").first)
    line = log.node.get_by_role("region", name="The line in full")
    expect(line).to_contain_text("end of the line")
    wrap = line.get_by_role("button", name="wrap")
    hand.press(wrap)
    expect(wrap).to_have_attribute("aria-pressed", "false")
    hand.press(wrap)
    copied(hand, line.get_by_role("button", name="Copy", exact=True), "x end of the line$")
    copied(hand, line.get_by_role("button", name="Copy link"), "jaxtrain-log=")
    link = clipboard(hand)
    hand.press(line.get_by_role("button", name="Close the line"))
    expect(line).to_have_count(0)
    expect(log.list).to_be_focused()

    # Lines to copy.
    if by_keys:
        lab.keys("Home", "Shift+ArrowDown", "ControlOrMeta+C")
    else:
        lab.page.mouse.wheel(0, -100_000)
        log.list.hover(position={"x": 200, "y": 5})
        lab.page.mouse.down()
        log.list.hover(position={"x": 300, "y": 25})
        lab.page.mouse.up()
        lab.keys("ControlOrMeta+C")  # the menu of the browser, which no test can click, has it, too
    eventually(lambda: re.fullmatch(r".*\n.*", clipboard(hand)))
    assert downloaded(hand, tool("Save")).stat().st_size > 0
    hand.check()
    lab.page.goto(link)
    lab.ready()
    expect(lab.log("trained").list.locator("[data-current]")).to_contain_text("long xxx")


def test_a_traceback(hand: Any, lab: LabPage) -> None:
    by_keys = isinstance(hand, Keyboard)
    hand.command("Show Training Jobs")
    hand.menu(lab.row("stumbled"), "Open Log")
    log = lab.log("stumbled")
    fold = log.rows.locator(".jaxtrain-log-fold")
    expect(fold).to_have_text("▸")
    hand.press(log.node.get_by_role("button", name="first error"))
    expect(fold).to_have_text("▾")
    rows = log.rows.count()
    if by_keys:
        hand.go(log.list)
        lab.keys("ArrowLeft")
    else:
        hand.press(fold)
    expect(fold).to_have_text("▸")
    assert log.rows.count() < rows


def test_the_output_of_a_cell(hand: Any, lab: LabPage) -> None:
    name = f"cell-{hand.name}"
    lab.notebook(name, LOAD, CODE.format(name=name))
    lab.cell(0).locator(".cm-content").focus()
    if isinstance(hand, Keyboard):
        lab.keys("Shift+Enter")
        lab.has_run(0)
        lab.keys("Control+Enter", "Escape")
    else:
        notebook = lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        run = notebook.get_by_role("button", name=re.compile("Run this cell and advance"))
        run.click()
        lab.has_run(0)
        run.click()
    card = lab.cell(1).locator(".jaxtrain-glance")
    state = card.locator(".jaxtrain-state")
    expect(state).to_have_text("Running", timeout=60_000)

    def button(name: str) -> Locator:
        return card.get_by_role("button", name=name, exact=True)

    copied(hand, button("Copy name"), f"^{name}$")
    if isinstance(hand, Keyboard):
        lab.keys("x", "b")  # the notebook would cut the cell, and insert one
        expect(button("Copy name")).to_be_focused()
        assert lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell").count() == 2
    hand.press(button("Detach"))
    expect(lab.cell(1)).to_contain_text(f"Detached: job '{name}' goes on.")
    expect(state).to_have_text("Running")
    if isinstance(hand, Keyboard):
        hand.go(button("Open"))
        lab.keys("Escape")
        expect(lab.cell(1)).to_be_focused()
    hand.press(button("Cancel"))
    hand.dialog("Keep")
    hand.press(button("Cancel"))
    hand.dialog("Cancel Job")
    expect(state).to_have_text("Cancelled", timeout=30_000)
    hand.press(button("Open"))
    expect(lab.job(name).locator("h2")).to_have_text(name)
