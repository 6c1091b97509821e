"""The looks of what a cell shows, and of the picker: themes, forced colours, axe, and no jumps."""

from __future__ import annotations

import re

import pytest
from harness import eventually, fails
from playwright.sync_api import expect

from jupyter_jax_trainer import api
from ui.cells import PANEL, Job, begin, begin_waiting, button, is_state, job_summary, moves
from ui.cutting import hold_questions
from ui.looks import DARK, LIGHT, colours, nothing_jumped, watch_shifts

FAILS = """print("step 1")
{}["labels"]
"""
CARD, PICKER, PANEL_VIEW = (
    ".jaxtrain:has(> .jaxtrain-job-summary)",
    "#jaxtrain-runtimes",
    ".jaxtrain-panel-widget",
)
VIEWS = (CARD, PICKER, PANEL_VIEW)


@pytest.fixture
def shown(open_page, job):
    """Give a page with the picker, and cells that show a job that runs, one that failed, and a panel."""
    lab = open_page(viewport={"width": 1600, "height": 1800})
    fails(FAILS, line="-n 1")
    failed = next(each.name for each in api.jobs() if each.state == "Failed")
    show = f"import jupyter_jax_trainer\njupyter_jax_trainer.job({failed!r})"
    view = begin(lab, job, show, PANEL, options="--detach")
    lab.has_run(1)
    for number in (2, 3):
        lab.run(number)
        lab.has_run(number)
    is_state(job_summary(lab.cell(2)), "Failed")
    panel = lab.cell(3).locator(PANEL_VIEW)
    panel.get_by_role("radio", name=re.compile("^local-cpu")).click(timeout=60_000)
    expect(panel.locator(".jaxtrain-row").first).to_be_visible()
    lab.command("jaxtrain:show-runtimes")
    lab.picker.get_by_role("radio", name=re.compile("^local-cpu")).click()
    expect(lab.picker.locator(".jaxtrain-card[data-chosen=true]")).to_contain_text("local-cpu")
    moves(view)
    return lab


def themes(shown):
    lab = shown
    spark = lab.cell(1).locator(".jaxtrain-spark path")
    stroke = "path => getComputedStyle(path).stroke"
    seen = set()
    for theme, dark in ((DARK, True), (LIGHT, False)):
        lab.theme(theme)
        for view in VIEWS:
            background, text = colours(lab, view)
            assert (background < 80 and text > 180) if dark else (background > 240 and text < 80), (
                view
            )
        seen.add(spark.evaluate(stroke))
    assert len(seen) == 2


def forced_colours(shown):
    lab = shown
    lab.page.emulate_media(forced_colors="active")
    # A colour that is forced upon text must not be what is behind it, too.
    for view in VIEWS:
        background, text = colours(lab, view)
        assert abs(background - text) > 100, view
    # What only colour says elsewhere is said by a shape, or by a colour that is forced as well.
    card = job_summary(lab.cell(1))
    border = "part => getComputedStyle(part).borderTopStyle"
    assert card.evaluate(border) == "solid"
    assert card.locator(".jaxtrain-tail").evaluate(border) == "solid"
    spark = card.locator(".jaxtrain-spark path")
    stroke, text = spark.evaluate(
        "path => [getComputedStyle(path).stroke, getComputedStyle(path).color]"
    )
    assert stroke == text
    for place in (lab.picker, lab.cell(3)):
        outline = "card => getComputedStyle(card).outlineStyle"
        ways = {
            chosen: place.locator(f".jaxtrain-card[data-chosen={chosen}]").first.evaluate(outline)
            for chosen in ("true", "false")
        }
        assert ways == {"true": "solid", "false": "none"}
        behind = "part => getComputedStyle(part).backgroundColor"
        chosen = place.locator(".jaxtrain-segments :checked + span").first.evaluate(behind)
        other = place.locator(".jaxtrain-segments :not(:checked) + span").first.evaluate(behind)
        assert chosen != other
    lab.page.emulate_media(forced_colors="none")


def a_theme_whose_style_sheet_comes_late(shown):
    """Meanwhile a widget has colours of its own; then it has those of the theme, as all else."""
    lab = shown
    held, sheet = [], re.compile(r"/theme-dark-extension/.*\.css")
    lab.page.route(sheet, lambda route: held.append(route))
    panel = lab.cell(3).locator(PANEL_VIEW)
    change = "theme => { window.jupyterapp.commands.execute('apputils:change-theme', { theme }); }"
    with lab.page.expect_request(sheet):
        lab.evaluate(change, DARK)
    lab.evaluate("() => document.body.classList.add('busy')")  # at which widgets look at the page
    expect(panel).to_have_class(re.compile("jaxtrain-alone"))
    held.pop().continue_()
    expect(panel).not_to_have_class(re.compile("jaxtrain-alone"))
    assert panel.evaluate(
        "panel => getComputedStyle(panel).backgroundColor"
    ) == lab.picker.evaluate("picker => getComputedStyle(picker).backgroundColor")


