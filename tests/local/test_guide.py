"""docs/guide.md and docs/checkpoints.md are true: their cells run in a real kernel, in order."""

import re
from pathlib import Path

import kernels
import pytest
from conftest import end_processes_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
CELL = re.compile(r"(<!-- fails -->\n)?```python\n(.*?)```", re.DOTALL)
CELLS = CELL.findall((DOCS / "guide.md").read_text())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the kernel's client, not of this package
def test_the_guide(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    texts = []
    with kernels.running(home, tmp_path) as kernel:
        for fails, code in CELLS:
            texts.append(kernel.run(code, fails=bool(fails)).text)
        assert kernel.run("%jaxtrain result fit").text.split()[0] == "RESULT"
        assert "long: Cancelled" in kernel.run("%jaxtrain attach long", fails=True).text
    assert end_processes_of(home) == {}
    for text, expected in zip(
        texts,
        [
            "",
            "I am process 0 of 2",
            "I am process 1 of 2",
            "",
            "Nothing was started",
            "brought back losses list of 100",
            "3.",
            "Job long was started",
            "long",
            "is cancelled",
            "KeyError: 'labels'",
            "42",
        ],
        strict=True,
    ):
        assert expected in text
    assert (home / "jobs" / "fit" / "checkpoints" / "w-1.npy").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_page_about_long_jobs(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    cells = CELL.findall((DOCS / "checkpoints.md").read_text())
    with kernels.running(home, tmp_path) as kernel:
        texts = [kernel.run(code).text for _, code in cells]
    assert end_processes_of(home) == {}
    for text, expected in zip(
        texts,
        [
            "",
            "restart 1 of 3 went on at step 16; the attempt before had reached",
            "began at 15 and ended with [820. 820. 820.]",
            "restart 1 of 3 goes on at step 16; the attempt before had reached",
            "Succeeded",
            "went on at 40 and ended with [1275. 1275. 1275.]",
        ],
        strict=True,
    ):
        assert expected in text
