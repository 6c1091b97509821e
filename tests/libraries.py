"""The notebooks of tests/notebooks/libraries: a library in each, the same here and in pods."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from policy import skip_or_fail

from jupyter_jax_trainer import api
from jupyter_jax_trainer.jobdir.job import Job

FOLDER = Path(__file__).parent / "notebooks" / "libraries"
# By notebook: the distributions that it needs beside JAX and optax, and what its job displays.
NEEDS = {
    "equinox": {"equinox", "jaxtyping"},
    "flax_linen": {"flax"},
    "flax_nnx": {"flax"},
    "grain": {"grain", "array-record"},
    "ipython_display": set[str](),
    "matplotlib": {"matplotlib", "pillow"},
    "optax": set[str](),
    "pandas": {"pandas", "python-dateutil"},
    "rich": {"rich", "pygments"},
    "tqdm": {"tqdm"},
}
DISPLAYS = {"ipython_display": "text/markdown", "matplotlib": "image/png", "pandas": "text/html"}
CELL_S = 240


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, options: str = "") -> list[Job]:
    """Run a notebook in a kernel, with more options for its jobs; no cell may fail.

    It checks its own outcome. Its folder is `folder`.
    """
    for module in {"grain", "pandas", "rich", "tqdm"} & NEEDS[name]:
        if find_spec(module) is None:
            skip_or_fail("libraries", f"{module} is not installed: `make test-release` does it")
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.source.startswith("%%jaxtrain ")]
    for cell in cells:
        line, end, rest = cell.source.partition("\n")
        cell.source = f"{line} {options}{end}{rest}" if options else cell.source
    client = NotebookClient(
        notebook,
        timeout=CELL_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()  # raises with the cell and its traceback
    shown = [
        kind for cell in cells for output in cell.outputs[1:] for kind in output.get("data", ())
    ]
    assert name not in DISPLAYS or DISPLAYS[name] in shown, shown  # the first is the card
    jobs = [api.job(cell.source.split()[1]) for cell in cells]
    assert jobs and {job.state for job in jobs} == {"Succeeded"}
    return jobs
