"""All that is shown of a job: of one on a cluster, and of those that no notebook of the page has begun."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from apiscene import TRAINER, Scene
from harness import continues
from made_jobs import made_elsewhere, make_job, uid_of
from playwright.sync_api import Locator, expect

from jupyter_jax_trainer import api
from jupyter_jax_trainer.backends.kubernetes.submit import trainjob
from jupyter_jax_trainer.jobdir.job import Job as JobHandle
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.messages import jobs as say_of_jobs
from jupyter_jax_trainer.messages import kubernetes as say_of_kubernetes
from jupyter_jax_trainer.messages import worker as say_of_worker
from ui.cells import SLOW, Job, is_state, job_summary
from ui.labs import MEASURING, Lab
from ui.pages import LOAD, LabPage
from ui.story import LATE, QUEUE_HINT, QUEUED, TRACEBACK, UNSCHEDULABLE, Story, begun

TRAINJOB = f"{TRAINER}/namespaces/default/trainjobs/fit"
EVICTED = "rank 1 was evicted: its node gpu-b is being drained"
RESTART = say_of_jobs.RESTART(number=1, most=2, reason=EVICTED)
AGAIN = continues(step=7, reached=8)
LOST = say.LINES_LOST_HERE(lines="50 lines")
PASSED = ["Queued 1 m 5 s", "Pending 30 s", "Starting 12 s", "Running 10 m", "Starting 45 s"]

SCRIPT = """import os, time
import jax
print("rank", jax.process_index(), "began")
while not os.path.exists({end!r}):
    time.sleep(0.02)
