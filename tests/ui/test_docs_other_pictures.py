"""The pictures in docs/images of jobs in other pages than JupyterLab's: Notebook 7, marimo."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import eventually, submit
from playwright.sync_api import Locator, expect

from jupyter_jax_trainer import api
from ui.pages import LOAD, write_notebook
from ui.shots import DATA, THEMES, code, data, in_all, pictures, save_page
from ui.test_elsewhere import Show, in_marimo, page
from ui.test_notebook7 import notebook7

__all__ = ["in_marimo", "notebook7", "page", "pictures"]  # fixtures

SIZES = {"wide": {"width": 1100, "height": 860}, "narrow": {"width": 600, "height": 860}}
APPS = {"wide": {"width": 1000, "height": 420}, "narrow": {"width": 480, "height": 480}}

pytestmark = [pytest.mark.release, pytest.mark.timeout(240)]


def test_pictures_in_notebook_7(open_page, notebook7, pictures):
    cell = "%%jaxtrain mnist-7 -n 2\n" + code(8000, 0.05, 5).rstrip()
    write_notebook(notebook7.root / "digits.ipynb", LOAD, DATA, cell)
    seven = open_page(server=notebook7, path="notebooks/digits.ipynb")
    seven.kernel_is("idle")
    for number in (0, 1, 2):
        seven.run(number)
    card = seven.cell(2).locator(".jaxtrain-job-summary")
    expect(card).to_contain_text("loss", timeout=60_000)
    eventually(lambda: len(list(api.job("mnist-7").metrics())) > 60)
    seven.command("jaxtrain:open-job", key="mnist-7")
    view = seven.job("mnist-7")
    expect(view.get_by_role("group", name="Last lines")).to_contain_text("accuracy")

    def fit(kind: str) -> None:
        seven.page.set_viewport_size(SIZES[kind])
        card.scroll_into_view_if_needed()
        expect(view).to_be_in_viewport()

    in_all(seven, fit, lambda how: save_page(seven.page, f"notebook7-{how}", pictures))
    api.job("mnist-7").cancel()


def is_dark(card: Locator) -> bool:
    """Return whether the words of a card are bright."""
    bright: bool = card.evaluate("it => Number(getComputedStyle(it).color.match(/\\d+/)[0]) > 128")
    return bright


def test_pictures_in_marimo(
    in_marimo: Show, pictures: Path, jobs_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.marimo.display]\ntheme = "system"\n')
    submit(code(8000, 0.05, 5), data(), "mnist-2 -n 2")
    eventually(lambda: len(list(api.job("mnist-2").metrics())) > 60)
    app = in_marimo("job('mnist-2').widget()")
    card = app.locator(".jaxtrain-job-summary")
    expect(card.locator(".jaxtrain-spark")).to_be_visible(timeout=60_000)
    for theme in THEMES:
        app.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        eventually(lambda theme=theme: is_dark(card) == (theme == "dark"))
        for kind, size in APPS.items():
            app.set_viewport_size(size)
            expect(card.get_by_role("button", name="Cancel")).to_be_visible()
            save_page(app, f"marimo-{theme}-{kind}", pictures)
    api.job("mnist-2").cancel()
