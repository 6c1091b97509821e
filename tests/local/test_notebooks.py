"""Notebooks as other people write them, each in a real kernel: no cell may fail.

They check their own outcome in their last cells. The tutorials of docs/ run in the same way; the
quick start is run by `make quickstart`.
"""

import ast
import json
from pathlib import Path

import kernels
import libraries
import nbformat
import pytest
from nbclient import NotebookClient

from jupyter_jax_trainer.capture.names import undefined_names
from jupyter_jax_trainer.messages import commands as say

ROOT = Path(__file__).resolve().parents[2]
OTHERS = sorted((ROOT / "tests" / "notebooks").glob("*.ipynb"))
FOUR_HOSTS = ROOT / "docs" / "guides" / "data-scientist" / "four-hosts.ipynb"
# What each of its cells shows.
SHOWN = [
    "",
    say.ALL_CELLS_ON(session="hosts"),
    "'4 hosts with 4 devices in all'",
    "rank 0: host 0\nrank 1: host 1\nrank 2: host 2\nrank 3: host 3\nranks 0–3: 1\n",
    "((256,), P('data',))",
    "",
    "0.032",
    "0.013",
    "<Figure",
    "100 steps, loss 0.01\n",
    "summary        str                                                    8      0\n",
    "brought back losses list of 100",
    "0.01",
    "",
    "sent angle float",
    say.ALL_CELLS_OFF(),
    "100",
]
LIBRARIES = sorted(libraries.FOLDER.glob("*.ipynb"))
MULTIHOST = sorted((ROOT / "tests" / "notebooks" / "multihost").glob("*.ipynb"))
TUTORIALS = sorted((ROOT / "docs").glob("guides/**/*.ipynb"))
QUICKSTART = ROOT / "docs" / "start" / "quickstart.ipynb"
CELL_S = 240
KERNELS = ("%load_ext", "%jaxtrain", "%%here")  # how cells begin that run in the kernel
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


@pytest.mark.parametrize(
    "path",
    [*OTHERS, *LIBRARIES, *MULTIHOST, *TUTORIALS, QUICKSTART],
    ids=lambda path: path.stem,
)
def test_a_notebook_is_valid_and_holds_no_output(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert all(cell.get("id") for cell in notebook.cells)
    assert jobs_of(notebook) > 0 or any("--all-cells" in cell.source for cell in notebook.cells)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None, cell.id


def test_there_are_ten_notebooks_of_other_peoples_making():
    assert len(OTHERS) >= 10 and len(MULTIHOST) >= 10


def test_the_notebooks_of_libraries_are_those_that_are_known():
    assert [path.stem for path in LIBRARIES] == sorted(libraries.NEEDS)


@pytest.mark.parametrize("path", MULTIHOST, ids=lambda path: path.stem)
def test_a_notebook_for_several_hosts_needs_no_variables_of_others(path):
    cells = [cell.source for cell in read(path).cells if cell.cell_type == "code"]
    code = "".join(
        "\n".join(line for line in cell.splitlines() if line[:1] not in "%!") + "\n"
        for cell in cells
    )
    assert undefined_names(ast.parse(code), ()) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("paths", "tutorial"),
    [
        pytest.param(MULTIHOST[:2], False, id="two"),
        pytest.param(MULTIHOST[2:], True, id="others", marks=pytest.mark.release),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_notebooks_for_several_hosts_run_in_a_session(home, tmp_path, paths, tutorial):
    """In one kernel, as each start takes a while; the tutorial last."""
    count = 0
    with kernels.running(home, tmp_path) as kernel:
        kernel.history = True
        for path in paths:
            cells = [cell.source for cell in read(path).cells if cell.cell_type == "code"]
            count += sum(not cell.startswith(KERNELS) for cell in cells)
            for source in cells:
                kernel.run(source, timeout=CELL_S)
        kernel.run("%jaxtrain use --reset\n%jaxtrain cancel hosts")
        if tutorial:
            lines = [cell.source for cell in read(FOUR_HOSTS).cells if cell.cell_type == "code"]
            for source, shown in zip(lines, SHOWN, strict=True):
                text = kernel.run(source, timeout=CELL_S).text
                assert shown in text, f"{source}\n{text}"
            count += sum(not cell.startswith(KERNELS) for cell in lines[:-1])
    cells = [json.loads(state.read_text()) for state in home.glob("jobs/hosts-*cell-*/state.json")]
    assert len(cells) == count and {cell["state"] for cell in cells} == {"Succeeded"}


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


@pytest.mark.release
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", libraries.NEEDS)
@pytest.mark.filterwarnings("ignore")
def test_a_notebook_of_a_library_runs_here(name, home, tmp_path, monkeypatch):
    libraries.run(name, tmp_path, monkeypatch)