print("the last line")
"""


@pytest.fixture
def story(jobs_home: Path) -> Iterator[Story]:
    with begun() as story:
        yield story


@pytest.fixture
def scene(lab_server: Lab) -> Iterator[Scene]:
    """Let there be a cluster."""
    scene = Scene()
    scene.kubeconfig(lab_server.kubeconfig)
    yield scene
    lab_server.kubeconfig.unlink()
    scene.close()


def part(view: Locator, name: str) -> Locator:
    return view.locator(f"section[aria-label='{name}']")


def rows(place: Locator) -> list[list[str]]:
    """Return the cells of the rows of a table."""
    return list(
        place.locator("tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.children].map(cell => cell.textContent))"
        )
    )


def test_a_job_of_a_cluster_from_its_queue_to_its_failure(
    lab: LabPage, story: Story, scene: Scene
) -> None:
    story.waits()
    lab.command("jaxtrain:show-jobs")
    lab.row("fit").click()
    view, reason = lab.job("fit"), lab.row("fit").locator(".jaxtrain-reason")
    states, why = view.locator(".jaxtrain-timeline li"), view.locator(".jaxtrain-why")
    expect(states).to_have_text([re.compile(r"^Queued 1 h \d+ m$")])
    expect(why.locator("p")).to_have_text([QUEUED, QUEUE_HINT])
    expect(reason).to_have_text(QUEUED)
    expect(view.locator(".jaxtrain-facts")).to_contain_text("default · one")

    # It goes on while somebody looks.
    story.runs()
    expect(states).to_have_text([*PASSED[:3], re.compile(r"^Running 1 h \d+ m$")])
    expect(why).to_have_count(0)
    assert rows(part(view, "Initializers")) == [
        ["dataset-initializer", "Finished", "fit-dataset-initializer-0-0-x", "gpu-a", "1", "0"]
    ]
    ranks = part(view, "Ranks")
    assert rows(ranks) == [
        ["0", "Running", "fit-node-0-0-a", "gpu-a", "0", "", ""],
        ["1", "Running", "fit-node-0-1-a", "gpu-b", "0", "", ""],
    ]
    story.loses_a_node()
    expect(why).to_have_text(f"{EVICTED}; {say.ALL_START_AGAIN()}")
    assert rows(ranks)[1] == ["1", "Failed", "fit-node-0-1-a", "gpu-b", "0", "SIGTERM", ""]
    story.goes_on()
    expect(states).to_have_text([*PASSED, re.compile(r"^Running 1 h \d+ m$")])
    expect(why).to_have_text(AGAIN)
    expect(reason).to_have_text(AGAIN)
    story.fails()
    expect(states).to_have_text([*PASSED, "Running 1 h 2 m", re.compile(r"^Failed .*\d:\d\d:\d\d")])
    expect(view.locator(".jaxtrain-took")).to_have_text("1 h 14 m")
    expect(reason).to_have_text("rank 1 failed first: KeyError: 'labels' (cell line 6)")
    failure = view.get_by_role("group", name="Failure")
    expect(failure.locator("p").first).to_have_text(
        "rank 1 failed firstexceptionKeyError: 'labels' (cell line 6)"
    )
    expect(failure).to_contain_text("rank 0 stopped because of it.")
    expect(failure.locator("pre")).to_have_text(TRACEBACK)
    expect(ranks).to_contain_text("1 Stopped · 1 Failed")
    head = ranks.locator("th[scope=col]")
    expect(head).to_have_text(["Rank", "State", "Pod", "Node", "Restarts", "Exit", "Memory"])
    assert rows(ranks) == [
        ["0", "Stopped", "fit-node-0-0-b", "gpu-a", "1", "75", ""],
        ["1", "Failed", "fit-node-0-1-b", "gpu-c", "1", "1", ""],
    ]

    # What happened, in its order, with its time.
    events = part(view, "Events").locator("li")
    expected = [
        (65, "state", f"Pending: {UNSCHEDULABLE}"),
        (95, "state", "Starting: Python and JAX are starting"),
        (107, "state", "Running"),
        (500, "gap", f"rank 0: {say.LOST_LINES(lines='50 lines')}"),
        (707, "state", f"Starting: {EVICTED}; {say.ALL_START_AGAIN()}"),
        (720, "restart", say_of_jobs.ALL_START_AGAIN(restart=RESTART)),
        (752, "state", f"Running: {RESTART}"),
        (752, "restart", AGAIN),
        (4477, "error", "rank 1: KeyError: 'labels'"),
        (4477, "state", "Failed: rank 1 failed first: KeyError: 'labels' (cell line 6)"),
    ]
    expect(events).to_have_count(len(expected))
    stamps = [
        f"{datetime.fromtimestamp(story.begun + at, UTC):%Y-%m-%dT%H:%M:%S}.000Z"
        for at, *_ in expected
    ]
    assert events.locator("time").evaluate_all("all => all.map(each => each.dateTime)") == stamps
    texts = events.evaluate_all(
        "all => all.map(each => [...each.children].map(one => one.textContent))"
    )
    assert [(kind, message) for _, kind, message in texts] == [
        (kind, text) for _, kind, text in expected
    ]
    assert all(re.search(r"\d:\d\d:\d\d", time) for time, _, _ in texts)

    # What was sent, and the line at which it failed.
    expect(part(view, "Sent")).to_contain_text("1 item, 40 B")
    assert rows(part(view, "Sent")) == [["data", "float32[10]", "40 B"]]
    code = part(view, "Code")
    expect(code).to_contain_text("%%jaxtrain")
    expect(code.locator("mark")).to_have_text('    batch = data[step]["labels"]')

    # The TrainJob as the cluster has it, without what may be secret; and then it is gone.
    secret = {"name": "HF_TOKEN", "value": "hf_secret"}
    scene.answers[TRAINJOB] = {
        "apiVersion": trainjob.API,
        "kind": "TrainJob",
        "metadata": {"name": "fit", "uid": "t-1", "annotations": {trainjob.UID: uid_of("fit")}},
        "spec": {"trainer": {"numNodes": 2, "env": [secret]}},
    }
    yaml = part(view, "YAML")
    yaml.get_by_role("button", name="YAML").click()
    expect(yaml.locator("pre")).to_contain_text("kind: TrainJob")
    expect(yaml.locator("pre")).to_contain_text("numNodes: 2")
    expect(yaml.locator("pre")).to_contain_text("HF_TOKEN")
    expect(yaml).not_to_contain_text("hf_secret")
    scene.answers[TRAINJOB] = 404
    lab.allow("404 .*/jobs/fit/yaml")
    yaml.get_by_role("button", name="Reload").click()
    expect(yaml.get_by_role("status")).to_have_text(
        say_of_kubernetes.GONE_FROM_CONTEXT(name="fit", context="one")
    )


def test_attempts_and_gaps_in_a_log(lab: LabPage, story: Story) -> None:
    story.told()
    lab.command("jaxtrain:show-jobs")
    lab.command("jaxtrain:open-job", key="fit")
    lab.job("fit").get_by_role("button", name="Open the log of rank 1").click()
    log = lab.log("fit")

    def tool(name: str) -> Locator:
        return log.node.get_by_role("button", name=name, exact=True)

    def goes_to_error(text: str, status: str) -> None:
        tool("first error").click()
        expect(log.list.locator("[data-current] .jaxtrain-log-text")).to_have_text(text)
        expect(log.status).to_contain_text(status)

    expect(tool("Only rank 1")).to_have_attribute("aria-pressed", "true")
    tool("Only rank 1").click()
    marks = log.rows.and_(log.node.locator("[data-kind=note]"))
    restarts = [say.RESTART(number=1, pod=f"fit-node-0-{rank}-b") for rank in (0, 1)]
    expect(marks.locator(".jaxtrain-log-text")).to_have_text([LOST, *restarts])
    expect(marks.locator(".jaxtrain-rank")).to_have_text(["0", "0", "1"])
    tool("time of day").click()
    expect(marks.locator(".jaxtrain-log-time")).to_have_text(
        ["+00:08:20", "+00:12:00", "+00:12:00"]
    )

    # The first error is that of the second attempt: what a logger says in the first one is less.
    goes_to_error("Traceback (most recent call last):", "line 27 of 32")
    both = [f"step {step}" for step in range(1, 9) for _ in (0, 1)]
    after = [f"step {step}" for step in range(7, 10) for _ in (0, 1)]
    expected = [*both, LATE, LOST, *restarts, *after, *TRACEBACK.split("\n"), "stops"]
    assert [line.strip() for line in log.lines()] == [line.strip() for line in expected]

    # The same in a part of the log.
    tool("Only rank 0").click()
    expect(marks).to_have_count(2)
    goes_to_error(LATE, "line 9 of 15")
    tool("filter").click()
    log.node.get_by_role("searchbox", name="without", exact=True).fill("step")
    lab.keys("Enter")
    expect(log.rows.locator(".jaxtrain-log-text")).to_have_text([LATE, LOST, restarts[0], "stops"])
    goes_to_error(LATE, "line 1 of 4")
    log.node.get_by_role("searchbox", name="with", exact=True).fill("restart")
    lab.keys("Enter")
    expect(log.rows.locator(".jaxtrain-log-text")).to_have_text([restarts[0]])
    expect(marks).to_have_count(1)
    tool("first error").click()
    expect(log.status).to_contain_text("No errors found")

    # What fetched the data has a log of its own.
    for name in ("with", "without"):
        log.node.get_by_role("searchbox", name=name, exact=True).fill("")
        lab.keys("Enter")
    tool("Only dataset-initializer").click()
    expect(log.rows.locator(".jaxtrain-log-text")).to_have_text(["fetched 3 files"])


def test_what_came_back_and_what_did_not(lab: LabPage) -> None:
    make_job("kept")
    lab.command("jaxtrain:open-job", key="kept")
    results = part(lab.job("kept"), "Results")
    expect(results).to_contain_text("1 of 2 came back")
    never = say_of_worker.NEVER_SET(name="acc")
    assert rows(results) == [["loss", "float", "8 B", "pickle"], ["acc", never]]
    expect(results.locator("[data-bad=true]")).to_have_text(never)


# ---------------------------------------------------------------------------- begun elsewhere


def test_a_job_of_the_command_line(lab: LabPage, tmp_path: Path) -> None:
    lab.command("jaxtrain:show-jobs")
    expect(lab.jobs.locator(".jaxtrain-row")).to_have_count(0)
    script, end = tmp_path / "train.py", tmp_path / "end"
    script.write_text(SCRIPT.format(end=str(end)))
    environment = {name: value for name, value in os.environ.items() if name not in MEASURING}
    with (tmp_path / "printed").open("w+b") as printed:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "jupyter_jax_trainer",
                "run",
                "train.py",
                "from-shell",
                "-n",
                "2",
            ],
            env=environment,
            cwd=tmp_path,
            stdout=printed,
            stderr=subprocess.DEVNULL,
        )
        try:
            _looks_at_the_job(lab, end)
            assert process.wait(60) == 0
        finally:
            end.touch()
            process.wait(60)
            printed.seek(0)
            text = printed.read().decode()
    assert "rank 0 began\nthe last line\n" in text, text


def _looks_at_the_job(lab: LabPage, end: Path) -> None:
    """See a job come, run and end, in a page that stays as it is."""
    row, view, log = lab.row("from-shell"), lab.job("from-shell"), lab.log("from-shell")
    expect(row.locator(".jaxtrain-state")).to_have_text("Running", timeout=SLOW)
    row.click()
    code = part(view, "Code")
    expect(code).to_contain_text('print("the last line")')
    expect(code).to_contain_text(str(end.with_name("train.py")))
    expect(code).to_contain_text("To run it again, run this file again")
    # There is no notebook to go to.
    actions = view.locator(".jaxtrain-actions").get_by_role("button")
    expect(actions).to_have_text(["Log", "Copy name", "Delete", "Cancel"])
    row.click(button="right")
    items = lab.page.locator(".lm-Menu-item:not([data-type=separator]) .lm-Menu-itemLabel")
    expect(items).to_have_text(["Open", "Open Log", "Copy Name", "Cancel…", "Delete…"])
    lab.page.locator(".lm-Menu-itemLabel").get_by_text("Open Log", exact=True).click()
    expect(log.rows).to_have_count(2)
    end.touch()
    expect(row.locator(".jaxtrain-state")).to_have_text("Succeeded", timeout=SLOW)
    expect(view.locator("header .jaxtrain-state")).to_have_text("Succeeded")
    expect(lab.page.locator(".Toastify__toast", has_text="from-shell succeeded in")).to_have_count(
        1
    )
    expect(log.rows).to_have_count(4)
    lines = log.lines()
    assert (
        sorted(lines[:2]) == ["rank 0 began", "rank 1 began"] and lines[2:] == ["the last line"] * 2
    )


def test_a_job_whose_kernel_was_killed(lab: LabPage, job: Job, tmp_path: Path) -> None:
    lab.allow("Canceled future for create_subshell_request")  # JupyterLab's own
    pid = tmp_path / "pid"
    write = f"import os, pathlib\npathlib.Path({str(pid)!r}).write_text(str(os.getpid()))"
    lab.notebook("killed", f"{LOAD}\n{write}", job.code())
    lab.run(0)
    lab.has_run(0)
    lab.run(1)
    card = job_summary(lab.cell(1))
    is_state(card, "Running")
    lab.command("jaxtrain:show-jobs")
    lab.command("jaxtrain:open-job", key=job.name, split=True)
    os.kill(int(pid.read_text()), signal.SIGKILL)
    lab.page.get_by_role("dialog").get_by_role("button", name="Ok").click(timeout=SLOW)

    # It goes on, and all that shows it goes on as well.
    view, row = lab.job(job.name), lab.row(job.name)
    progress = view.locator(".jaxtrain-progress")
    for _ in range(2):
        before = progress.inner_text()
        expect(progress).not_to_have_text(before, timeout=SLOW)
    is_state(card, "Running")
    expect(row.locator(".jaxtrain-state")).to_have_text("Running")
    job.end()
    expect(row.locator(".jaxtrain-state")).to_have_text("Succeeded", timeout=SLOW)
    expect(view.locator("header .jaxtrain-state")).to_have_text("Succeeded")
    is_state(card, "Succeeded")
    lab.command("jaxtrain:open-log", key=job.name, split=True)
    lab.log(job.name).last_is("all numbers")
    assert lab.log(job.name).lines() == ["first line", "all numbers"]
    assert api.job(job.name).state == "Succeeded"
    view.get_by_role("button", name="Notebook", exact=True).click()
    lab.page.wait_for_function(
        """() => {
            const { currentWidget } = window.jupyterapp.shell;
            return currentWidget?.context?.path === 'killed.ipynb' && currentWidget.content.activeCellIndex === 1;
        }"""
    )


def test_a_job_of_somebody_else_is_trusted_after_a_question_that_says_whose_it_is(
    lab: LabPage, jobs_home: Path
) -> None:
    directory = made_elsewhere(make_job("theirs"), maker="eve@lab")
    lab.command("jaxtrain:show-jobs")
    lab.row("theirs").click()
    view = lab.job("theirs")
    facts, results = view.locator(".jaxtrain-facts"), part(view, "Results")
    expect(facts).to_contain_text("claims to be made by eve@lab")
    expect(results).to_contain_text("withheld")
    trust = view.get_by_role("button", name="Trust results", exact=True)
    places = [view.locator("h2").bounding_box(), facts.bounding_box(), results.bounding_box()]
    question = lab.page.locator(".jp-Dialog")
    trust.click()
    expect(question).to_contain_text("eve@lab")
    expect(question).to_contain_text("run code with your permissions")
    question.get_by_role("button", name="Withhold", exact=True).click()
    expect(question).to_have_count(0)
    assert not directory.trust.exists()
    trust.click()
    question.get_by_role("button", name="Trust Results", exact=True).click()
    expect(trust).to_have_count(0)
    expect(results).not_to_contain_text("withheld")
    assert JobHandle(directory).trusted
    now = [view.locator("h2").bounding_box(), facts.bounding_box(), results.bounding_box()]
    assert now == places, "nothing moves"
