"""How somebody looks at jobs is kept with the workspace: it comes back, and is in no other one."""

from __future__ import annotations

import json
import re

from harness import eventually, submit
from playwright.sync_api import expect

from ui.pages import LabPage

CODE = """from jupyter_jax_trainer import report
for step in range(100):
    report(step=step, loss=1 / (step + 1), accuracy=1 - 1 / (step + 1))
    print(f"step {step} of 100")
"""
NAME = "kept"
HIGH = {"width": 1400, "height": 1300}  # enough for both plots: what is not in view is not drawn


def open_all(lab: LabPage) -> None:
    lab.command("jaxtrain:show-jobs")
    lab.command("jaxtrain:open-job", key=NAME)
    lab.command("jaxtrain:open-log", key=NAME, split=True)


def look(lab: LabPage) -> dict[str, object]:
    """Return how the views are looked at."""
    pressed = "parts => parts.map(part => part.ariaLabel ?? part.textContent)"
    log, job = lab.log(NAME).node, lab.job(NAME)
    expect(log.locator(".jaxtrain-log-row").first).to_be_visible()
    expect(job.locator(".jaxtrain-plots canvas").first).to_be_visible()
    choose = job.get_by_role("button", name="Choose", exact=True)
    if choose.get_attribute("aria-expanded") == "false":
        choose.click()
    on = "button[aria-pressed=true]"
    return {
        "filter of jobs": lab.jobs.get_by_role("searchbox").input_value(),
        "states of jobs": lab.jobs.locator(on).evaluate_all(pressed),
        "plots": job.locator(".jaxtrain-plots canvas").count(),
        "tools of plots": job.locator(on).evaluate_all(pressed),
        "compared": job.get_by_role("group", name="Compared with").all_inner_texts(),
        "tools of the log": log.locator(on).evaluate_all(pressed),
        "search": log.get_by_role("searchbox", name="Search the log").input_value(),
        "matches": re.findall(r"\d+", log.locator(".jaxtrain-log-count").inner_text())[-1:],
        "line": log.locator(".jaxtrain-log-status span").first.inner_text(),
        "times": log.get_by_title("Change timestamps (t)").inner_text(),
        "filter": log.get_by_title("Filter, or go to a line or a time (g)").inner_text(),
        "beside": round(job.bounding_box()["x"]) < round(log.bounding_box()["x"]),
    }


def is_kept(lab: LabPage, workspace: str, at: int) -> bool:
    """Return whether a workspace has the line of the log, and the place of its tab, which comes later."""
    kept = lab.page.request.get(lab.server.page_url(f"lab/api/workspaces/{workspace}"))
    layout = json.dumps(kept.json()["data"].get("layout-restorer:data"))
    return rf"\"at\":{at}" in kept.text() and "jaxtrain-logs:" in layout


def test_a_workspace_keeps_how_jobs_are_looked_at(open_page):
    submit(CODE, line="beside -n 1").wait(60)
    submit(CODE, line=f"{NAME} -n 2").wait(60)
    lab = open_page(path="lab/workspaces/a?reset", viewport=HIGH)
    open_all(lab)
    log, job = lab.log(NAME), lab.job(NAME)
    expect(job.locator(".jaxtrain-plots canvas")).to_have_count(2)
    lab.jobs.get_by_role("searchbox").fill("kep")
    lab.jobs.get_by_role("button", name="Succeeded").click()
    for name in ("Log", "Choose", "rank 1", "accuracy"):
        job.get_by_role("button", name=name, exact=True).last.click()
    job.get_by_role("button", name="Compare", exact=True).click()
    job.get_by_role("checkbox", name="beside").check()
    job.get_by_role("button", name="Compare", exact=True).click()
    tools = log.node.get_by_role("group", name="Log", exact=True)
    tools.get_by_role("button", name="Only rank 1").click()
    tools.get_by_title("Change timestamps (t)").click()
    tools.get_by_role("button", name="filter").click()
    log.node.get_by_role("searchbox", name="without", exact=True).fill("step 7")
    lab.keys("Enter")
    tools.get_by_role("searchbox").fill("STEP 3")
    expect(tools.locator(".jaxtrain-log-count")).to_have_text("11 of 11")
    lab.keys("Shift+Enter")
    expect(tools.locator(".jaxtrain-log-count")).to_have_text("10 of 11")
    expect(log.status).to_contain_text("line 38 of 89")
    chosen = look(lab)
    eventually(lambda: is_kept(lab, "a", 37))

    other = open_page(beside=lab, path="lab/workspaces/b?reset", viewport=HIGH)
    open_all(other)
    expect(other.job(NAME).locator(".jaxtrain-plots canvas")).to_have_count(2)
    plain = look(other)
    assert [part for part in chosen if plain[part] == chosen[part]] == ["beside"]
    other.jobs.get_by_role("searchbox").fill("something else")

    lab.page.bring_to_front()
    lab.reload()
    expect(lab.log(NAME).status).to_contain_text("line 38 of 89")
    eventually(lambda: look(lab) == chosen)


def test_one_comes_back_to_a_line_near_the_end_and_by_a_link_to_its_line(open_page):
    """In a window that has room for more lines than there are after them."""
    submit("for n in range(300):\n    print('number', n)", line=f"{NAME} -n 1").wait(60)
    lab = open_page(path="lab/workspaces/end?reset", viewport={"width": 1600, "height": 1300})
    lab.command("jaxtrain:open-log", key=NAME)
    log = lab.log(NAME)
    log.list.focus()
    lab.keys("ArrowUp", "ArrowUp")
    expect(log.status).to_contain_text("line 298 of 300")
    eventually(lambda: is_kept(lab, "end", 297))
    lab.reload()
    expect(log.status).to_contain_text("line 298 of 300")
    lab.open(f"lab/workspaces/end?jaxtrain-log={NAME}&line=295")
    expect(log.status).to_contain_text("line 295 of 300")
    expect(log.list.locator("[data-current]")).to_contain_text("number 294")
