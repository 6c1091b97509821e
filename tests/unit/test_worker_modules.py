"""The user's own modules on the worker's side."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from jupyter_jax_trainer.worker.modules import unpack
from jupyter_jax_trainer.worker.serialization.archive import Archive, write_archive


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "bundle.pyz"
    write_archive(
        path,
        {"modules/mine/__init__.py": b"x = 1", "modules/mine/d/t.txt": b"hi", "cell.py": b""},
        [],
        {},
    )
    return Archive(path)


def test_unpacked_once_into_the_directory_of_the_job(archive, tmp_path):
    job = tmp_path / "job"
    job.mkdir()
    places = []
    threads = [
        threading.Thread(target=lambda: places.append(unpack(archive, job))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert places == [str(job / "modules")] * 8
    assert [p.name for p in job.iterdir()] == ["modules"]
    assert (job / "modules/mine/d/t.txt").read_bytes() == b"hi"
    assert not (job / "modules/cell.py").exists()
    done = subprocess.run(
        [sys.executable, "-c", "import mine; print(mine.x)"],
        cwd=job / "modules",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1\n"


def test_without_a_directory(archive, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = unpack(archive, None)
    assert place is not None and Path(place).is_relative_to(tmp_path)
    assert (Path(place) / "mine/__init__.py").read_bytes() == b"x = 1"
    assert unpack(archive, tmp_path / "missing") != place


def test_nothing_to_unpack(tmp_path):
    write_archive(tmp_path / "b.pyz", {"cell.py": b""}, [], {})
    assert unpack(Archive(tmp_path / "b.pyz"), tmp_path) is None
    assert [p.name for p in tmp_path.iterdir()] == ["b.pyz"]
