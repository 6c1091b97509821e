"""One JupyterLab server and one browser for all tests of this folder, and a fresh page for each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import other_python
import policy
import pytest

from ui.labs import NOTEBOOK, PROMISED, ROOT, Installed, Lab, need_built

ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SIZE = {"width": 1400, "height": 900}
QUICK = ("test_path.py",)  # the one way through all views is enough before a commit

SHOTS = pytest.StashKey[dict[str, str]]()  # pictures for docs/images, and what is new about each
_report = pytest.StashKey[pytest.TestReport]()
_pages = pytest.StashKey[list[Any]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if not item.get_closest_marker("timeout"):  # many views, on a busy machine
                item.add_marker(pytest.mark.timeout(300))
            if item.path.name not in QUICK:
                item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: Any = yield
    if report.when == "call":
        item.stash[_report] = report
        if report.failed:
            for number, page in enumerate(item.stash.get(_pages, [])):
                report.sections.append((f"what page {number} says", words(page)))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    shots = terminalreporter.config.stash.get(SHOTS, {})
    if shots:
        terminalreporter.section("pictures in docs/images; before and after: build/pictures")
        for name, what in sorted(shots.items(), key=lambda shot: (shot[1] == "as before", shot[0])):
            terminalreporter.line(f"{name:44} {what}")


def failed(request: pytest.FixtureRequest) -> bool:
    """Return whether the test that ends has failed."""
    report = request.node.stash.get(_report, None)
    return bool(report and report.failed)


def words(page: Any) -> str:
    """Return what a page says, and which errors it had, for who has only the words of a run."""
    from playwright.sync_api import Error

    try:
        text = page.page.locator("body").inner_text(timeout=5000)
    except Error as error:
        text = f"nothing: {error}"
    return "\n".join([*page.errors, *filter(str.strip, text.splitlines())])


def picture(page: Any, request: pytest.FixtureRequest, number: int = 0) -> None:
    """Keep what a page looks like at the end of a test."""
    folder = ROOT / "build" / "ui"
    folder.mkdir(parents=True, exist_ok=True)
    page.page.screenshot(path=folder / f"{request.node.name}-{number}.png")


# The browser is closed after the last test of the folder: Playwright leaves a running event loop
# in the thread for as long, which other tests could not bear.
@pytest.fixture(scope="package")
def chromium() -> Iterator[tuple[Any, dict[str, Any]]]:
    """Give what starts browsers, and how Chromium is started."""
    try:
        from playwright.sync_api import expect, sync_playwright
    except ImportError:
        policy.skip_or_fail("browser", "playwright is not installed")
    expect.set_options(timeout=20_000)  # ms; the usual 5 s are short on a machine with other work
    chromium = os.environ.get("JAXTRAIN_CHROMIUM") or shutil.which("chromium")
    if not chromium:
        policy.skip_or_fail("browser", "there is no chromium; JAXTRAIN_CHROMIUM may name one")
    with sync_playwright() as playwright:
        yield playwright.chromium, {"executable_path": chromium, "args": ARGS}


@pytest.fixture(scope="package")
def browser(chromium: Any) -> Iterator[Any]:
    """Give a browser whose contexts know nothing of each other."""
    browser = chromium[0].launch(**chromium[1])
    yield browser
    browser.close()


@pytest.fixture(scope="package")
def profile(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Give a context that keeps compiled scripts: a page of JupyterLab costs a third less by that."""
    folder = tmp_path_factory.mktemp("profile")
    context = chromium[0].launch_persistent_context(folder, viewport=SIZE, **chromium[1])
    yield context
    context.close()


def forget(profile: Any, servers: set[str]) -> None:
    """Leave nothing in a profile but what it has compiled."""
    blank, *pages = profile.pages
    for page in pages:
        page.close()
    profile.clear_cookies()
    profile.clear_permissions()
    session = profile.new_cdp_session(blank)
    kinds = "cookies,local_storage,indexeddb,service_workers,cache_storage"
    for origin in servers:
        session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": kinds})
    session.detach()


@pytest.fixture(scope="package")
def ui_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    from conftest import end_processes_of

    root = tmp_path_factory.mktemp("ui-home")
    root.chmod(0o700)
    yield root
    left = end_processes_of(root)
    assert not left, f"processes outlived the tests: {left}"


