"""Which wheels a job takes along, and what is left to pip in the pods."""

from __future__ import annotations

import sys

import pytest

from jupyter_jax_trainer.backends.kubernetes import wheels
from jupyter_jax_trainer.errors import UsageError

MINE = "mine-1.0-py3-none-any.whl"
# A pip with one package for each case: what was asked for, what it needs, and what an image has.
PIP = """
import json, pathlib, sys
from sys import argv
if argv[1] == "install":
    names = ["wanted", "helper", "jax", "jaxlib", "numpy", "nvidia-cublas"]
    install = [{"metadata": {"name": n, "version": "1.0"}, "requested": n == "wanted",
                "download_info": {"url": "x"}} for n in names]
    pathlib.Path(argv[argv.index("--report") + 1]).write_text(json.dumps({"install": install}))
else:
    for name in (word for word in argv if "==" in word):
        file = name.replace("==", "-") + "-py3-none-any.whl"
        pathlib.Path(argv[argv.index("--dest") + 1], file).write_bytes(bytes(100))
"""


@pytest.fixture
def pip(monkeypatch):
    def use(program):
        monkeypatch.setattr(wheels, "_PIP", [sys.executable, "-c", program])

    return use


def test_what_an_image_has_anyway_stays_here(pip):
    pip(PIP)
    found = wheels.gather(["wanted"], "3.11", 1000)
    assert set(found.files) == {f"{n}-1.0-py3-none-any.whl" for n in ("wanted", "helper")}
    assert found.pip == [] and found.note is None
    assert wheels.gather([], "3.11", 1000) == wheels.Wheels()


def test_what_is_too_large_or_not_to_be_had_is_left_to_the_pods(pip, tmp_path):
    (tmp_path / MINE).write_bytes(bytes(50))
    mine = str(tmp_path / MINE)
    pip(PIP)
    found = wheels.gather(["wanted", mine], "3.11", 120)
    assert list(found.files) == [MINE] and found.pip == ["wanted"]
    assert "250 B, and 120 B can be sent" in found.note
    pip("import sys; sys.exit('ERROR: No matching distribution found for wanted')")
    found = wheels.gather(["wanted", mine], "3.11", None)
    assert list(found.files) == [MINE] and found.pip == ["wanted"]
    assert "pip installs wanted in the pods" in found.note
    assert found.note.endswith("No matching distribution found for wanted")
    found = wheels.gather([mine], "3.11", None)
    assert list(found.files) == [MINE] and found.pip == [] and "not sent along" in found.note


def test_a_wheel_that_is_not_there_or_too_large_is_refused(pip, tmp_path):
    pip(PIP)
    with pytest.raises(UsageError, match=r"nothere\.whl can't be read: No such file"):
        wheels.gather([str(tmp_path / "nothere.whl")], "3.11", None)
    (tmp_path / MINE).write_bytes(bytes(500))
    with pytest.raises(UsageError, match="700 B, and 300 B can be sent"):
        wheels.gather([str(tmp_path / MINE)], "3.11", 300)
