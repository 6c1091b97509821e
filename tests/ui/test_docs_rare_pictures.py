"""The pictures in docs/images of what is seen more rarely: no job, no answer, long lines, keys."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from harness import eventually, submit, wait_failed
from playwright.sync_api import Locator, WebSocketRoute, expect

from jupyter_jax_trainer import api
from ui.pages import LOAD, LabPage
from ui.shots import (
    DATA,
    NARROW,
    THEMES,
    WIDE,
    cluster,
    code,
    data,
    in_all,
    pictures,
    save,
    save_page,
    save_part,
)
from ui.story import begun

__all__ = ["pictures"]  # a fixture

BARS = {"wide": 300, "narrow": 200}  # the side bar
LOW = {"width": 1000, "height": 420}
RATES = {"rate-05": 0.05, "rate-20": 0.2, "rate-80": 0.8}
SIZES = {"wide": WIDE, "narrow": NARROW}
SECTIONS = {"wide": {"width": 1040, "height": 820}, "narrow": NARROW}  # plots beside each other
PAGES = {"wide": {"width": 900, "height": 600}, "narrow": {"width": 520, "height": 600}}

LONG = """import jax, json
blocks = [{"block": n, "width": 1024, "heads": 16, "dropout": 0.1} for n in range(8)]
print("rank", jax.process_index(), "of", jax.process_count())
if jax.process_index() == 0:
    print("config", json.dumps({"model": "transformer", "blocks": blocks}))
for step in range(1, 31):
    print(f"step {step} loss {2 / step:.4f}")