@pytest.fixture(scope="package")
def lab_server(ui_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    server = Lab(tmp_path_factory.mktemp("lab"), ui_home)
    yield server
    server.stop()


@pytest.fixture(scope="package")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel."""
    need_built()
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    build = ("-m", "pip", "wheel", *options, str(ROOT))
    subprocess.run([sys.executable, *build], check=True, cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


def with_wheel(wheel: Path, extras: str) -> Path:
    """Return the Python of an environment with the wheel; pip asks only for what the wheel asks."""
    pinned = (f"jupyterlab=={PROMISED}", f"notebook=={NOTEBOOK}")
    try:
        return other_python.with_wheel(wheel, extras, *pinned)
    except other_python.Unavailable as reason:
        policy.skip_or_fail("wheel", str(reason))


@pytest.fixture(scope="package")
def wheel_python(wheel: Path) -> Path:
    """Give the Python of somebody who has no cluster."""
    return with_wheel(wheel, "jax,notebook")


@pytest.fixture(scope="package")
def wheel_python_for_clusters(wheel: Path) -> Path:
    """Give the Python of somebody who has one."""
    return with_wheel(wheel, "jax,notebook,kubernetes")


@pytest.fixture(scope="package")
def installed(
    wheel_python: Path, ui_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    """Give JupyterLab as a stranger has it, who has installed the wheel."""
    server = Installed(tmp_path_factory.mktemp("installed"), ui_home, wheel_python)
    yield server
    server.stop()


@pytest.fixture
def settings(lab_server: Lab) -> Iterator[Callable[[str, Any], None]]:
    """Give what writes a user's settings; they are forgotten in the end, as are those of pages."""
    yield lab_server.set
    lab_server.forget_settings()


@pytest.fixture
def jobs_home(ui_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the store of jobs, empty; jobs that still run at the end are cancelled."""
    from jupyter_jax_trainer import api
    from jupyter_jax_trainer.states import ENDED

    monkeypatch.setenv("JAXTRAIN_HOME", str(ui_home))
    monkeypatch.setenv("JAXTRAIN_CORES", "64")
    yield ui_home
    for job in api.jobs():
        if job.state not in ENDED:
            job.cancel()
    shutil.rmtree(ui_home / "jobs", ignore_errors=True)


@pytest.fixture
def open_page(
    profile: Any, lab_server: Lab, jobs_home: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Any]]:
    """Give what opens a page in a browser without memory; its errors are looked at in the end."""
    from ui.pages import LabPage

    pages: list[LabPage] = []
    request.node.stash[_pages] = pages
    contexts: list[Any] = []

    def make(
        server: Lab = lab_server,
        path: str = "lab?reset",
        beside: Any = None,
        port: int | None = None,
        own: bool = False,
        **options: Any,
    ) -> LabPage:
        """Open one: beside another, in a browser of its `own`, or in what is as good."""
        own = own or bool(pages) or not options.keys() <= {"viewport"}
        if beside:
            context = beside.page.context
        elif own:
            browser = request.getfixturevalue("browser")
            context = browser.new_context(**{"viewport": SIZE, **options})
            contexts.append(context)
        else:
            context = profile
        page = LabPage(context, server, port)
        pages.append(page)
        if context is profile:
            page.page.set_viewport_size(options.get("viewport", SIZE))
        page.open(path)
        return page

    yield make
    try:
        if failed(request):
            for number, page in enumerate(pages):
                if not page.page.is_closed():
                    picture(page, request, number)
        else:
            for page in pages:
                page.check()
    finally:
        for context in contexts:
            context.close()
        forget(profile, {page.origin for page in pages})


@pytest.fixture
def lab(open_page: Callable[..., Any]) -> Any:
    """Give a page with JupyterLab."""
    return open_page()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Any]:
    """Give the cells of a job that begins and ends when the test says so."""
    from ui.cells import Job

    job = Job(tmp_path, "count")
    yield job
    job.open_gate()
    job.end()


@pytest.fixture
def silent(lab_server: Lab) -> Iterator[Any]:
    """Give a cluster of the server's kubeconfig that says nothing."""
    from server.silent import Silent

    cluster = Silent()
    cluster.kubeconfig(lab_server.kubeconfig, "team", "far-away")
    yield cluster
    cluster.close()
    lab_server.kubeconfig.unlink()
