"""The tutorials of docs/: on this machine and on the cluster, with one option changed, they lose alike."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from jupyter_jax_trainer import api
from jupyter_jax_trainer.commands import Context, run_command

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.release,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # of the kernel's client, not of this package
]
GUIDES = Path(__file__).parents[2] / "docs" / "guides"
TUTORIALS = ("images", "language-model")


@pytest.fixture
def notebooks(tmp_path, monkeypatch) -> Path:
    """Give a folder with the tutorials, and kernels an IPython of their own."""
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    for path in GUIDES.glob("*/*.ipynb"):
        shutil.copy(path, tmp_path)
    return tmp_path


def outcome(path: Path, name: str, more: str = "") -> tuple[list[float], str]:
    """Run a notebook with `more` on the line of its job; it checks its own outcome, too.

    Give its losses, and what it prints at the end.
    """
    notebook = nbformat.read(path, as_version=4)
    (cell,) = [cell for cell in notebook.cells if cell.source.startswith("%%jaxtrain")]
    first, _, rest = cell.source.partition("\n")
    magic, _, *options = first.split()  # the name, too, is another
    cell.source = f"{magic} {name} {' '.join(options)} {more}\n{rest}"
    printed = executed(notebook, path)
    return api.job(name).result("losses"), printed


def executed(notebook: nbformat.NotebookNode, path: Path) -> str:
    """Run a notebook, and give what its last cell prints."""
    NotebookClient(
        notebook,
        timeout=240,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()  # raises with the cell and its traceback
    *_, last = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return "".join(output.get("text", "") for output in last.outputs)


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_runs_in_both_places_with_equal_losses(
    name, place, namespace, shared, notebooks
):
    """The runtime brings the volume for checkpoints, as the platform guide has it."""
    path = notebooks / f"{name}.ipynb"
    install = (
        f"runtimes install --namespace {namespace.name} --device cpu --volume {shared.claim}:/data"
    )
    run_command(install.split(), Context(print=lambda text: None))
    here, _ = outcome(path, f"{name}-here")
    there, printed = outcome(path, f"{name}-there", place)
    np.testing.assert_allclose(here, there, rtol=1e-4)  # sums have another order there
    if name == "language-model":  # it has learned which letters there are, and no more
        letters = sum(letter.isalpha() or letter.isspace() for letter in printed)
        assert len(printed) >= 120 and letters > len(printed) / 2, printed
    kept = [
        str(found.relative_to(shared.path))
        for found in shared.path.glob("jaxtrain/*/*/checkpoints/*")
    ]
    assert kept == (
        [f"jaxtrain/{namespace.name}/{name}-there/checkpoints/state.npz"]
        if name == "language-model"
        else []
    )


def test_a_notebook_on_four_hosts_runs_in_both_places_with_equal_numbers(place, notebooks):
    path = notebooks / "four-hosts.ipynb"
    found = []
    for more in ("", f"{place} --cpu 50m"):
        notebook = nbformat.read(path, as_version=4)
        (cell,) = [
            cell
            for cell in notebook.cells
            if "--all-cells" in cell.source and cell.cell_type == "code"
        ]
        cell.source += f" {more}"
        notebook.cells.append(nbformat.v4.new_code_cell("print(*losses, *w)"))
        found.append([float(number) for number in executed(notebook, path).split()])
    here, there = found
    assert len(here) == 106
    np.testing.assert_allclose(here, there, rtol=1e-4)  # sums have another order there
