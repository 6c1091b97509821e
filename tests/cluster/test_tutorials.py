"""The tutorials of docs/: on this machine and on the cluster, with one option changed, they lose alike."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from jupyter_jax_trainer import api

pytestmark = [
    pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # of the kernel's client, not of this package
]  # fmt: skip
TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"


@pytest.fixture
def notebooks(tmp_path, monkeypatch) -> Path:
    """Give a folder with the tutorials, and kernels an IPython of their own."""
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    return Path(shutil.copytree(TUTORIALS, tmp_path / "tutorials"))


def losses(path: Path, name: str, more: str = "") -> list[float]:
    """Run a notebook with `more` on the line of its job; it checks its own outcome, too."""
    notebook = nbformat.read(path, as_version=4)
    (cell,) = [cell for cell in notebook.cells if cell.source.startswith("%%jaxtrain")]
    first, _, rest = cell.source.partition("\n")
    magic, _, *options = first.split()  # the name, too, is another
    cell.source = f"{magic} {name} {' '.join(options)} {more}\n{rest}"
    NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    ).execute()  # raises with the cell and its traceback
    return api.job(name).result("losses")


@pytest.mark.parametrize(("stem", "volume"), [("images", False), ("language_model", True)])
def test_a_tutorial_runs_in_both_places_with_equal_losses(stem, volume, place, shared, notebooks):
    path = notebooks / f"{stem}.ipynb"
    here = losses(path, f"{path.stem.replace('_', '-')}-here")
    more = f"{place} --volume {shared.claim}:{shared.path}" if volume else place
    there = losses(path, f"{path.stem.replace('_', '-')}-there", more)
    np.testing.assert_allclose(here, there, rtol=1e-4)
