"""Notebooks as other people write them, each in a real kernel: no cell may fail.

They check their own outcome in their last cells. The tutorials of docs/ run in the same way; the
quick start is run by `make quickstart`.
"""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
OTHERS = sorted((ROOT / "tests" / "notebooks").glob("*.ipynb"))
TUTORIALS = sorted((ROOT / "docs").glob("guides/**/*.ipynb"))
QUICKSTART = ROOT / "docs" / "start" / "quickstart.ipynb"
CELL_S = 240
# Of each library one runs with every change; these are long, and use the same again.
LONG = (
    "char_rnn",
    "equinox_cnn_digits",
    "equinox_mlp",
    "flax_linen_digits",
    "optax_schedule_clipping",
)


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def jobs_of(notebook: nbformat.NotebookNode) -> int:
    return sum(cell.source.startswith("%%jaxtrain") for cell in notebook.cells)


@pytest.mark.parametrize("path", [*OTHERS, *TUTORIALS, QUICKSTART], ids=lambda path: path.stem)
def test_a_notebook_is_valid_and_holds_no_output(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert all(cell.get("id") for cell in notebook.cells)
    assert jobs_of(notebook) > 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None, cell.id


def test_there_are_ten_notebooks_of_other_peoples_making():
    assert len(OTHERS) >= 10


@pytest.mark.slow
@pytest.mark.timeout(600)
# The tutorials: tests/cluster/test_tutorials.py, which runs them here, too, before a release.
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.release] if path.stem in LONG else [])
        for path in OTHERS
    ],
)
@pytest.mark.filterwarnings("ignore")  # of the kernel's client, not of this package
def test_a_notebook_runs_as_it_stands(path, home, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = read(path)
    NotebookClient(
        notebook, timeout=CELL_S, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()  # raises with the cell and its traceback

    states = [json.loads(state.read_text()) for state in home.glob("jobs/*/state.json")]
    assert len(states) == jobs_of(notebook)
    assert {state["state"] for state in states} == {"Succeeded"}
