"""Which wheels a job takes along, and what is left to pip in the pods."""

from __future__ import annotations

import io
import os
import sys
import zipfile

import pytest
from webserver import Quiet, WebServer

from jupyter_jax_trainer.backends.kubernetes.submit import wheels
from jupyter_jax_trainer.capture.room import Room
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import submit as say

MINE = "mine-1.0-py3-none-any.whl"
HASHED = 'HASHES = {"hashes": {"sha256": "0" * 64}}'
OLD_HASHED = 'HASHES = {"hash": "sha256=" + "0" * 64}'  # as pip before 23.1 says it
# A pip with one package for each case: what was asked for, what it needs, and what an image has.
PIP = """
import json, pathlib, sys
from sys import argv
if argv[1] == "install":
    names = ["wanted", "helper", "jax", "jaxlib", "numpy", "nvidia-cublas"]
    install = [{"metadata": {"name": n, "version": "1.0"}, "requested": n == "wanted",
                "download_info": {"url": "x", "archive_info": HASHES}} for n in names]
    pathlib.Path(argv[argv.index("--report") + 1]).write_text(json.dumps({"install": install}))
else:
    assert "--require-hashes" in argv
    for line in pathlib.Path(argv[argv.index("--requirement") + 1]).read_text().splitlines():
        name, digest = line.split(" --hash=sha256:")
        assert digest == "0" * 64
        file = name.replace("==", "-") + "-py3-none-any.whl"
        pathlib.Path(argv[argv.index("--dest") + 1], file).write_bytes(bytes(100))
"""


@pytest.fixture
def pip(monkeypatch):
    def use(program, hashes=HASHED):
        monkeypatch.setattr(wheels, "_PIP", [sys.executable, "-c", f"{hashes}\n{program}"])

    return use


@pytest.mark.parametrize("hashes", [HASHED, OLD_HASHED])
def test_what_an_image_has_anyway_stays_here(pip, hashes):
    pip(PIP, hashes)
    found = wheels.gather(["wanted"], "3.11", Room(1000))
    assert set(found.files) == {f"{n}-1.0-py3-none-any.whl" for n in ("wanted", "helper")}
    assert found.pip == [] and found.note is None
    assert wheels.gather([], "3.11", Room(1000)) == wheels.Wheels()


def test_what_is_too_large_or_not_to_be_had_is_left_to_the_pods_where_that_is_asked_for(
    pip, tmp_path
):
    (tmp_path / MINE).write_bytes(bytes(50))
    mine = str(tmp_path / MINE)
    pip(PIP)
    found = wheels.gather(["wanted", mine], "3.11", Room(120), from_pods=True)
    assert list(found.files) == [MINE] and found.pip == ["wanted"]
    assert say.WHEELS_TOO_LARGE(size="250 B", most="120 B") in found.note
    pip("import sys; sys.exit('ERROR: No matching distribution found for wanted')")
    found = wheels.gather(["wanted", mine], "3.11", Room(None), from_pods=True)
    assert list(found.files) == [MINE] and found.pip == ["wanted"]
    assert found.note == say.PIP_IN_PODS(
        packages="wanted", problem="No matching distribution found for wanted"
    )
    found = wheels.gather([mine], "3.11", Room(None))
    assert list(found.files) == [MINE] and found.pip == []
    assert found.note.id == "submit.dependencies-not-bundled"


@pytest.mark.slow
def test_an_index_may_be_a_folder(tmp_path, monkeypatch):
    """With the real pip."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    for name in ("acme_lib", "helper"):
        info = f"{name}-1.0.dist-info"
        needs = "Requires-Dist: helper\n" if name == "acme_lib" else ""
        with zipfile.ZipFile(tmp_path / f"{name}-1.0-py3-none-any.whl", "w") as file:
            file.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}"
            )
            file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            file.writestr(f"{info}/RECORD", "")
    both = ["acme_lib-1.0-py3-none-any.whl", "helper-1.0-py3-none-any.whl"]
    for wanted in ("acme-lib", str(tmp_path / both[0])):
        assert sorted(wheels.gather([wanted], "3.11", Room(None)).files) == both


def test_a_wheel_that_is_not_there_or_too_large_is_refused(pip, tmp_path):
    pip(PIP)
    with pytest.raises(UsageError, match=r"nothere\.whl .*: No such file") as refused:
        wheels.gather([str(tmp_path / "nothere.whl")], "3.11", Room(None))
    assert refused.value.id == "submit.unreadable-wheel"
    (tmp_path / MINE).write_bytes(bytes(500))
    with pytest.raises(UsageError) as refused:
        wheels.gather([str(tmp_path / MINE)], "3.11", Room(300))
    assert refused.value.id == "submit.wheel-not-bundled"
    assert say.WHEELS_TOO_LARGE(size="700 B", most="300 B") in refused.value.message


@pytest.mark.parametrize(
    ("program", "hashes", "limit"),
    [
        ("import sys; sys.exit('ERROR: No matching distribution found for wanted')", HASHED, None),
        (PIP, HASHED, 100),
        (PIP, "HASHES = {}", None),
    ],
)
def test_no_other_index_is_used_unasked(pip, program, hashes, limit):
    pip(program, hashes)
    with pytest.raises(UsageError, match="wanted") as refused:
        wheels.gather(["wanted"], "3.11", Room(limit))
    assert "--package-from-pods" in str(refused.value.hint)
    assert wheels.gather(["wanted"], "3.11", Room(limit), from_pods=True).pip == ["wanted"]


@pytest.mark.slow
def test_another_file_than_the_one_of_the_report_is_refused(tmp_path, monkeypatch):
    """With the real pip, and an index that gives another file the second time."""
    made = 0

    def wheel(content: str) -> bytes:
        data = io.BytesIO()
        info = "acme_lib-1.0.dist-info"
        members = {
            "acme_lib.py": content,
            f"{info}/METADATA": "Metadata-Version: 2.1\nName: acme-lib\nVersion: 1.0\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": "",
        }
        with zipfile.ZipFile(data, "w") as file:
            for name, text in members.items():
                file.writestr(zipfile.ZipInfo(name), text)  # at no time: the same bytes each time
        return data.getvalue()

    class Index(Quiet):
        def do_GET(self) -> None:
            nonlocal made
            if self.path.endswith(".whl"):
                made += 1
                self.give(200, {"Content-Type": "application/zip"}, wheel(f"x = {swap and made}"))
            else:
                page = b'<a href="/acme_lib-1.0-py3-none-any.whl">acme_lib-1.0-py3-none-any.whl</a>'
                self.give(200, {"Content-Type": "text/html"}, page)

    server = WebServer(Index)
    try:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        swap = False
        assert list(wheels.gather(["acme-lib"], "3.11", Room(None)).files) == [
            "acme_lib-1.0-py3-none-any.whl"
        ]
        swap = True
        with pytest.raises(UsageError) as refused:
            wheels.gather(["acme-lib"], "3.11", Room(None))
        assert refused.value.id == "submit.not-bundled"
    finally:
        server.close()