def no_axe_violation(shown):
    lab, found = shown, []
    for theme in (LIGHT, DARK):
        lab.theme(theme)
        for view in (CARD, PANEL_VIEW):
            found += lab.axe(view)
    # A job, and its log, in the panel.
    panel = lab.cell(3).locator(PANEL_VIEW)
    panel.locator(".jaxtrain-row", has_text="count").click()
    expect(panel.locator(".jaxtrain-plots canvas").first).to_be_visible()
    found += lab.axe(PANEL_VIEW)
    panel.locator(".jaxtrain-job").get_by_role("button", name="Log", exact=True).first.click()
    expect(panel.locator(".jaxtrain-log-row").last).to_contain_text("first line")
    found += lab.axe(PANEL_VIEW)
    assert not found, "\n".join(found)
    lab.theme(LIGHT)


@pytest.mark.timeout(240)
def test_looks(shown, subtests):
    for look in (themes, forced_colours, no_axe_violation, a_theme_whose_style_sheet_comes_late):
        with subtests.test(look.__name__):
            look(shown)


CUT = """view => [...view.querySelectorAll('.jaxtrain-job-summary-facts, footer p')]
    .filter(part => part.scrollWidth > part.clientWidth)
    .map(part => part.textContent)"""


def test_a_narrow_cell_cuts_nothing_off_that_is_to_be_read(lab, tmp_path):
    job = Job(tmp_path, "training-of-digits")
    view = begin(lab, job)
    moves(view)
    for width in (300, 400, 484, 560):
        view.locator("xpath=..").evaluate(
            "(node, width) => { node.style.width = `${width}px`; }", width
        )
        assert view.evaluate(CUT) == [], f"at {width} px"
    job.end()


def test_nothing_jumps_in_the_output_of_a_cell(lab, job):
    """From the start to the end: what has a place keeps it, whatever comes and goes."""
    view = begin_waiting(lab, "still", job)
    expect(button(view, "Cancel")).to_be_visible()
    watch_shifts(lab)
    job.open_gate()
    is_state(view, "Running")
    moves(view)
    job.end()
    is_state(view, "Succeeded")
    lab.has_run(1)
    nothing_jumped(lab, ".jaxtrain-job-summary")


@pytest.mark.parametrize("first", ["health", "runtimes"])
def test_nothing_jumps_while_the_picker_loads(lab, first):
    """Whichever of its questions is answered first."""
    lab.notebook("form", "%%jaxtrain -n 2\n1 + 1")
    page, held = lab.page, hold_questions(lab.page)
    watch_shifts(lab)
    with (
        page.expect_request(re.compile(r"/api/health\?")),
        page.expect_request(re.compile(r"/api/runtimes\?")),
    ):
        lab.command("jaxtrain:show-runtimes")
    expect(lab.picker.get_by_text("Checking this machine…")).to_be_visible()
    for name in (first, "runtimes" if first == "health" else "health"):
        with page.expect_response(re.compile(rf"/api/{name}\?")):
            held[name].continue_()
        lab.evaluate("() => new Promise(done => requestAnimationFrame(() => done()))")
    expect(lab.picker.get_by_text("in sync")).to_be_visible()
    nothing_jumped(lab, ".jaxtrain-picker")


FINDINGS = [{"level": "ok", "title": "Kubeflow Trainer", "detail": "2.3.0 in all", "hint": None}]
RUNTIMES = [
    {
        "name": f"jax-{number}",
        "backend": "kubernetes",
        "device": "cpu",
        "nodes": [1, 4],
        "description": "JAX",
        "python": "3.12",
        "jax": "0.10.2",
        "devices": None,
        "image": "example.org/jax:1",
        "deprecated": False,
        "problem": None,
    }
    for number in range(6)
]


@pytest.mark.parametrize("answers", ["good", "none"])
def test_the_form_does_not_wait_for_a_cluster(lab, silent, answers):
    """It is of use while nothing is known of the cluster, and stays where it is when that comes."""
    if answers == "good":
        held = hold_questions(lab.page)
    else:
        lab.allow("503")
    lab.notebook("far", "%%jaxtrain -n 2 -r jax-3\n1 + 1")
    lab.cell(0).locator(".cm-content").click()
    lab.command("jaxtrain:show-runtimes")
    health = lab.picker.locator(".jaxtrain-health")
    expect(health).to_have_text("Querying the cluster…")
    lab.picker.get_by_label("Nodes").fill("3")
    eventually(lambda: lab.source(0).startswith("%%jaxtrain -n 3 -r jax-3\n"))
    expect(lab.picker.get_by_role("button", name="Run cell")).to_be_visible()
    expect(health).to_have_text("Querying the cluster…")
    runtimes = lab.picker.get_by_role("radiogroup", name="Runtime").get_by_role("radio")
    expect(runtimes).to_have_text([re.compile("^Automatic"), re.compile("^jax-3Named in the line")])
    watch_shifts(lab)
    if answers == "good":
        held["runtimes"].fulfill(json={"runtimes": RUNTIMES})
        expect(runtimes).to_have_count(1 + len(RUNTIMES))
        held["health"].fulfill(json={"findings": FINDINGS})
        expect(health).to_contain_text("Kubeflow Trainer")
    else:
        silent.close()
        expect(health.locator(".jaxtrain-summary")).to_be_visible(timeout=60_000)
        expect(lab.picker.get_by_text("Loading runtimes…")).to_have_count(0)
    nothing_jumped(lab, ".jaxtrain-picker")
