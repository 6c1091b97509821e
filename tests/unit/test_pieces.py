"""The hashes of a bundle's pieces, which are found while it is written."""

import hashlib
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_jax_trainer.jobdir import pieces
from jupyter_jax_trainer.worker.serialization.archive import write_archive

MIB = 1 << 20
SIZES = st.one_of(
    st.integers(0, 5 * MIB), st.integers(0, 5).map(lambda n: n * MIB), st.integers(0, 200)
)


def by_hand(file):
    data = file.read_bytes()
    return [
        hashlib.blake2b(data[at : at + MIB], digest_size=32).digest()
        for at in range(0, len(data), MIB)
    ]


def write(path, sizes, packages=0):
    buffers = [memoryview(os.urandom(size)) for size in sizes]
    wheels = {"a.whl": os.urandom(packages)} if packages else {}
    with pieces.Hashing() as hashing:
        write_archive(path, {"cell.py": b"x"}, buffers, {}, packages=wheels, on_buffer=hashing.take)
        hashing.note(path)


@given(sizes=st.lists(SIZES, max_size=5), packages=SIZES)
@settings(max_examples=40, deadline=None)
def test_what_is_noted_is_what_the_file_holds(tmp_path_factory, sizes, packages):
    bundle = tmp_path_factory.mktemp("job") / "bundle.pyz"
    write(bundle, sizes, packages)
    assert pieces.noted(bundle) in ([], by_hand(bundle))
    if sum(sizes) and max(sizes) >= 2 * MIB:  # it has a whole piece
        assert pieces.noted(bundle)
    root = hashlib.blake2b(b"".join(by_hand(bundle)), digest_size=32).hexdigest()
    assert pieces.note(bundle) == root
    assert pieces.noted(bundle) == by_hand(bundle)


def test_a_large_bundle_is_hashed_once(tmp_path, monkeypatch):
    bundle = tmp_path / "bundle.pyz"
    write(bundle, [3 * MIB])
    monkeypatch.setattr(pieces, "digests_of", pytest.fail)
    pieces.note(bundle)


def test_a_bundle_that_has_changed_is_hashed_again(tmp_path):
    bundle = tmp_path / "bundle.pyz"
    write(bundle, [3 * MIB])
    with bundle.open("r+b") as file:
        file.write(b"changed")
    later = bundle.with_suffix(".pieces").stat().st_mtime_ns + 1
    os.utime(bundle, ns=(later, later))
    assert pieces.noted(bundle) == []
    pieces.note(bundle)
    assert pieces.noted(bundle) == by_hand(bundle)


def test_hashes_that_were_cut_off_do_not_count(tmp_path):
    bundle = tmp_path / "bundle.pyz"
    write(bundle, [3 * MIB])
    beside = bundle.with_suffix(".pieces")
    beside.write_bytes(beside.read_bytes()[:-5])
    assert pieces.noted(bundle) == []
