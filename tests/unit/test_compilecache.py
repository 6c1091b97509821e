"""What XLA has compiled is kept for later jobs: the files, jax in front of them, and their place."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jaxlib
import pytest
from made_jobs import make_job

from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.api.plan import KubernetesPlan
from jupyter_jax_trainer.backends.kubernetes.logs import messages
from jupyter_jax_trainer.backends.kubernetes.submit import compilecache, runtimes
from jupyter_jax_trainer.backends.local.submission import LocalSubmission
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir.describe import compiled_text, remarks
from jupyter_jax_trainer.jobdir.parts import Compiled
from jupyter_jax_trainer.jobdir.state import new_rank
from jupyter_jax_trainer.options.spec import JobSpec, parse_cell_line
from jupyter_jax_trainer.queries import details
from jupyter_jax_trainer.worker import compilecache as compilecaches
from jupyter_jax_trainer.worker import compiling
from jupyter_jax_trainer.worker.channel import Channel
from jupyter_jax_trainer.worker.compilecache import CompileCache, Entry, bound

ONE, TWO = "1" * 64, "2" * 64
ENTRY = Entry(b"machine code", 2.5)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store" / "compile-cache"


@pytest.fixture
def cache(folder: Path) -> CompileCache:
    found = CompileCache(folder)
    found.add(ONE, ENTRY)
    return found


# ---- the files


def test_what_was_put_there_is_there_for_this_user_alone(folder):
    cache = CompileCache(folder)
    assert cache.read(ONE) is None
    cache.add(ONE, ENTRY)
    assert CompileCache(folder).read(ONE) == ENTRY
    assert cache.has(ONE) and not cache.has(TWO)
    assert [path.name for path in folder.iterdir()] == [ONE]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / ONE)] == [0o700, 0o600]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: b"garbage",
        lambda data: data[:-1],
        lambda data: data + b"!",
        lambda data: data.replace(b"code", b"evil"),
        lambda data: b"x" * len(data),
    ],
)
def test_a_damaged_entry_is_none_and_is_replaced(folder, cache, change):
    file = folder / ONE
    file.write_bytes(change(file.read_bytes()))
    assert cache.read(ONE) is None
    assert not file.exists()
    cache.add(ONE, ENTRY)
    assert cache.read(ONE) == ENTRY


def test_an_entry_under_the_name_of_another_is_none(folder, cache):
    (folder / ONE).rename(folder / TWO)
    assert cache.read(TWO) is None


def in_a_link(file: Path) -> None:
    file.rename(file.with_name("other"))
    file.symlink_to("other")


def in_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def writable(file: Path) -> None:
    file.chmod(0o666)


@pytest.mark.parametrize("change", [in_a_link, in_a_pipe, writable])
def test_an_entry_that_others_could_have_written_is_not_loaded(folder, cache, change):
    change(folder / ONE)
    assert cache.read(ONE) is None


def linked_folder(folder: Path) -> None:
    folder.rename(folder.with_name("others"))
    folder.symlink_to("others")


def open_folder(folder: Path) -> None:
    folder.chmod(0o777)


def test_what_belongs_to_another_user_is_neither_read_nor_written(folder, cache, monkeypatch):
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    for use in (lambda: cache.read(ONE), lambda: cache.add(TWO, ENTRY)):
        with pytest.raises(PermissionError):
            use()
    monkeypatch.setattr(compilecaches, "_is_own", lambda found: stat.S_ISDIR(found.st_mode))
    assert cache.read(ONE) is None, "a file in a folder of one's own"


@pytest.mark.parametrize("change", [linked_folder, open_folder])
def test_a_folder_that_others_could_have_written_is_neither_read_nor_written(folder, cache, change):
    change(folder)
    before = sorted(folder.iterdir())
    with pytest.raises(OSError):
        cache.read(ONE)
    with pytest.raises(OSError):
        cache.add(TWO, ENTRY)
    assert sorted(folder.iterdir()) == before


def test_a_volume_that_the_kubelet_opens_to_the_group_of_the_pod_is_used(
    folder, cache, monkeypatch
):
    folder.chmod(0o2770)
    (folder / ONE).chmod(0o660)
    with pytest.raises(PermissionError):
        cache.read(ONE)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert cache.read(ONE) == ENTRY


def test_those_unused_for_the_longest_time_make_room(folder):
    large = Entry(b"x" * 100_000, 1.0)
    cache = CompileCache(folder, 1_000_000)
    names = [f"{number:064x}" for number in range(9)]
    for age, name in enumerate(reversed(names)):
        cache.add(name, large)
        os.utime(folder / name, (1000 - age, 1000 - age))
    (folder / "of others").write_bytes(b"")
    (folder / f"{ONE}.{'0' * 16}.part").write_bytes(b"")
    os.utime(folder / f"{ONE}.{'0' * 16}.part", (0, 0))
    assert cache.read(names[0]) == large, "it is used"
    late = CompileCache(folder, 1_000_000)
    late.add(ONE, large)
    late.add(TWO, large)
    left = {path.name for path in folder.iterdir()}
    assert {names[0], ONE, TWO, "of others"} <= left
    assert names[1] not in left, "the oldest"
    assert len(left) <= 11 and not any(name.endswith(".part") for name in left)
    with pytest.raises(OSError) as caught:
        cache.add(TWO, Entry(b"x" * 1_000_000, 1.0))
    assert caught.value.errno == errno.EFBIG


@pytest.mark.parametrize(("text", "size"), [("", 2 << 30), ("0", 0), ("1G", 10**9)])
def test_a_bound(text, size):
    assert bound({"JAXTRAIN_COMPILE_CACHE_BYTES": text}) == size


def test_a_bound_that_is_none_is_refused_before_the_start(monkeypatch):
    spec = parse_cell_line("--env JAXTRAIN_COMPILE_CACHE_BYTES=much")
    with pytest.raises(UsageError, match="much"):
        LocalSubmission().plan(spec)
    with pytest.raises(UsageError, match="much"):
        compilecache.environment(spec, plan())


# ---- in jax


class Listener(Channel):
    """A channel that keeps what is sent."""

    interval = 60.0

    def __init__(self) -> None:
        super().__init__(None)
        self.told: list[dict[str, Any]] = []

    def send(self, kind: str, **fields: Any) -> None:
        self.told.append({"kind": kind, **fields})


PROGRAM = """
import json, sys, warnings
warnings.simplefilter("error")
sys.path[:0] = {paths!r}
import jax, jax.numpy as jnp
from pathlib import Path
from test_compilecache import Listener
from jupyter_jax_trainer.worker import compilecache as compilecaches
from jupyter_jax_trainer.worker import compiling

