"""From a runtime of a cluster to its pods' logs, in JupyterLab."""

from __future__ import annotations

import re
from typing import Any

import other_python
import pytest
from cluster import made_runtimes
from cluster.conftest import cluster, namespace
from cluster.jobs import PATIENCE, stop_followers
from harness import eventually, submit
from playwright.sync_api import Locator, expect

from ui.labs import Installed, Lab
from ui.looks import nothing_jumped, watch_shifts
from ui.pages import LOAD
from ui.walk.hands import HANDS, Keyboard

__all__ = ["cluster", "namespace"]  # fixtures

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

CODE = """import time
from jupyter_jax_trainer import report
for step in range(100_000):
    report(step=step, loss=1 / (step + 1))
    print(f"step {step}")
    time.sleep(0.05)
"""
FAILS = """import time
from jupyter_jax_trainer import report
for step in range(40):
    report(step=step, total=40, loss=1 / (step + 1))
    print(f"step {step}")
    time.sleep(0.1)
raise ValueError("it ends badly")
"""
WAIT = PATIENCE * 1000


@pytest.fixture
def kubeconfig(cluster, namespace, tmp_path, monkeypatch):
    """Give a kubeconfig that names the namespace of this test."""
    path = tmp_path / "kubeconfig"
    path.write_text(cluster("config", "view", "--raw", "--flatten"))
    cluster(
        "--kubeconfig",
        str(path),
        "config",
        "set-context",
        "--current",
        f"--namespace={namespace.name}",
    )
    monkeypatch.setenv("KUBECONFIG", str(path))  # the fixtures clean up with it
    return path


@pytest.fixture
def desk(kubeconfig, ui_home, tmp_path):
    """Give a JupyterLab for it."""
    server = Lab(tmp_path, ui_home, kubeconfig)
    yield server
    server.stop()
    stop_followers(ui_home)


@pytest.fixture
def installed_desk(kubeconfig, wheel_python_for_clusters, ui_home, tmp_path):
    """Give one as a stranger has it, who has installed the wheel."""
    server = Installed(tmp_path, ui_home, wheel_python_for_clusters, kubeconfig)
    yield server
    server.stop()
    stop_followers(ui_home)


ASKED = {
    "Cores per node": "500m",
    "Memory per node": "1Gi",
    "Time limit": "2h",
    "Namespace": "team-b",
}


