"""What XLA has compiled is kept in an object store: whose entries count, and what may be wrong."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime

import fsspec
import podruns
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from jupyter_jax_trainer.backends.kubernetes.submit import compilecache
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.options.spec import JobSpec, parse_cell_line
from jupyter_jax_trainer.worker.compilecache import Entry
from jupyter_jax_trainer.worker.pod import compilestore
from jupyter_jax_trainer.worker.pod.compilestore import CompileStore

NAMES = [digit * 64 for digit in "1234"]
ONE, TWO, *_ = NAMES
ENTRY = Entry(b"machine code", 2.5)
KEY, OTHER = b"k" * 32, b"o" * 32
MOST = 1 << 20


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/bucket/mine"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "bucket" / "mine"


def put(url, *names, key=KEY, most=MOST, entry=ENTRY):
    store = CompileStore(url, key, most)
    for name in names:
        store.add(name, entry)
    store.flush()
    assert store.problem is None
    return store


def test_what_one_pod_has_put_there_is_there_for_the_next(url):
    store = CompileStore(url, KEY, MOST)
    assert store.read(ONE) is None and not store.has(ONE)
    put(url, ONE)
    later = CompileStore(url, KEY, MOST)
    assert later.read(ONE) == ENTRY and later.has(ONE) and later.read(TWO) is None


@pytest.mark.parametrize("change", ["key", "data", "seconds", "name", "cut", "empty", "magic"])
def test_what_others_could_have_written_is_never_loaded_and_replaced(url, folder, change):
    put(url, ONE, key=OTHER if change == "key" else KEY)
    file, other = folder / ONE, folder / TWO
    data = file.read_bytes()
    changed = {
        "data": data[:-1] + b"!",
        "seconds": data[:48] + b"\0" * 8 + data[56:],
        "cut": data[:20],
        "empty": b"",
        "magic": b"x" + data[1:],
    }
    if change == "name":
        file.rename(other)
    else:
        file.write_bytes(changed.get(change, data))
    name = TWO if change == "name" else ONE
    store = CompileStore(url, KEY, MOST)
    assert store.has(name) and store.read(name) is None
    assert not store.has(name), "a rank writes only what is not there"
    store.add(name, ENTRY)
    store.flush()
    assert CompileStore(url, KEY, MOST).read(name) == ENTRY


def test_the_oldest_make_room_and_what_is_too_large_is_not_written(url, folder):
    size = len(put(url, ONE)._seal.pack(ONE, ENTRY))
    for age, name in enumerate(NAMES[:3]):
        put(url, name)
        os.utime(folder / name, (time.time() - 100 + age,) * 2)
    (folder / "somebody-else's").write_bytes(b"x" * 999)
    store = put(url, NAMES[3], most=3 * size + 1)
    assert sorted(path.name for path in folder.iterdir()) == [
        *NAMES[2:],
        "somebody-else's",
    ], "a tenth is free"
    store.add(ONE, Entry(b"x" * 9 * size, 1.0))
    store.flush()
    assert not store.has(ONE) and store.problem is None


def test_one_that_is_larger_than_all_may_be_is_not_read(url):
    put(url, ONE, entry=Entry(b"x" * 1000, 1.0))
    assert CompileStore(url, KEY, 500).read(ONE) is None


def test_what_is_used_is_not_among_the_oldest(url, folder):
    put(url, ONE)
    os.utime(folder / ONE, (time.time() - 90_000,) * 2)
    store = CompileStore(url, KEY, MOST)
    assert store.read(ONE) == ENTRY
    store.flush()
    assert time.time() - (folder / ONE).stat().st_mtime < 60


@pytest.mark.parametrize(
    "info",
    [
        {"LastModified": datetime(2026, 1, 1, tzinfo=UTC)},  # s3fs
        {"updated": "2026-01-01T00:00:00.000Z"},  # gcsfs
        {"last_modified": datetime(2026, 1, 1, tzinfo=UTC)},  # adlfs
        {"mtime": 1767225600},
    ],
)
def test_stores_say_when_something_was_written_in_their_own_ways(info):
    assert compilestore._written(info) == 1767225600.0
    assert compilestore._written({"name": "x", "updated": "yesterday"}) == 0.0


class Hanging(MemoryFileSystem):
    """A store that answers to nothing after a word."""

    protocol = "hanging"
    after = "ls"

    def _hang(self, name):
        if name == type(self).after:
            threading.Event().wait(30)

    def ls(self, path, detail=True, **kwargs):
        self._hang("ls")
        return [{"name": f"{path}/{ONE}", "size": 9, "type": "file", "mtime": time.time()}]

    def cat_file(self, path, *args, **kwargs):
        self._hang("cat_file")
        return b""

    def pipe_file(self, path, value, *args, **kwargs):
        self._hang("pipe_file")


@pytest.fixture
def hanging(monkeypatch):
    fsspec.register_implementation("hanging", Hanging, clobber=True)
    monkeypatch.setenv("JAXTRAIN_STORE_TIMEOUT", "0.3")


@pytest.mark.parametrize("word", ["ls", "cat_file"])
def test_a_store_that_hangs_holds_nothing_up(word, hanging, monkeypatch):
    monkeypatch.setattr(Hanging, "after", word)
    store = CompileStore("hanging://x", KEY, MOST)
    began = time.monotonic()
    for _ in range(5):
        assert store.read(ONE) is None
    store.add(TWO, ENTRY)
    store.flush()
    assert time.monotonic() - began < 2
    assert store.problem == say.STORE_SILENT(seconds="0.3")


def test_an_upload_that_hangs_ends_with_the_process(hanging, monkeypatch):
    monkeypatch.setattr(Hanging, "after", "pipe_file")
    store = CompileStore("hanging://x", KEY, MOST)
    store.add(TWO, ENTRY)
    began = time.monotonic()
    store.flush()
    assert 0.2 < time.monotonic() - began < 2 and store.problem is None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("no-such-store://x/y", "Protocol not known"),
        ("abfs://x/y", say.STORE_LACKS_PACKAGE(error="")),
        ("file:///proc/nowhere", "Error"),
    ],
)
def test_a_store_that_can_not_be_used_is_told(url, said):
    store = CompileStore(url, KEY, MOST)
    store.add(ONE, ENTRY)
    assert store.read(ONE) is None and not store.has(ONE)
    assert said in store.problem
    store.flush()


def test_a_password_in_what_a_store_says_is_not_told(monkeypatch, hanging):
    def ls(self, path, detail=True, **kwargs):
        raise OSError("https://jo:s3cr3t-pass@host/x is away")

    monkeypatch.setattr(Hanging, "ls", ls)
    store = CompileStore("hanging://x", KEY, MOST)
    assert store.read(ONE) is None
    assert "is away" in store.problem and "s3cr3t-pass" not in store.problem


CELL = """
import os, subprocess
import jax, jax.numpy as jnp
print(float(jax.jit(lambda x: (x @ x.T).sum())(jnp.ones((3, 3)))))
print(subprocess.run(["cat", f"/proc/{os.getpid()}/environ"], capture_output=True).stdout)
"""


def test_a_pod_finds_what_another_one_has_compiled(tmp_path, url):
    key = "ab" * 32

    def compiled(pod, key=key, **more):
        folder = tmp_path / pod
        folder.mkdir()
        variables = {"JAXTRAIN_COMPILE_STORE": url, "JAXTRAIN_COMPILE_KEY": key, **more}
        done = podruns.run(folder, CELL, **variables)
        assert done.process.returncode == 0 and "27.0" in done.text
        assert key not in done.text, "the cell's own processes have no use for it"
        return done.get("compiled")

    first = compiled("first")
    assert first["hits"] == 0 < first["misses"] and first["problem"] is None
    assert first["misses"] == len(list((tmp_path / "bucket" / "mine").iterdir()))
    second = compiled("second")
    assert (second["hits"], second["misses"]) == (first["misses"], 0)
    assert compiled("other", key="cd" * 32)["hits"] == 0
    assert compiled("none", JAXTRAIN_COMPILE_CACHE_BYTES="0")["hits"] == 0
    wrong = compiled("wrong", JAXTRAIN_COMPILE_STORE="no-such-store://x")
    assert wrong["hits"] == 0 and "Protocol not known" in wrong["problem"]


# ---- which pods have it


PLAN = {"runtime": "r", "runtime_kind": "ClusterTrainingRuntime", "cluster": "c"}


def test_jobs_with_a_url_as_store_have_it_there(home):
    spec = parse_cell_line("--store s3://bucket/of-us/")
    found, secret = compilecache.environment(spec, PLAN), compilecache.secrets(spec, PLAN)
    (place,) = found.values()
    assert place.startswith("s3://bucket/of-us/.jaxtrain-compiled/")
    assert list(secret) == ["JAXTRAIN_COMPILE_KEY"]
    assert bytes.fromhex(*secret.values()) and secret == compilecache.secrets(spec, PLAN)
    assert not {*secret.values()} & {*(home / "signing-keys").read_text().split(":")}


@pytest.mark.parametrize(
    ("line", "plan"),
    [
        ("", {}),
        ("--store /data/store", {}),  # a file system, not a store: see `compilecache`
        ("--store s3://bucket --no-compile-cache", {}),
        ("--store s3://bucket --env JAXTRAIN_COMPILE_CACHE_BYTES=0", {}),
        ("--store s3://bucket", {"shared": "/data", "compile_cache": True}),
    ],
)
def test_others_have_not(home, line, plan):
    spec = parse_cell_line(line) if line else JobSpec()
    assert compilestore.URL_VARIABLE not in compilecache.environment(spec, {**PLAN, **plan})
    assert compilecache.secrets(spec, {**PLAN, **plan}) == {}
