"""Wheels as pods unpack them."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_jax_trainer.worker.pod.wheel import Wheel

NAME = "aid-1.0-py3-none-any.whl"
METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]


def packed(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return data.getvalue()


def files_in(folder: Path) -> dict[str, bytes]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@given(
    st.dictionaries(st.from_regex(r"\A[a-c]/[d-f]{1,3}\Z"), st.binary(max_size=300_000)),
    st.sampled_from(METHODS),
    st.binary(max_size=50),
)
def test_all_comes_out_as_it_went_in(tmp_path_factory, members, method, before):
    folder = tmp_path_factory.mktemp("there")
    wheel = Wheel(NAME, before + packed(members, method))
    wheel.unpack(folder)
    assert files_in(folder) == members
    assert wheel.unpacked_size == sum(
        -(-len(content) // 4096) * 4096 for content in members.values()
    )


def test_files_go_where_pip_puts_them_and_nowhere_else(tmp_path):
    members = {
        "aid/": b"",
        "aid/empty/": b"",
        "aid-1.0.data/purelib/aid/pure.py": b"1",
        "aid-1.0.data/platlib/aid/plat.py": b"2",
        "aid-1.0.data/scripts/aid": b"3",
        "aid-1.0.data/purelib": b"4",
        "../out.py": b"5",
        "/root.py": b"6",
        "aid/../../up/./in.py": b"7",
        "aid/..": b"8",
    }
    Wheel(NAME, packed(members)).unpack(tmp_path / "there")
    assert files_in(tmp_path) == {
        f"there/{path}": content
        for path, content in {
            "aid/pure.py": b"1",
            "aid/plat.py": b"2",
            "out.py": b"5",
            "root.py": b"6",
            "aid/up/in.py": b"7",
        }.items()
    }
    assert (tmp_path / "there/aid/empty").is_dir()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_wheel_is_refused(tmp_path, method):
    data = bytearray(packed({"aid.py": b"word = 'from a wheel'"}, method))
    data[40] ^= 0xFF
    with pytest.raises((zipfile.BadZipFile, zlib.error)):
        Wheel(NAME, bytes(data)).unpack(tmp_path)
