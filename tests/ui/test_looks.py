"""Themes, forced colours, narrow places, accessibility, and nothing that jumps."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from harness import eventually, fails, submit, wait_for
from playwright.sync_api import expect

from jupyter_jax_trainer import api
from ui.looks import DARK, LIGHT, beyond, colours, nothing_jumped, runs, watch_shifts
from ui.test_axe import MACHINE, STANDING

FAILS = """import jax
print("step 1")
if jax.process_index() == 1:
    {}["labels"]
"""

# How dark and how light the first lines of a picture are, in which its title is.
GREYS = """async text => {
    const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
    const picture = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
    const canvas = document.createElement('canvas');
    canvas.width = picture.width;
    const context = canvas.getContext('2d');
    context.drawImage(picture, 0, 0);
    const { data } = context.getImageData(0, 0, picture.width, 28);
    const greens = [...data].filter((_, index) => index % 4 === 1);
    return [greens, greens].map((all, most) =>
        all.reduce((one, other) => Math[most ? 'max' : 'min'](one, other)));
}"""


@pytest.fixture
def shown(open_page, tmp_path):
    """Give a page with a running job, a failed one, and all views of them."""
    lab = open_page(viewport={"width": 1600, "height": 1000})
    fails(FAILS)
    end = tmp_path / "end"
    running = wait_for(submit(runs(end), line="-n 2"), "Running")
    failed = next(job for job in api.jobs() if job.state == "Failed")
    lab.notebook("looks", "1 + 1")
    lab.command("jaxtrain:show-jobs")
    lab.command("jaxtrain:open-job", key=failed.name)
    lab.command("jaxtrain:open-job", key=running.name)
    lab.command("jaxtrain:open-log", key=running.name, split=True)
    expect(lab.job(running.name).locator(".jaxtrain-plots canvas").first).to_be_visible()
    expect(lab.log(running.name).rows.last).to_contain_text("step")
    yield lab, running.name, failed.name
    end.touch()


def themes_are_followed_at_once(shown):
    lab, running, _ = shown
    views = [
        "#jaxtrain-panel",
        f"[id='jaxtrain-job-{running}'] .jaxtrain",
        f"[id='jaxtrain-log-{running}'] .jaxtrain",
    ]
    plot = "() => document.querySelector('.jaxtrain-plots canvas').toDataURL()"
    before = lab.evaluate(plot)
    for theme, dark in ((DARK, True), (LIGHT, False)):
        lab.theme(theme)
        for view in views:
            background, text = eventually(lambda view=view: colours(lab, view))
            assert (background < 80 and text > 180) if dark else (background > 240 and text < 80)
        lab.page.wait_for_function(f"before => ({plot})() !== before", arg=before)
        before = lab.evaluate(plot)


def test_plots_that_no_longer_grow_follow_the_theme(lab):
    job = submit(runs("", steps=30), line="has-ended -n 1")
    job.wait(60)
    lab.theme(LIGHT)
    lab.command("jaxtrain:open-job", key=job.name)
    expect(lab.job(job.name).locator(".jaxtrain-plots canvas").first).to_be_visible()
    plot = "() => document.querySelector('.jaxtrain-plots canvas').toDataURL()"
    lab.page.wait_for_timeout(500)  # by then it is drawn as it will stay
    light = lab.evaluate(plot)
    lab.theme(DARK)
    lab.page.wait_for_function(f"light => ({plot})() !== light", arg=light)
    lab.theme(LIGHT)
    lab.page.wait_for_function(f"light => ({plot})() === light", arg=light)


def forced_colours(shown):
    lab, running, failed = shown
    lab.page.emulate_media(forced_colors="active")
    # A colour that is forced upon text must not be what is behind it, too.
    shown = (f"[id='jaxtrain-{kind}-{running}'] .jaxtrain" for kind in ("job", "log"))
    for view in ("#jaxtrain-panel", *shown):
        background, text = colours(lab, view)
        assert abs(background - text) > 100
    # What only colour says elsewhere is said by a shape, too.
    bar = lab.row(running).locator(".jaxtrain-bar")
    assert bar.evaluate("bar => getComputedStyle(bar).borderTopStyle") == "solid"
    done, rest = bar.evaluate(
        "bar => [bar.firstElementChild, bar].map(part => getComputedStyle(part).backgroundColor)"
    )
    assert done != rest
    expect(lab.row(failed).locator(".jaxtrain-state")).to_have_text("Failed")
    lab.log(running).node.get_by_role("searchbox").fill("step 7")
    mark = lab.log(running).rows.locator("mark").first
    expect(mark).to_be_visible()
    plain = "part => [getComputedStyle(part).backgroundColor, getComputedStyle(part).color]"
    assert mark.evaluate(plain) != mark.locator("xpath=..").evaluate(plain)
    # What is saved is drawn on what is behind it here.
    save = lab.job(running).get_by_role("button", name=re.compile("^Save .* as PNG")).first

    def contrast() -> int:
        with lab.page.expect_download() as waiting:
            save.click()
        picture = base64.b64encode(Path(waiting.value.path()).read_bytes()).decode()
        darkest, lightest = lab.evaluate(GREYS, picture)
        return lightest - darkest

    eventually(lambda: contrast() > 150)  # colours are read a moment after they have changed
    lab.page.emulate_media(forced_colors="none")


def a_narrow_side_bar(shown):
    lab, *_ = shown
    for command, panel in (("jobs", lab.jobs), ("runtimes", lab.picker)):
        lab.command(f"jaxtrain:show-{command}")
        lab.side_bar(200)
        expect(panel).to_be_visible()
        if command == "runtimes":
            panel.get_by_role("button", name="Insert").wait_for()
        wide = panel.evaluate("panel => [panel.scrollWidth, panel.clientWidth]")
        assert wide[0] <= wide[1], "it scrolls sideways"
        assert not beyond(panel)


def test_what_to_type_first_is_one_line_in_the_side_bar(lab):
    lab.command("jaxtrain:show-jobs")
    lab.side_bar(300)
    first, cell = (lab.jobs.locator("pre").nth(number).bounding_box() for number in (0, 1))
    assert first["height"] * 2 < cell["height"] + 12  # padding, and one line of three


def test_the_machine_in_the_status_bar_while_nothing_runs(lab):
    bar, item = lab.page.locator("#jp-main-statusbar"), lab.page.locator(STANDING)
    expect(item).to_have_text(MACHINE)
    expect(item).to_have_attribute("title", "Resource usage of the Jupyter server")
    around, box = bar.bounding_box(), item.bounding_box()
    assert around["y"] <= box["y"] and box["y"] + box["height"] <= around["y"] + around["height"]
    assert item.evaluate("item => item.scrollWidth <= item.clientWidth"), "it is cut"
    for theme in (DARK, LIGHT):
        lab.theme(theme)
        (behind, _), (_, text) = colours(lab, "#jp-main-statusbar"), colours(lab, STANDING)
        assert abs(behind - text) > 100, theme
    lab.page.emulate_media(forced_colors="active")
    (behind, _), (_, text) = colours(lab, "#jp-main-statusbar"), colours(lab, STANDING)
    assert abs(behind - text) > 100
    lab.page.emulate_media(forced_colors="none")
    item.click()
    expect(lab.jobs.get_by_text("No jobs yet")).to_be_visible()


# Options of which a part stands in another line than the rest.
TORN = """([line, widths]) => {
    const nodes = document.createNodeIterator(line, NodeFilter.SHOW_TEXT);
    const torn = new Set();
    line.style.flex = 'none';
    for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
        for (const { 0: option, index } of node.textContent.matchAll(/-+[a-z]+/g)) {
            const range = document.createRange();
            range.setStart(node, index);
            range.setEnd(node, index + option.length);
            for (const width of widths) {
                line.style.width = `${width}px`;
                const rows = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
                if (rows.size > 1) {
                    torn.add(`${option} at ${width} px`);
                }
            }
        }
    }
    return [...torn];
}"""


def test_the_line_in_the_form_breaks_between_words(lab):
    lab.notebook("line", "1 + 1")
    lab.command("jaxtrain:show-runtimes")
    lab.picker.get_by_label("Nodes").fill("4")
    lab.picker.get_by_label("Result variables").fill("weights")
    line = lab.picker.get_by_label("The line of the cell")
    expect(line).to_have_text("%%jaxtrain -n 4 -o weights")
    torn = lab.evaluate(TORN, [line.element_handle(), list(range(100, 240, 5))])
    assert not torn, torn


def a_narrow_log(shown):
    lab, running, _ = shown
    log = lab.log(running).node.locator(".jaxtrain")
    log.get_by_role("searchbox").fill("step 7")
    expect(log.locator(".jaxtrain-log-count")).to_contain_text(" of ")
    log.get_by_role("button", name="filter").click()
    log.get_by_role("button", name="Keys").click()
    does = log.get_by_role("dialog").locator("dd")
    for width in (360, 500, 700, 1000):
        log.evaluate("(node, width) => { node.style.width = `${width}px`; }", width)
        assert log.bounding_box()["width"] == width
        assert not beyond(log), f"at {width} px"
        begins = does.evaluate_all("all => all.map(one => one.getBoundingClientRect().left)")
        assert len(begins) > 10 and len(set(begins)) == 1, f"at {width} px"


def nothing_jumps_while_jobs_go_on(shown):
    lab, running, _ = shown
    watch_shifts(lab)
    before = len(list(api.job(running).metrics()))
    eventually(lambda: len(list(api.job(running).metrics())) > before + 200)
    nothing_jumped(lab, "#jaxtrain-panel .jaxtrain-jobs")


def no_axe_violation(shown):
    lab, running, failed = shown
    filters = lab.log(running).node.get_by_role("button", name="filter")
    filters.click()
    found = []
    for theme in (LIGHT, DARK):
        lab.theme(theme)
        lab.command("jaxtrain:show-jobs")
        found += lab.axe("#jaxtrain-panel")
        lab.command("jaxtrain:show-runtimes")
        lab.picker.get_by_role("button", name=re.compile("^Details of")).click()
        lab.picker.get_by_role("button", name=re.compile("^More|^Less")).click()
        found += lab.axe("#jaxtrain-runtimes")
        for key in (running, failed):
            lab.command("jaxtrain:open-job", key=key)
            found += lab.axe(f"[id='jaxtrain-job-{key}'] .jaxtrain")
        found += lab.axe(f"[id='jaxtrain-log-{running}'] .jaxtrain")
    assert not found, "\n".join(found)
    lab.theme(LIGHT)
    filters.click()


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "looks",
    [
        (nothing_jumps_while_jobs_go_on, themes_are_followed_at_once, forced_colours),
        (no_axe_violation, a_narrow_log, a_narrow_side_bar),
    ],
    ids=["colours", "room"],
)
def test_looks(shown, subtests, looks):
    for look in looks:
        with subtests.test(look.__name__):
            look(shown)


def test_text_from_right_to_left(open_page):
    job = submit(
        'print("plain")\nprint("\\u05e9\\u05dc\\u05d5\\u05dd \\u05e2\\u05d5\\u05dc\\u05dd 12")\nprint("end")',
        line="-n 2",
    ).wait(60)
    lab = open_page()
    lab.command("jaxtrain:open-log", key=job.name)
    log = lab.log(job.name)
    expect(log.rows).to_have_count(6)
    rows = log.rows.all()
    for part in (".jaxtrain-log-time", ".jaxtrain-rank", ".jaxtrain-log-text"):
        assert len({round(row.locator(part).bounding_box()["x"]) for row in rows}) == 1
    # A page that is laid out from right to left is no reason for a log to be so.
    lab.evaluate("() => { document.documentElement.dir = 'rtl'; }")
    first, second = rows[0].locator(".jaxtrain-log-text").bounding_box(), log.list.bounding_box()
    assert second["x"] <= first["x"] < second["x"] + second["width"]