def eight_gpus(pod: dict[str, Any]) -> None:
    pod["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "8"}}


def done(hand: Any, picker: Locator) -> None:
    """Be done with a namespace: until then it may be half a name."""
    if isinstance(hand, Keyboard):
        hand.lab.keys("Enter")
    else:
        picker.locator(".jaxtrain-ask").click()  # elsewhere


def counted(server: Lab, name: str, *labels: str) -> float:
    """Return a number that Prometheus is told; its other labels name the cluster."""
    numbers = server.numbers().items()
    return sum(value for (each, *its), value in numbers if each == name and {*labels} <= {*its})


@pytest.mark.timeout(other_python.INSTALL_S)
@pytest.mark.parametrize("kind", HANDS.values(), ids=HANDS)
def test_by_either_hand(kind, open_page, installed_desk, namespace):
    """What only a cluster has: many runtimes, their YAML and a job's, suspend and resume."""
    for name in ("small-models", "large-models"):
        made_runtimes.make(namespace, name)
    namespace("label", "trainingruntime", "large-models", "trainer.kubeflow.org/support=deprecated")
    made_runtimes.make(namespace, "eight-gpus", eight_gpus, like="jax-distributed")
    lab = open_page(installed_desk)
    hand, picker = kind(lab), lab.picker
    hand.command("Show Training Runtimes")
    places = picker.get_by_label("Run on")
    there = places.locator("option").filter(has_text="kubernetes").first
    hand.choose(places, there.inner_text())
    runtimes = picker.get_by_role("radiogroup", name="Runtime").get_by_role("radio")
    search = picker.get_by_role("searchbox")
    expect(search).to_be_visible(timeout=WAIT)
    # The devices of the runtime count.
    hand.write(search, "eight-gpus")
    hand.check_box(runtimes.nth(1))
    hand.write(picker.get_by_label("Nodes"), "4")
    expect(picker.locator(".jaxtrain-ask")).to_contain_text("32 GPU")
    # What only jobs on clusters have.
    hand.write(search, "")
    hand.press(picker.get_by_role("button", name=re.compile("^More")))
    for label, value in ASKED.items():
        hand.write(picker.get_by_label(label, exact=True), value)
    done(hand, picker)
    for option in (
        f"--namespace {ASKED['Namespace']}",
        "--cpu 500m",
        "--memory 1Gi",
        "--timeout 2h",
    ):
        expect(picker.locator(".jaxtrain-foot pre")).to_contain_text(option)
    hand.write(picker.get_by_label("Namespace", exact=True), namespace.name)
    done(hand, picker)

    hand.write(search, "large mod")
    expect(runtimes).to_have_count(2)  # with "Automatic"
    expect(picker.locator(".jaxtrain-card", has_text="large-models")).to_contain_text("deprecated")
    hand.press(picker.get_by_role("button", name=re.compile("^Details of large-models")))
    hand.press(picker.get_by_role("button", name="YAML", exact=True))
    expect(picker.locator(".jaxtrain-yaml")).to_contain_text("kind: TrainingRuntime", timeout=WAIT)

    job = submit(CODE, line="--backend kubernetes -n 1 -r large-models")
    hand.command("Show Training Jobs")
    expect(lab.row(job.name).locator(".jaxtrain-state")).to_have_text("Running", timeout=WAIT)
    hand.press(lab.row(job.name))
    view = lab.job(job.name)
    hand.press(view.get_by_role("button", name="YAML", exact=True))
    expect(view.locator(".jaxtrain-source").filter(has_text="kind: TrainJob")).to_be_visible(
        timeout=WAIT
    )
    state = view.locator("header .jaxtrain-state")
    hand.press(view.get_by_role("button", name="Suspend", exact=True))
    expect(state).to_have_text("Suspended", timeout=WAIT)
    hand.press(view.get_by_role("button", name="Resume", exact=True))
    expect(state).to_have_text("Running", timeout=WAIT)
    hand.check()
    job.cancel()


@pytest.fixture
def no_node(cluster):
    """Have no node that takes pods; give what lets them in again."""
    nodes = cluster("get", "nodes", "-o", "name").split()
    cluster("cordon", *nodes)
    yield lambda: cluster("uncordon", *nodes)
    cluster("uncordon", *nodes)


@pytest.mark.parametrize("width", [1600, 700])
def test_nothing_jumps_while_a_job_waits_runs_and_fails(open_page, desk, namespace, no_node, width):
    job = submit(FAILS, line="--backend kubernetes -n 2 -r jax-cpu")
    lab = open_page(desk, viewport={"width": width, "height": 1200})
    lab.command("jaxtrain:show-jobs")
    lab.command("jaxtrain:open-job", key=job.name)
    view, state = lab.job(job.name), lab.row(job.name).locator(".jaxtrain-state")
    expect(state).to_have_text("Pending", timeout=WAIT)
    watch_shifts(lab)
    expect(view.locator(".jaxtrain-why")).to_contain_text("cordoned", timeout=WAIT)
    no_node()
    expect(state).to_have_text("Running", timeout=WAIT)
    expect(view.get_by_role("group", name="Last lines")).to_contain_text(
        re.compile(r"step \d"), timeout=WAIT
    )
    expect(view.get_by_role("group", name="Failure")).to_contain_text("it ends badly", timeout=WAIT)
    nothing_jumped(lab, f"[id='jaxtrain-job-{job.name}'] .jaxtrain-job")


def test_the_whole_path_on_a_cluster(open_page, desk, namespace):
    lab = open_page(desk)
    page, picker = lab.page, lab.picker
    lab.notebook("cluster", LOAD, CODE)
    lab.run(0)
    lab.has_run(0)
    lab.cell(1).click()
    page.get_by_role("tab", name="Runtimes for JAX Training").click()
    places = picker.get_by_label("Run on")
    there = places.locator("option").filter(has_text="kubernetes")
    places.select_option(there.first.get_attribute("value"))
    picker.get_by_role("radio", name=re.compile("^jax-cpu(?!-)")).click(timeout=WAIT)
    picker.get_by_label("Nodes").fill("2")
    picker.get_by_role("button", name="Insert").click()
    expect(lab.cell(1)).to_contain_text("%%jaxtrain")
    first = lab.source(1).splitlines()[0]
    assert re.search(r"-n 2\b", first) and "-r jax-cpu" in first, first
    picker.get_by_role("button", name="Run cell").click()

    page.get_by_role("tab", name="JAX Training", exact=True).click()
    row = lab.jobs.locator(".jaxtrain-row").first
    expect(row.locator(".jaxtrain-state")).to_have_text("Running", timeout=WAIT)
    key = str(row.get_attribute("data-key"))
    row.click()
    job = lab.job(key)
    pods = namespace.pods(key)
    for pod in pods:  # names are cut in the middle, and whole in the tip
        expect(job.get_by_title(pod["metadata"]["name"]).first).to_be_visible()
    job.get_by_role("button", name="Log", exact=True).first.click()
    log = lab.log(key)
    expect(log.rows.last).to_contain_text(re.compile(r"step \d+"), timeout=WAIT)
    before = log.rows.last.inner_text()
    expect(log.rows.last).not_to_have_text(before)
    assert len(pods) == 2
    eventually(lambda: counted(desk, "jaxtrain_follower_log_bytes_total") > 0, PATIENCE)
    assert counted(desk, "jaxtrain_followers") == counted(desk, "jaxtrain_follower_jobs") == 1
    assert counted(desk, "jaxtrain_jobs", "Running", "kubernetes") == 1
    expect(log.node.locator(".jaxtrain-rank").filter(has_text="1").first).to_be_visible()
    log.node.get_by_role("searchbox").fill("step 7")
    expect(log.rows.locator("mark").first).to_have_text("step 7", timeout=WAIT)
    count = log.node.locator(".jaxtrain-log-count")
    expect(count).to_have_text(re.compile(r"of ([2-9]|\d{2,})"), timeout=WAIT)  # of both ranks

    job.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel Job").click()
    expect(row.locator(".jaxtrain-state")).to_have_text("Cancelled", timeout=WAIT)
    expect(log.status).not_to_contain_text("following")
    assert log.lines()  # what was printed stays
