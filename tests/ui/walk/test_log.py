"""The log viewer, by either hand."""

from __future__ import annotations

import re
from typing import Any

from harness import eventually, submit
from playwright.sync_api import Locator, expect

from ui.pages import LabPage
from ui.walk.hands import Keyboard

ENDLESS = """import time
for step in range(10_000):
    print(f"step {step} of 10000")
    time.sleep(0.02)
"""


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
    search = log.node.get_by_role("searchbox", name="Search the log")
    hand.write(search, r"STEP \d0 of")
    expect(count).to_have_text("no matches")
    hand.press(tool("Regular expression"))
    expect(count).to_have_text(re.compile(r"of 18$"))
    hand.press(tool("Match case"))
    expect(count).to_have_text("no matches")
    hand.press(tool("Match case"))
    expect(count).to_have_text(re.compile(r"of 18$"))
    first = count.inner_text()
    if by_keys:
        hand.go(search)
        lab.keys("ArrowDown")
    either("n", "Next match")
    expect(count).not_to_have_text(first)
    either("N", "Previous match")
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
    expect(log.node).to_contain_text("No matching lines")
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
    hand.press(tool("no timestamps"))
    if by_keys:
        hand.go(log.list)
        for name in ("since start", "no timestamps", "time of day"):
            lab.keys("t")
            expect(tool(name)).to_be_visible()

    # A long line in full, to copy or to link to.
    if by_keys:
        hand.write(search, "end of the line")  # which the list does not even have
        expect(count).to_have_text(re.compile("of 2$"))
        lab.keys("ArrowDown", "Enter")
    else:
        log.list.hover()
        lab.page.mouse.wheel(0, 100_000)
        hand.press(log.rows.locator("[data-full]").first)
    line = log.node.get_by_role("region", name="Full line")
    expect(line).to_contain_text("end of the line")
    wrap = line.get_by_role("button", name="wrap")
    if by_keys:
        expect(log.list).to_be_focused()
        lab.keys("w")
        expect(wrap).to_have_attribute("aria-pressed", "false")
        lab.keys("w", "l")
        expect(log.status).to_contain_text("Link")
        eventually(lambda: "jaxtrain-log=" in hand.clipboard())
    hand.press(wrap)
    expect(wrap).to_have_attribute("aria-pressed", "false")
    hand.press(wrap)
    hand.copies(line.get_by_role("button", name="Copy", exact=True), "x end of the line$")
    hand.copies(line.get_by_role("button", name="Copy link"), "jaxtrain-log=")
    link = hand.clipboard()
    hand.press(line.get_by_role("button", name="Close the full line"))
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
    line = r"step \d+ of 100" if by_keys else r"[a-z\d ]*"  # the mouse has begun within a line
    eventually(lambda: re.fullmatch(f"{line}\n{line}", hand.clipboard()))
    if not by_keys:  # more than are seen at once
        log.list.click(position={"x": 200, "y": 5})
        lab.page.mouse.wheel(0, 1800)
        first = log.rows.first
        eventually(lambda: int(first.get_attribute("data-index") or 0) > 50)
        log.list.click(position={"x": 200, "y": 65}, modifiers=["Shift"])
        lab.keys("ControlOrMeta+C")
        eventually(lambda: len(hand.clipboard().splitlines()) > 80)
        assert "step 7 of 100" in hand.clipboard()

    # The log as a file: of all ranks, then of one.
    assert hand.downloads(tool("Save")).read_bytes()[:2] == b"PK"  # a file for each
    hand.press(tool("Only rank 1"))
    expect(log.rows.locator(".jaxtrain-rank", has_text="0")).to_have_count(0)
    assert hand.downloads(tool("Save")).read_text().count("step 7 of 100\n") == 1
    hand.press(tool("Only rank 1"))

    # The link, as somebody else follows it.
    context = lab.page.context.browser.new_context()
    other = LabPage(context, lab.server)
    other.page.goto(f"{link}&token={lab.server.token}")
    other.ready()
    expect(other.log("trained").list.locator("[data-current]")).to_contain_text("long xxx")
    other.check()
    context.close()


def unmoved(line: Locator) -> str | None:
    """Return the text of a line when it is that of a moment ago."""
    text = line.text_content()
    line.page.wait_for_timeout(300)
    return text if line.text_content() == text else None


def test_a_log_that_goes_on(hand: Any, lab: LabPage) -> None:
    by_keys = isinstance(hand, Keyboard)
    job = submit(ENDLESS, line=f"live-{hand.name} -n 1")
    hand.command("Show Training Jobs")
    hand.menu(lab.row(job.name), "Open Log")
    log = lab.log(job.name)
    last = log.rows.last
    expect(log.status).to_contain_text("following", timeout=60_000)
    expect(last).to_contain_text("step")

    # Somebody who goes up stays there, and sees how much comes meanwhile; a short log has no up.
    expect(log.status).to_contain_text(re.compile(r"of (\d+,)?\d{3}"))
    follow = log.node.get_by_role("button", name=re.compile("follow"))
    if by_keys:
        hand.go(log.list)
        lab.keys("PageUp")
    else:
        log.list.hover()
        lab.page.mouse.wheel(0, -300)
    expect(log.status).not_to_contain_text("following")
    stays = eventually(lambda: unmoved(last))  # a wheel goes on for a moment
    expect(follow).to_contain_text(re.compile(r"[1-9]\d+ new lines"))
    expect(last).to_have_text(stays)
    if by_keys:
        lab.keys("f")
    else:
        hand.press(follow)
    expect(log.status).to_contain_text("following")
    expect(last).not_to_have_text(stays)
    expect(follow).to_have_count(0)

    # To a time: the first line that was printed then, or later.
    hand.press(log.node.get_by_role("button", name="time of day", exact=True))
    times = log.rows.locator(".jaxtrain-log-time")
    expect(times.last).to_have_text(
        re.compile(r"\+00:(00:(1[2-9]|[2-5]\d)|0[1-9]:)"), timeout=60_000
    )
    if by_keys:
        hand.go(log.list)
        lab.keys("g")
    else:
        hand.press(log.node.get_by_role("button", name="filter", exact=True))
    place = log.node.get_by_label("go to")
    hand.write(place, "+10")
    if by_keys:
        lab.keys("Enter")
    else:
        hand.press(log.node.get_by_role("button", name="Go", exact=True))
    current = log.list.locator("[data-current]")
    expect(current.locator(".jaxtrain-log-time")).to_have_text(re.compile(r"\+00:00:1\d"))
    expect(log.status).to_contain_text(re.compile(r"line \d+ of"))
    number = re.search(r"line (\d+) of", log.status.inner_text())
    assert number and int(number[1]) > 1
    job.cancel()


def test_a_traceback(hand: Any, lab: LabPage) -> None:
    by_keys = isinstance(hand, Keyboard)
    hand.command("Show Training Jobs")
    hand.menu(lab.row("stumbled"), "Open Log")
    log = lab.log("stumbled")
    fold = log.rows.locator(".jaxtrain-log-fold")
    expect(fold).to_have_text("▸")
    hand.press(log.node.get_by_role("button", name="first error"))
    expect(fold).to_have_text("▾")
    expect(log.list).to_contain_text("KeyError: 'labels'")
    rows = log.rows.count()
    if by_keys:
        hand.go(log.list)
        lab.keys("ArrowLeft")
    else:
        hand.press(fold)
    expect(fold).to_have_text("▸")
    eventually(lambda: log.rows.count() < rows)
