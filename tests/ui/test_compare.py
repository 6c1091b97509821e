"""Two jobs that report the same metric, one over the other."""

from __future__ import annotations

import re

from harness import submit
from playwright.sync_api import expect

REPORTS = """from jupyter_jax_trainer import report
for step in range(1, 21):
    report(step=step, loss={last} * 20 / step)
"""

# How much of a plot has the colour of each line of its legend.
DRAWN = """plot => {
    const canvas = plot.querySelector('canvas');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return [...plot.querySelectorAll('.jaxtrain-legend [data-series]')].map(part => {
        const wanted = getComputedStyle(part, '::before').borderTopColor.match(/\\d+/g).map(Number);
        let count = 0;
        for (let at = 0; at < data.length; at += 4) {
            const near = [0, 1, 2].every(c => Math.abs(data[at + c] - wanted[c]) < 24);
            count += near && data[at + 3] > 200;
        }
        return count;
    });
}"""


def test_two_jobs_over_one_another(lab):
    for name, last in (("first-run", 0.25), ("second-run", 0.75)):
        submit(REPORTS.format(last=last), line=f"{name} -n 1").wait(60)
    lab.command("jaxtrain:open-job", key="first-run")
    job = lab.job("first-run")
    plot = job.locator(".jaxtrain-plot")
    legend = plot.locator(".jaxtrain-legend [data-series]")
    expect(plot).to_have_count(1)
    expect(legend).to_have_text(["0.25"])
    expect(plot.locator("canvas")).to_be_visible()

    job.get_by_role("button", name="Compare", exact=True).click()
    job.get_by_role("checkbox", name=re.compile("^second-run")).check()
    expect(legend).to_have_text(["first-run 0.25", "second-run 0.75"])
    lab.page.wait_for_function(
        f"plot => ({DRAWN})(plot).every(count => count > 50)", arg=plot.element_handle()
    )

    # The values of both at one step.
    canvas = plot.locator(".jaxtrain-canvas")
    canvas.focus()
    lab.keys("ArrowLeft")
    before = legend.all_inner_texts()
    lab.keys("ArrowLeft")
    expect(legend).not_to_have_text(before)
    first, second = (float(text.split()[-1]) for text in legend.all_inner_texts())
    assert 2.9 < second / first < 3.1

    job.get_by_role("button", name="Remove second-run").click()
    lab.page.mouse.move(0, 0)
    expect(legend).to_have_text(["0.25"])