"""


class Way:
    """The WebSocket of the page to the server extension, which can be cut."""

    def __init__(self, lab: LabPage) -> None:
        self._open: list[WebSocketRoute] = []
        self._is_cut = False
        lab.page.route_web_socket(re.compile("/jaxtrain/api/"), self._connect)
        lab.reload()

    def _connect(self, route: WebSocketRoute) -> None:
        if self._is_cut:
            route.close()
        else:
            route.connect_to_server()
            self._open.append(route)

    def cut(self) -> None:
        self._is_cut = True
        for route in self._open:
            route.close()


def of_side_bar(
    lab: LabPage, name: str, node: Locator, folder: Path, heights: dict[str, int]
) -> None:
    def fit(kind: str) -> None:
        lab.page.set_viewport_size({"width": 1000, "height": heights[kind]})
        lab.side_bar(BARS[kind])

    in_all(lab, fit, lambda how: save(node, f"{name}-{how}", folder))


def of_main_area(lab: LabPage, name: str, node: Locator, folder: Path) -> None:
    in_all(
        lab,
        lambda kind: lab.page.set_viewport_size(SIZES[kind]),
        lambda how: save(node, f"{name}-{how}", folder),
    )


def shoot_nothing(lab: LabPage, folder: Path) -> None:
    """The list of jobs before there is one, and a cluster that does not answer."""
    lab.command("jaxtrain:show-jobs")
    expect(lab.jobs).to_contain_text("No jobs yet")
    of_side_bar(lab, "jobs-empty", lab.jobs, folder, {"wide": 330, "narrow": 460})
    lab.notebook("far", "%%jaxtrain -n 2\nimport jax")
    lab.cell(0).locator(".cm-content").click()
    lab.command("jaxtrain:show-runtimes")
    places = lab.picker.get_by_label("Run on")
    places.select_option(label=places.locator("option", has_text="gpus").inner_text())
    expect(lab.picker.get_by_role("button", name="Check again").first).to_be_visible(timeout=60_000)
    expect(lab.picker.locator(".jaxtrain-summary")).to_contain_text("not answer", timeout=60_000)
    of_side_bar(lab, "runtimes-error", lab.picker, folder, {"wide": 870, "narrow": 1020})


def shoot_menu(lab: LabPage, folder: Path) -> None:
    """The menu of a row of the list."""
    lab.page.set_viewport_size(LOW)
    lab.command("jaxtrain:show-jobs")
    more = lab.row("running").locator(".jaxtrain-more")

    def fit(kind: str) -> None:
        lab.side_bar(BARS[kind])
        lab.row("running").hover()
        more.click()

    def take(how: str) -> None:
        menu = lab.page.locator(".lm-Menu")
        panel, box = lab.jobs.bounding_box(), menu.bounding_box()
        assert panel and box
        right = box["x"] + box["width"] + 8
        save_part(lab.page, {**panel, "width": right - panel["x"]}, f"jobs-menu-{how}", folder)
        lab.keys("Escape")
        expect(menu).to_have_count(0)

    in_all(lab, fit, take)


def shoot_compared(lab: LabPage, folder: Path) -> None:
    """The plots of three jobs over one another, and the choice of them."""
    view = lab.job("rate-20")
    lab.command("jaxtrain:open-job", key="rate-20")
    view.get_by_role("button", name="Compare", exact=True).click()
    for name in ("rate-05", "rate-80"):
        view.get_by_role("checkbox", name=re.compile(f"^{name}")).check()
    legend = view.locator(".jaxtrain-legend").first.locator("[data-series]")
    expect(legend).to_have_text(
        [re.compile(rf"{name} \d") for name in ("rate-20", "rate-05", "rate-80")]
    )
    lab.evaluate("() => document.activeElement.blur()")
    section = view.get_by_role("group", name="Metrics", exact=True)

    def take(how: str) -> None:
        lab.page.mouse.move(0, 0)
        section.scroll_into_view_if_needed()
        box = section.bounding_box()
        assert box
        clip = {
            "x": box["x"] - 10,
            "y": box["y"],
            "width": box["width"] + 20,
            "height": box["height"],
        }
        save_part(lab.page, clip, f"compare-{how}", folder)

    in_all(lab, lambda kind: lab.page.set_viewport_size(SECTIONS[kind]), take)


def shoot_log(lab: LabPage, folder: Path) -> None:
    """A long line in full, and the keys of a log."""
    lab.command("jaxtrain:open-log", key="configured")
    log = lab.log("configured")
    log.node.get_by_role("searchbox").fill("config")
    expect(log.list.locator("[data-current]")).to_contain_text("config")  # lines are marked earlier
    lab.keys("ArrowDown", "Enter")
    line = log.node.get_by_role("region", name="Full line")
    expect(line).to_contain_text('"block": 7')
    of_main_area(lab, "log-line", log.node.locator(".jaxtrain"), folder)
    log.list.focus()  # wherever it went as the themes changed
    lab.keys("Escape", "?")
    expect(line).to_have_count(0)
    expect(log.node.get_by_role("dialog")).to_be_visible()
    of_main_area(lab, "log-keys", log.node.locator(".jaxtrain"), folder)


def shoot_cluster(lab: LabPage, folder: Path) -> None:
    """A job of a cluster while it waits, when it has failed after another start, and its log."""
    with begun() as story:
        view = lab.job(story.name)
        story.waits()
        lab.command("jaxtrain:open-job", key=story.name)
        expect(view.locator(".jaxtrain-why")).to_be_visible()
        lab.evaluate("() => document.activeElement.blur()")
        of_main_area(lab, "job-waiting", view.locator(".jaxtrain"), folder)
        lab.command("application:close")
        story.goes()
        toast = lab.page.locator(".Toastify__toast").filter(has_text=f"{story.name} failed")
        toast.get_by_role("button", name="Open", exact=True).click()
        expect(toast).to_have_count(0)
        expect(view.locator("h2")).to_have_text(story.name)
        lab.evaluate("() => document.activeElement.blur()")
        of_main_area(lab, "job-cluster", view.locator(".jaxtrain"), folder)
        lab.command("jaxtrain:open-log", key=story.name)
        log = lab.log(story.name)
        expect(log.rows.and_(log.node.locator("[data-kind=note]"))).to_have_count(3)
        of_main_area(lab, "log-attempts", log.node.locator(".jaxtrain"), folder)


def shoot_notice(lab: LabPage, folder: Path) -> None:
    """What is said when a job has failed, and the list then."""
    lab.command("jaxtrain:show-jobs")
    lab.command("docmanager:open", path="saved.ipynb")
    wait_failed(submit("{}['labels']", line="sweep-18 -n 2"))
    toast = lab.page.locator(".Toastify__toast").filter(has_text="sweep-18 failed")
    expect(toast).to_be_visible()
    sizes = {kind: {**size, "height": 520} for kind, size in SIZES.items()}

    def fit(kind: str) -> None:
        lab.page.set_viewport_size(sizes[kind])
        lab.side_bar(BARS[kind])

    in_all(lab, fit, lambda how: save_page(lab.page, f"notice-{how}", folder))
    toast.get_by_role("button", name="Open", exact=True).click()
    expect(toast).to_have_count(0)


def shoot_lost(lab: LabPage, way: Way, folder: Path) -> None:
    """A job that runs, in a page that has lost the server."""
    view = lab.job("running")
    lab.command("jaxtrain:open-job", key="running")
    expect(view.locator(".jaxtrain-plots canvas").first).to_be_visible()
    way.cut()
    expect(view).to_contain_text("Disconnected")
    of_main_area(lab, "job-lost", view.locator(".jaxtrain"), folder)


def shoot_card(lab: LabPage, folder: Path, tmp_path: Path) -> None:
    """What stays of a job in its notebook, as a page that nbconvert makes shows it."""
    from nbconvert import HTMLExporter

    lab.notebook(
        "saved", LOAD, DATA, "%%jaxtrain digits -n 4 -o weights\n" + code(200, 0, 40).rstrip()
    )
    for number in (0, 1, 2):
        lab.run(number)
    lab.has_run(2)
    lab.command("docmanager:save")
    notebook = nbformat.read(lab.server.root / "saved.ipynb", as_version=4)
    page = lab.page.context.new_page()
    page.route(re.compile("^https?:"), lambda route: route.abort())
    for theme in THEMES:
        body, _ = HTMLExporter(theme=theme).from_notebook_node(notebook)
        (tmp_path / "saved.html").write_text(body)
        for kind, size in PAGES.items():
            page.set_viewport_size(size)
            page.goto((tmp_path / "saved.html").as_uri())
            expect(page.get_by_role("status")).to_contain_text("Succeeded")
            save(page.locator(".jp-Cell").nth(2), f"card-{theme}-{kind}", folder)
    page.close()


@pytest.mark.release
@pytest.mark.timeout(480)
def test_pictures_of_what_is_rare(open_page, pictures, tmp_path):
    lab = open_page(viewport=LOW)
    lab.allow("503")  # of the cluster that does not answer
    way = Way(lab)
    with cluster(lab.server, "gpus", "http://127.0.0.1:9", "team"):  # does not answer
        shoot_nothing(lab, pictures)
    values = data()
    for name, rate in RATES.items():
        submit(code(200, 0, 2, rate), values, f"{name} -n 2").wait(90)
    submit(LONG, values, "configured -n 2").wait(60)
    submit(code(8000, 0.05, 5), values, "running -n 2")
    eventually(lambda: len(list(api.job("running").metrics())) > 60)
    shoot_menu(lab, pictures)
    lab.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    shoot_compared(lab, pictures)
    shoot_log(lab, pictures)
    shoot_card(lab, pictures, tmp_path)
    shoot_notice(lab, pictures)
    lab.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    shoot_cluster(lab, pictures)
    shoot_lost(lab, way, pictures)
    assert len(list(pictures.glob("*.png"))) == 48


SESSION = """import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
from jupyter_jax_trainer import report

