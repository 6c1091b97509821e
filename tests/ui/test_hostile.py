"""A log whose lines would do harm, and one that never stops."""

from __future__ import annotations

import time

from harness import submit
from pace import Deadline
from playwright.sync_api import expect

EVIL = r"""
print("<script>window.harm = 1</script><img src=x onerror='window.harm = 2'>")
print("<a href=\"javascript:window.harm = 3\">click</a> <iframe srcdoc='<script>parent.harm = 4</script>'></iframe>")
print("\x1b]8;;javascript:window.harm = 5\x1b\\link\x1b]8;;\x1b\\ after OSC 8")
print("\x1b]52;c;aGFybQ==\x07after OSC 52")
print("\x1b]0;harm\x07after a title")
print("\x1b[2J\x1b[H\x1b[5A\x1b[31mred after cursor moves\x1b[0m")
print("bidi \u202etxet siht\u202c \u2066isolated\u2069 \u200fmark")
print("\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 1234 from right to left")
print("nul \x00 bell \x07 backspace \x08 delete \x7f")
print("x" * 65536 + "|")
print("\u202e" * 50 + "many overrides")
print("the last line")
"""

FAST = """
import sys, time
block = "".join(f"this is line {n} of the block, as fast as it can be printed\\n" for n in range(10_000))
began = time.monotonic()
for number in range(60):
    time.sleep(max(0, began + number / 20 - time.monotonic()))  # 200,000 lines a second
    sys.stdout.write(block)
sys.stdout.flush()
print("all blocks in", time.monotonic() - began)
"""


def open_log(lab, job):
    lab.command("jaxtrain:show-jobs")
    lab.command("jaxtrain:open-log", key=job.name)
    return lab.log(job.name)


def test_nothing_in_a_log_is_more_than_text(open_page):
    lab = open_page()
    lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    lab.evaluate("() => navigator.clipboard.writeText('mine')")
    title = lab.page.title()
    job = submit(EVIL, line="-n 1").wait(60)
    log = open_log(lab, job)
    log.last_is("the last line")
    lines = log.lines()
    assert lines[0].startswith("<script>window.harm = 1</script><img src=x")
    assert lines[2] == "link after OSC 8" and lines[3] == "after OSC 52"
    assert lines[5] == "red after cursor moves"
    assert "\u202e" not in "".join(lines) and "many overrides" in lines[10]
    inside = "script, img, iframe, a, object, embed, svg, style, link"
    assert log.list.locator(inside).count() == 0
    # Every line is where it should be, whatever its letters want.
    boxes = [
        [part.bounding_box() for part in log.list.locator(selector).all()]
        for selector in (".jaxtrain-log-time", ".jaxtrain-rank", ".jaxtrain-log-text")
    ]
    for column in boxes:
        assert len({round(box["x"]) for box in column}) == 1
        assert {round(box["height"]) for box in column} <= {16, 17, 18}
    # One line in full, by a click and Enter.
    log.rows.filter(has_text="xxx").click(position={"x": 300, "y": 8})
    lab.keys("Enter")
    detail = log.node.get_by_role("region", name="Full line")
    expect(detail.locator("pre")).to_have_text("x" * 65536 + "|")
    lab.keys("Escape")
    # The views of the job as well: its code has the same words.
    lab.command("jaxtrain:open-job", key=job.name)
    expect(lab.job(job.name)).to_contain_text("window.harm = 1")
    assert lab.job(job.name).locator("script, img, iframe, a[href^=javascript]").count() == 0
    assert lab.evaluate("() => window.harm") is None
    assert lab.evaluate("() => navigator.clipboard.readText()") == "mine"
    assert "harm" not in lab.page.title() and title.split(" ")[0] in lab.page.title()


def test_hostile_names(open_page):
    from made_jobs import make_job

    name = "<img src=x onerror=alert(1)>"
    make_job("evil", "Failed", reason=f"{name} \u202eabc", hint=name)
    lab = open_page()
    lab.command("jaxtrain:show-jobs")
    expect(lab.row("evil").locator(".jaxtrain-reason")).to_contain_text(name)
    lab.row("evil").click()
    expect(lab.job("evil")).to_contain_text(name)
    assert lab.page.locator(".jaxtrain img").count() == 0


def test_a_job_that_prints_as_fast_as_it_can(open_page):
    lab = open_page()
    job = submit(FAST, line="-n 1")
    log = open_log(lab, job)
    waits = []
    deadline = Deadline(60)
    while not log.rows.last.get_by_text("all blocks in").count():
        assert not deadline.passed
        began = time.monotonic()
        lab.evaluate("() => 1")
        waits.append(time.monotonic() - began)
    *_, longest, _ = sorted(waits)  # one hiccup of a busy machine is forgiven
    assert longest < 1, f"the page did not answer for {longest:.1f} s"
    took = float(list(job.logs())[-1].text.split()[-1])
    assert 600_000 / took > 100_000  # lines a second: it was fast indeed
    expect(log.status).to_contain_text("of 600,001")
