"""The pages for users are true: their cells run in a real kernel, in order."""

import docblocks
import kernels
import pytest
from conftest import end_processes_of

from jupyter_jax_trainer.messages import commands as say_of_commands
from jupyter_jax_trainer.messages import jobs as say_of_jobs
from jupyter_jax_trainer.messages import local as say

GUIDE = "docs/guides/data-scientist/notebook.md"
# What each cell of a page shows.
SHOWN = {
    "README.md": ["", "total"],
    "docs/start/index.md": [
        "",
        "I am process 0 of 2",
        "",
        "brought back",
        "w = [3. 1.]",
        "fit",
    ],
    GUIDE: [
        "",
        "I am process 0 of 2",
        "I am process 1 of 2",
        "",
        say.DRY_RUN.text.partition(".")[0],
        "brought back losses list of 100",
        "3.",
        "Job long was started",
        "long",
        "was cancelled",
        "KeyError: 'labels'",
        "42",
    ],
    "docs/guides/data-scientist/sessions.md": [
        "",
        "",
        "brought back w float32[3]",
        "0.8",
        "rank 0: I am rank 0\nrank 1: I am rank 1\nranks 0–1: 3\n",
        "only here",
        say_of_commands.ALL_CELLS_ON(session="lab"),
        "0.64",
        "",
        "13",
        say_of_commands.ALL_CELLS_OFF(),
        "float32[3]",
        "lab was cancelled",
    ],
    "docs/guides/data-scientist/jupyterlab.md": ["Panel"],
    "docs/guides/research-scientist/checkpoints.md": [
        "",
        say_of_jobs.RESTART_CONTINUED(number=1, most=3, step=16),
        "began at 15 and ended with [820. 820. 820.]",
        say_of_jobs.RESTART_CONTINUES(number=1, most=3, step=16),
        "Succeeded",
        "went on at 40 and ended with [1275. 1275. 1275.]",
    ],
    "docs/guides/research-scientist/experiments.md": [
        "",
        "Succeeded",
        "Succeeded",
        "LR",
        "([('sweep', 0.67), ('sweep-2', 0.29)], 5)",
    ],
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the kernel's client, not of this package
@pytest.mark.parametrize("page", SHOWN)
def test_a_page_is_true(page, tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    cells = list(docblocks.code(page))
    assert len(cells) == len(SHOWN[page])
    with kernels.running(home, tmp_path) as kernel:
        # What ranks print alike is shown once, however late one of them is on a busy machine.
        kernel.run("from jupyter_jax_trainer.views import grouped\ngrouped._TOGETHER = 60")
        kernel.history = True
        for cell, shown in zip(cells, SHOWN[page], strict=True):
            text = kernel.run(cell.text, fails=cell.mark == "fails").text
            assert shown in text, f"{page}:{cell.line}\n{text}"
        if page == GUIDE:
            assert kernel.run("%jaxtrain result fit").text.split()[0] == "RESULT"
            assert "long: Cancelled" in kernel.run("%jaxtrain attach long", fails=True).text
            assert (home / "jobs" / "fit" / "checkpoints" / "w-1.npy").exists()
    assert end_processes_of(home) == {}
