"""docs/guide.md is true: its cells run in a real kernel, from top to bottom."""

import re
from pathlib import Path

import kernels
import pytest
from conftest import end_processes_of

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide.md"
CELLS = re.findall(r"(<!-- fails -->\n)?```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


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
        ["", "I am process 0 of 2", "I am process 1 of 2", "", "Nothing was started",
         "brought back losses list of 100", "3.", "Job long was started", "long", "is cancelled",
         "KeyError: 'labels'", "42"],
        strict=True,
    ):  # fmt: skip
        assert expected in text
    assert (home / "jobs" / "fit" / "checkpoints" / "w-1.npy").exists()
