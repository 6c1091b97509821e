"""The archive: what is written is what is read, in place, and nothing damaged is believed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_jax_trainer.errors import JobDirError, ResultError
from jupyter_jax_trainer.jobdir.resultfile import ResultFile
from jupyter_jax_trainer.worker.serialization import archive as archives
from jupyter_jax_trainer.worker.serialization.archive import Archive, write_archive


def write(path, members=None, buffers=(), **manifest):
    views = [memoryview(buffer) for buffer in buffers]
    return write_archive(path, members or {}, views, manifest)


@settings(max_examples=30)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8})?\.txt", fullmatch=True),
        st.binary(max_size=200),
        max_size=4,
    ),
    st.lists(st.binary(max_size=3000), max_size=5),
)
def test_what_is_written_is_read(tmp_path_factory, members, buffers):
    path = tmp_path_factory.mktemp("archive") / "a.pyz"
    digest = write(path, members, buffers, word="kept")
    archive = Archive(path, digest)
    assert archive.manifest["word"] == "kept"
    assert {name: archive.read(name) for name in members} == members
    assert [bytes(view) for view in archive.buffers()] == buffers
    checked = ResultFile(path)
    assert [bytes(checked.buffer(number)) for number in range(len(buffers))] == buffers


def test_buffers_are_mapped_in_place_aligned_writable_and_private(tmp_path):
    path = tmp_path / "a.pyz"
    write(path, {}, [b"x" * 100, np.arange(1000.0)])
    first, second = (Archive(path).buffers() for _ in range(2))
    array = np.frombuffer(first[1])
    assert array.ctypes.data % 64 == 0
    array[0] = -1
    assert np.frombuffer(second[1])[0] == 0


def test_pieces_of_a_large_buffer_are_hashed_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "_PIECE", 1000)
    path = tmp_path / "a.pyz"
    write(path, {}, [os.urandom(2500)])
    file = ResultFile(path)
    assert len(file.manifest["buffers"][0]["sha256"]) == 3
    assert len(file.buffer(0)) == 2500


def test_it_is_a_zip_file_and_a_zip_application(tmp_path):
    path = tmp_path / "a.pyz"
    write(
        path,
        {"__main__.py": b"import help_me; print(help_me.word)", "help_me.py": b"word = 'hi'"},
        [bytes(100)],
    )
    assert zipfile.ZipFile(path).testzip() is None
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    assert done.stdout == "hi\n"


def test_files_are_private(tmp_path):
    path = tmp_path / "a.pyz"
    write(path)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("what", ["manifest", "member", "buffer"])
def test_a_changed_byte_is_found(tmp_path, what):
    path = tmp_path / "a.pyz"
    digest = write(path, {"m.bin": b"m" * 50}, [b"b" * 500], word="w")
    if what == "buffer":
        data = bytearray(path.read_bytes())
        data[data.index(b"bbbb")] ^= 1
        path.write_bytes(data)
    else:
        with zipfile.ZipFile(path) as old:
            content = {name: old.read(name) for name in old.namelist()}
        if what == "member":
            content["m.bin"] = b"other"
        else:
            content["manifest.json"] = json.dumps({"format": 1}).encode()
        with zipfile.ZipFile(path, "w") as new:
            for name, data in content.items():
                new.writestr(name, data)
    with pytest.raises((JobDirError, ResultError), match="differs|does not match"):
        archive = Archive(path, digest)
        archive.read("m.bin")
        ResultFile(path).buffer(0)


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive" * 100])
def test_what_is_no_archive_is_refused(tmp_path, content):
    path = tmp_path / "a.pyz"
    path.write_bytes(content)
    with pytest.raises(JobDirError) as refused:
        Archive(path)
    assert refused.value.id == "worker.archive-damaged"


def test_a_later_format_is_refused(tmp_path):
    path = tmp_path / "a.pyz"
    write(path, format=99)
    with pytest.raises(JobDirError, match="99") as refused:
        Archive(path)
    assert refused.value.id == "worker.archive-format"


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        write(tmp_path / "a.pyz", {}, [b"x"], word=object())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("travels", "how"), [(True, 8), (False, 0)])
def test_members_are_compressed_where_the_archive_leaves_its_machine(tmp_path, travels, how):
    path = tmp_path / "a.pyz"
    digest = write_archive(path, {"m.txt": b"x" * 100}, [], {}, travels=travels)
    with zipfile.ZipFile(path) as found:
        assert {one.compress_type for one in found.infolist()} == {how}
    assert Archive(path, digest).read("m.txt") == b"x" * 100


def test_what_is_in_most_archives_is_compressed_once(tmp_path, monkeypatch):
    compressed: list[str] = []
    add = archives._add

    def noted(archive, members, travels):
        compressed.extend(members)
        add(archive, members, travels)

    monkeypatch.setattr(archives, "_add", noted)
    fixed = {"worker.py": os.urandom(100) * 10}
    for number in (b"1", b"2"):
        path = tmp_path / "a.pyz"
        digest = write_archive(path, {"cell.py": number}, [], {}, fixed=fixed)
        found = Archive(path, digest)
        assert (found.read("cell.py"), found.read("worker.py")) == (number, fixed["worker.py"])
    assert compressed.count("worker.py") == 1 and compressed.count("cell.py") == 2


def test_an_archive_that_stays_here_is_read_but_has_no_results(tmp_path):
    path = tmp_path / "a.pyz"
    write_archive(path, {}, [memoryview(b"x" * 100)], {}, travels=False)
    assert [bytes(view) for view in Archive(path).buffers()] == [b"x" * 100]
    with pytest.raises(ResultError):
        ResultFile(path)


def test_a_file_that_was_written_anew_is_read_anew(tmp_path):
    path = tmp_path / "a.pyz"
    for size in (10, 100_000):
        content = os.urandom(size)
        write(path, {"m.bin": content})
        assert Archive(path).read("m.bin") == content