mesh = jax.make_mesh((jax.device_count(),), ("data",))
params = {"encoder": jnp.zeros((4096, 512)), "head": jnp.zeros((512, 10))}
opt_state = {"mu": jnp.zeros((4096, 512)), "nu": jnp.zeros((4096, 512))}
images = jax.device_put(jnp.zeros((8192, 784)), NamedSharding(mesh, P("data")))
before = jnp.ones((4096, 512))
before.delete()
step, learning_rate = 0, 0.001
def loss(params, batch): return 0.0
"""
FITS = """import time
for step in range(1, 4000):
    report(step, 4000, loss=1 / step)
    time.sleep(0.05)
"""


@pytest.mark.release
@pytest.mark.timeout(240)
def test_pictures_of_a_session(open_page, pictures):
    submit(SESSION, line="-s lab -n 2").wait(60)
    failed = submit("batch = {}['labels']", line="-s lab")
    eventually(lambda: failed.state == "Failed")
    submit("accuracy = 0.974", line="-s lab --name evaluate").wait(60)
    submit(FITS, line="-s lab")
    submit("print(loss)", line="-s lab")
    lab = open_page(viewport=WIDE)
    lab.command("jaxtrain:open-job", key="lab")
    view = lab.job("lab")
    expect(view.locator("[data-section=cells] tbody tr")).to_have_count(5)
    expect(view.locator("[data-section=ranks] tbody tr").last).to_contain_text("MB")
    lab.evaluate("() => document.activeElement.blur()")
    of_main_area(lab, "session", view.locator(".jaxtrain"), pictures)
    api.job("lab").cancel()