channel = Listener()
meter = compiling.install(channel)
folder = Path({folder!r})

def run():
    jax.clear_caches()
    meter.begin()
    assert float(jax.jit(lambda x: jnp.sin(x) * 2 + 1)(0.0)) == 1.0
    meter.end()

{phases}
print(json.dumps([channel.told, jax.config.jax_compilation_cache_dir]))
"""


def told(folder: Path, phases: str, **environment: str) -> tuple[list[dict[str, Any]], str | None]:
    """Run a program in a process of its own; give what it said, and the folder in jax."""
    paths = [str(path) for path in (ROOT, ROOT / "tests", Path(__file__).parent)]
    program = PROGRAM.format(paths=paths, phases=phases, folder=str(folder))
    given = {"JAX_PLATFORMS": "cpu", "JAXTRAIN_COMPILE_CACHE": str(folder), **environment}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env={**os.environ, **given}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr
    said, chosen = json.loads(done.stdout)
    return said, chosen


PHASES = """
run()
run()
for file in folder.iterdir():
    file.write_bytes(file.read_bytes()[:-9] + b"(garbage)")
run()
jax.__version__ = "9.9.9"
compiling._machine.cache_clear()
run()
jax.config.update("jax_compilation_cache_dir", str(folder.parent / "late"))
run()
run()
jax.config.update("jax_compilation_cache_dir", None)
run()
"""


def test_jax_compiles_nothing_twice_whatever_is_wrong_with_the_files(folder):
    said, chosen = told(folder, PHASES)
    count = said[0]["misses"]
    assert count > 0 and all(one["problem"] is None for one in said)
    assert [(one["hits"], one["misses"]) for one in said] == [
        (0, count),
        (count, 0),
        (0, count),  # garbage
        (0, count),  # another jax
        (0, count),  # in the folder that the cell has chosen
        (count, 0),
        (0, count),  # in none
    ]
    assert [one["cache"] for one in said] == [True] * 6 + [False]
    assert said[1]["saved"] > 0
    assert len(list(folder.iterdir())) == 2 * count, "of two versions, side by side"
    assert len(list(folder.with_name("late").iterdir())) == count
    assert chosen is None


@pytest.mark.slow
def test_the_folder_that_the_user_has_chosen_is_the_one(folder, tmp_path):
    own = tmp_path / "own"
    always = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    said, chosen = told(folder, "run(); run()", JAX_COMPILATION_CACHE_DIR=str(own), **always)
    assert chosen == str(own) and list(own.iterdir()) and not folder.exists()
    assert said[1]["hits"] == said[0]["misses"] > 0, "it is counted all the same"
    assert all(one["cache"] for one in said)


@pytest.mark.parametrize(
    "setting", ["JAXTRAIN_COMPILE_CACHE_BYTES=0", "JAX_ENABLE_COMPILATION_CACHE=false"]
)
@pytest.mark.slow
def test_it_can_be_off(setting, folder):
    name, _, value = setting.partition("=")
    said, _ = told(folder, "run(); run()", **{name: value})
    assert not folder.exists()
    assert not any(one["hits"] or (one["misses"] and one["cache"]) for one in said)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_folder_that_is_full_or_read_only_fails_nothing_and_is_told(code, folder, monkeypatch):
    def fail(*_args: object, **_more: object) -> None:
        raise OSError(code, os.strerror(code))

    cache, channel = CompileCache(folder), Listener()
    meter = compiling.Meter(channel)
    jax_cache = compiling._JaxCache(cache, str(folder), None, meter)
    monkeypatch.setattr(jax_cache, "_other", lambda: None)
    monkeypatch.setattr(compiling, "_machine", lambda: "this")
    monkeypatch.setattr(os, "replace", fail)
    jax_cache.put("jit_f-1", b"code")
    assert list(folder.iterdir()) == [], "nothing half is left"
    meter._add(asked=1)
    meter.end()
    assert channel.told == [
        {
            "kind": "compiled",
            "hits": 0,
            "misses": 1,
            "saved": 0.0,
            "seconds": 0.0,
            "cache": False,  # jax has no folder in this process
            "problem": os.strerror(code),
            "functions": [],
        }
    ]
    monkeypatch.undo()


def test_what_is_compiled_between_cells_belongs_to_none():
    channel = Listener()
    meter = compiling.Meter(channel)
    meter._add(asked=3, hits=1)
    meter.end()
    meter._add(asked=1)
    meter.begin()
    meter._add(asked=1, seconds=0.5)
    meter.end()
    meter.end()
    assert [(one["hits"], one["misses"]) for one in channel.told] == [(1, 2), (0, 1)]


def test_the_functions_that_took_longest_are_told():
    channel = Listener()
    meter = compiling.Meter(channel)
    for name, seconds in (("jit(step)", 2.0), ("jit(init)", 0.5), ("jit(step)", 1.0)):
        meter._on_duration("/jax/core/compile/backend_compile_duration", seconds, fun_name=name)
    meter.end()
    assert channel.told[0]["functions"] == [
        {"name": "step", "count": 2, "seconds": 3.0},
        {"name": "init", "count": 1, "seconds": 0.5},
    ]


DEVICE = SimpleNamespace(device_kind="NVIDIA H100 80GB HBM3")


@pytest.mark.parametrize(
    ("place", "name", "other"),
    [
        (DEVICE, "device_kind", "NVIDIA H200"),
        (jaxlib, "__version__", "9.9.9"),
        (jax, "__version__", "9.9.9"),
        (compiling, "cpu_features", lambda: ["of another"]),
    ],
    ids=["kind of device", "jaxlib", "jax", "CPU"],
)
def test_what_was_compiled_for_or_by_something_else_is_not_loaded(
    place, name, other, folder, monkeypatch
):
    monkeypatch.setattr(jax, "local_devices", lambda: [DEVICE])
    monkeypatch.setattr(compiling, "_machine", compiling._machine.__wrapped__)  # looks each time
    meter = compiling.Meter(Listener())
    jax_cache = compiling._JaxCache(CompileCache(folder), str(folder), None, meter)
    monkeypatch.setattr(jax_cache, "_other", lambda: None)
    jax_cache.put("jit_f-1", b"code")
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(place, name, other)
        assert jax_cache.get("jit_f-1") is None
        jax_cache.put("jit_f-1", b"other code")
        assert jax_cache.get("jit_f-1") == b"other code"
    assert jax_cache.get("jit_f-1") == b"code", "side by side"


def test_machines_differ_by_their_cpus(tmp_path):
    file = tmp_path / "cpuinfo"
    text = "vendor_id\t: A\ncpu MHz\t: {mhz}\nflags\t\t: {flags}\n\nflags\t\t: of the next\n"
    found = []
    for mhz, flags in ((1, "avx2"), (2, "avx2"), (1, "avx512")):
        file.write_text(text.format(mhz=mhz, flags=flags))
        found.append(compiling.cpu_features(file))
    assert found[0] == found[1] != found[2]


# ---- where it is


def plan(**more: object) -> KubernetesPlan:
    return {"runtime": "r", "runtime_kind": "ClusterTrainingRuntime", "cluster": "c", **more}  # type: ignore[typeddict-item,typeddict-unknown-key,return-value]


def test_pods_share_it_only_where_the_runtime_says_so(home):
    spec, volume = JobSpec(), parse_cell_line("--volume claim:/mine")
    assert compilecache.environment(spec, plan(shared="/data")) == {}
    assert compilecache.environment(volume, plan()) == {}
    on = plan(shared="/data", compile_cache=True)
    for one, place in ((spec, "/data"), (volume, "/mine")):
        found = compilecache.environment(one, on)
        assert found["JAXTRAIN_COMPILE_CACHE"].startswith(f"{place}/.jaxtrain-compiled/")
    assert compilecache.environment(spec, plan(compile_cache=True)) == {}, "no volume"
    off = parse_cell_line("--no-compile-cache")
    assert compilecache.environment(off, on) == {"JAXTRAIN_COMPILE_CACHE": "off"}


@pytest.mark.parametrize(("value", "on"), [("shared", True), ("true", False), (None, False)])
def test_the_annotation_of_a_runtime(value, on):
    annotations = {} if value is None else {"jupyter-jax-trainer/compile-cache": value}
    item = TrainingRuntime({"metadata": {"annotations": annotations}})
    assert runtimes.shares_compiled(item) is on


# ---- what is shown


def test_what_ranks_say_is_summed_up():
    ranks = [new_rank(0), new_rank(1), new_rank(2)]
    assert compiled_text(ranks) == ""
    ranks[0]["compiled"] = {"hits": 0, "misses": 2, "saved": 0.0, "seconds": 3.0}
    assert "2 programs in 3.0 s" in compiled_text(ranks)
    assert compiled_text(ranks, brief=True) == ""
    ranks[1]["compiled"] = {"hits": 4, "misses": 0, "saved": 75.0, "seconds": 1.0}
    assert Compiled.of(ranks) == Compiled(hits=4, misses=2, saved=75.0, seconds=3.0)
    assert "4 programs" in (said := compiled_text(ranks, brief=True)) and "1 m 15 s" in said


def test_the_card_mentions_a_cold_start_that_took_long():
    (rank,) = ranks = [new_rank(0)]
    shown = {"state": "Succeeded", "history": [], "ranks": ranks}
    rank["compiled"] = {"hits": 0, "misses": 2, "saved": 0.0, "seconds": 9.9}
    assert remarks(shown) == []
    rank["compiled"]["seconds"] = 75.0
    assert remarks(shown) == [compiled_text(ranks)] and "2 programs" in compiled_text(ranks)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ([None, None], None),
        ([(0, 0, 0.0, True)], None),
        ([(0, 3, 0.0, False)], None),  # no cache
        ([(0, 3, 0.0, True), None], (0, 3, 0.0)),
        ([(0, 3, 0.0, None)], (0, 3, 0.0)),  # of a worker that does not tell
        ([(2, 1, 4.5, True), (3, 0, 12.0, True)], (5, 1, 12.0)),
    ],
)
def test_the_page_has_what_the_cache_had_for_all_ranks(said, shown, home):
    ranks = [dict(new_rank(number)) for number in range(len(said))]
    for rank, one in zip(ranks, said, strict=True):
        if one is not None:
            fields = dict(zip(("hits", "misses", "saved", "cache"), one, strict=True))
            fields = {name: value for name, value in fields.items() if value is not None}
            rank["compiled"] = {"seconds": 1.0, **fields}
    make_job("one", ranks=ranks)
    found = details.detail(details.find("one"), None)["compile_cache"]
    assert found == (shown and dict(zip(("hits", "misses", "saved"), shown, strict=True)))


def test_what_a_pod_says_is_read():
    known = {"hits": 1, "misses": 2, "saved": 3, "seconds": 4.5, "functions": []}
    found = {"kind": "compiled", **known}
    read = messages.read({**found, "problem": "x" * 999})
    assert isinstance(read, messages.Compiled)
    assert read.found == {**known, "cache": True}
    told_none = messages.read({**found, "problem": None, "cache": False})
    assert isinstance(told_none, messages.Compiled) and told_none.found["cache"] is False
    assert read.problem == "x" * 200
    for wrong in ({"hits": "many"}, {"problem": 1}, {"saved": None}):
        assert isinstance(messages.read({**found, "problem": None, **wrong}), messages.Odd)
