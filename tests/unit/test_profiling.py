"""Profiles: how they are taken in a rank, come out of a pod, and are read without trust."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
import tracemalloc
import zipfile
from collections import namedtuple
from pathlib import Path
from typing import Any, BinaryIO

import other_python
import podruns
import pytest
from harness import LONG_S, eventually
from jax.profiler import ProfileData
from relays import Loopback

from jupyter_jax_trainer.backends.kubernetes.follow import profiles as arriving
from jupyter_jax_trainer.backends.kubernetes.follow.fetch import Fetch
from jupyter_jax_trainer.backends.kubernetes.follow.ranks import Ranks
from jupyter_jax_trainer.backends.kubernetes.logs import messages
from jupyter_jax_trainer.errors import BackendError, JobNotFound, UsageError
from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.files import LineReader
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.records import Event
from jupyter_jax_trainer.jobdir.state import ProfileOfRank, ProfileState
from jupyter_jax_trainer.options.spec import parse_cell_line
from jupyter_jax_trainer.profiles import memory, reading, summary, traces
from jupyter_jax_trainer.trust import policy
from jupyter_jax_trainer.worker import profiling
from jupyter_jax_trainer.worker.pod import delivery, frames
from jupyter_jax_trainer.worker.pod.podchannel import PodChannel
from jupyter_jax_trainer.worker.pod.profiles import Carrier
from jupyter_jax_trainer.worker.profiling import MEMORY, TRACE, Profiler
from jupyter_jax_trainer.worker.records import Profiled

CELL = """
import jax, jax.numpy as jnp
x = jnp.ones((64, 64))
for _ in range(20):
    x = jax.jit(lambda x: jnp.tanh(x @ x))(x).block_until_ready()
"""


class Heard:
    """A channel that keeps what is said."""

    def __init__(self) -> None:
        self.said: list[dict[str, object]] = []

    def send(self, _kind: str, **fields: object) -> None:
        self.said.append(fields)


@pytest.fixture
def job(tmp_path) -> JobDir:
    found = JobDir(tmp_path / "fit")
    found.path.mkdir()
    found.manifest.write_text("{}")
    return found


@pytest.fixture
def trusted(monkeypatch):
    monkeypatch.setattr(JobDir, "read_manifest", lambda _: {})
    monkeypatch.setattr(policy, "standing", lambda *_: policy.Trust.OWN)


@pytest.mark.parametrize(
    ("line", "kept", "name"),
    [
        ("--profile", "cell", None),
        ("--profile fit", "cell", "fit"),
        ("fit --profile steps=10:15 -n 2", "steps=10:15", "fit"),
        ("--profile -n 2", "cell", None),
    ],
)
def test_the_option_may_be_without_a_value(line, kept, name):
    spec = parse_cell_line(line)
    assert (spec.profile, spec.name) == (kept, name)
    assert parse_cell_line(spec.to_line()) == spec


@pytest.mark.parametrize("value", ["steps=5:5", "steps=a:b", "steps=:3", "x=1", "steps=-1:3"])
def test_what_are_no_steps_is_refused(value):
    with pytest.raises(UsageError):
        parse_cell_line(f"--profile {value}")


def test_without_room_on_the_disk_none_is_begun(tmp_path, monkeypatch):
    """So a profile never fills the disk that the job's own directory is on."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1 << 30, 1 << 30, 1 << 20))
    channel = Heard()
    Profiler(channel, tmp_path / "profiles").begin("cell")  # type: ignore[arg-type]
    (said,) = channel.said
    assert "JAXTRAIN_PROFILE_BYTES" in str(said["problem"]) and not said["files"]
    assert not list((tmp_path / "profiles").iterdir())


def test_a_disk_that_fills_up_meanwhile_is_no_error_of_the_cell(tmp_path, monkeypatch):
    def full(_folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(profiling, "_start_trace", lambda folder: (folder / "x").touch())
    monkeypatch.setattr(profiling, "_stop_trace", full)
    channel = Heard()
    profiler = Profiler(channel, tmp_path / "profiles")  # type: ignore[arg-type]
    profiler.begin("cell")
    profiler.end()
    (said,) = channel.said
    assert "No space left" in str(said["problem"]) and not list((tmp_path / "profiles").iterdir())


def test_one_that_begins_while_another_is_taken_does_not_end_that(tmp_path, monkeypatch):
    monkeypatch.setattr(profiling, "_start_trace", lambda _: None)
    monkeypatch.setattr(profiling, "_stop_trace", lambda folder: (folder / TRACE).touch())
    channel = Heard()
    profiler = Profiler(channel, tmp_path / "profiles")  # type: ignore[arg-type]
    profiler.begin("cell")
    profiler._start("1", 0.0)
    assert [said["name"] for said in channel.said] == ["1"] and channel.said[0]["problem"]
    profiler.end()
    assert channel.said[1]["name"] == "cell" and channel.said[1]["problem"] is None
    assert (tmp_path / "profiles" / "cell" / "rank-0" / TRACE).exists()


def test_one_asked_for_before_its_cell_has_begun_here_is_kept_with_that_cell(tmp_path, monkeypatch):
    """Ranks of a session hear of it while they still load what came with the cell."""
    monkeypatch.setattr(profiling, "_start_trace", lambda _: None)
    monkeypatch.setattr(profiling, "_stop_trace", lambda folder: (folder / TRACE).touch())
    homes = [tmp_path / cell / "profiles" for cell in ("one", "two")]
    for home in homes:
        home.parent.mkdir()
    channel = Heard()
    profiler = Profiler(channel, None)  # type: ignore[arg-type]
    for home in homes:
        told = {"kind": "profile", "name": "1", "seconds": 30.0, "home": str(home)}
        profiler.ask(told)  # type: ignore[arg-type]
        eventually(lambda: profiler._name)
        profiler.begin(None, home)
        profiler.ask(told)  # type: ignore[arg-type]  # again, as after a line was cut
        profiler.end()
        assert (home / "1" / "rank-0" / TRACE).exists()
    assert [said["problem"] for said in channel.said] == [None, None]


def test_it_comes_out_of_a_pod_with_the_log(tmp_path, job, trusted):
    path, digest = podruns.bundle(tmp_path, CELL, profile="cell")
    run = podruns.start(tmp_path, path, digest)
    assert run.end() == 0, run.text
    kinds = run.kinds()
    assert kinds.index("profile_part") < kinds.index("profiled") < kinds.index("finished")
    found = None
    for message in map(messages.read, run.messages):
        if isinstance(message, messages.ProfilePart):
            arriving.add_part(job, 0, message.name, message.part)
        if isinstance(message, messages.ProfileTaken):
            found = arriving.settle(job, 0, message.taken)
    assert found is not None and found["problem"] is None
    assert set(found["files"]) == {TRACE, MEMORY}
    state: ProfileState = {"name": "cell", "time": 0.0, "whole": True, "ranks": [found]}
    whole = reading.summarize(job, state)
    assert whole["ranks"][0]["platform"] == "cpu" and whole["operations"]
    assert any("module" in held["where"] for held in whole["ranks"][0]["allocations"])
    assert not list(job.path.glob("profile-*"))
    made = reading.perfetto(job, state, 0)
    with gzip.open(made, "rt") as file:
        assert any("dur" in event for event in json.load(file)["traceEvents"])
    inode = made.stat().st_ino
    assert reading.perfetto(job, state, 0) == made and made.stat().st_ino == inode
    assert sorted(path.name for path in made.parent.iterdir()) == sorted(
        [TRACE, MEMORY, reading.PERFETTO]
    )


@pytest.mark.parametrize("limit", ["60", "0.001"])
def test_a_trace_that_is_not_converted_is_said_and_leaves_nothing(job, monkeypatch, limit):
    monkeypatch.setenv("JAXTRAIN_SUMMARY_TIMEOUT", limit)
    folder = reading.folder_of(job, "1", 0)
    folder.mkdir(parents=True)
    (folder / TRACE).write_bytes(b"\xff" * 1000)
    ranks: list[Any] = [{"rank": 0, **_taken(**{TRACE: 1000})}]
    state: ProfileState = {"name": "1", "time": 1.0, "whole": True, "ranks": ranks}
    with pytest.raises(BackendError, match=re.escape(str(folder / TRACE))):
        reading.perfetto(job, state, 0)
    assert [path.name for path in folder.iterdir()] == [TRACE]
    with pytest.raises(JobNotFound):
        reading.perfetto(job, state, 1)


GRAPH = """
planes {
  name: "/device:GPU:0"
  lines { name: "Stream #14(Compute)" timestamp_ns: 1000
    events { metadata_id: 1 offset_ps: 0 duration_ps: 4000000 stats { metadata_id: 1 str_value: "command_buffer_1" } stats { metadata_id: 2 str_value: "jit_step" } }
    events { metadata_id: 2 offset_ps: 5000000 duration_ps: 3000000 stats { metadata_id: 1 str_value: "command_buffer" } stats { metadata_id: 2 str_value: "jit_step" } }
    events { metadata_id: 3 offset_ps: 9000000 duration_ps: 2000000 stats { metadata_id: 1 str_value: "custom-call.1" } stats { metadata_id: 2 str_value: "jit_step" } }
  }
  event_metadata { key: 1 value { id: 1 name: "loop_tanh_fusion" } }
  event_metadata { key: 2 value { id: 2 name: "ncclDevKernel_AllReduce_Sum_f32_RING_LL" } }
  event_metadata { key: 3 value { id: 3 name: "sm90_xmma_gemm_f32f32" } }
  stat_metadata { key: 1 value { id: 1 name: "hlo_op" } }
  stat_metadata { key: 2 value { id: 2 name: "hlo_module" } }
}
"""


def test_operations_that_a_gpu_runs_as_one_graph_are_told_apart(tmp_path):
    """Else all of a training step is ``command_buffer``, and its collectives are not seen."""
    (tmp_path / TRACE).write_bytes(ProfileData.text_proto_to_serialized_xspace(GRAPH))
    found = traces.read(0, tmp_path / TRACE)
    assert [(one["name"], one["collective"]) for one in found["operations"]] == [
        ("loop_tanh_fusion", False),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", True),
        ("custom-call.1", False),
    ]
    assert found["collectives"] == pytest.approx(3e-6) and found["platform"] == "gpu"


TAKES_ONE = """
import sys, jax, jax.numpy as jnp
from pathlib import Path
from jupyter_jax_trainer.worker import profiling
profiling.shutil.rmtree = lambda *_, **__: sys.exit("jax has exported it")
for _ in range(2):
    profiling._start_trace(Path(sys.argv[1]))
    for _ in range(20): jax.jit(jnp.sin)(jnp.ones(9)).block_until_ready()
    profiling._stop_trace(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("python", ["this", pytest.param("another", marks=pytest.mark.slow)])
def test_small_programs_are_counted_that_run_in_the_thread_which_calls_them(tmp_path, python):
    """And nothing but the trace is written, by the newest jax either."""
    program = sys.executable if python == "this" else str(other_python.other())
    subprocess.run([program, "-c", TAKES_ONE, tmp_path], check=True)
    found = traces.read(0, tmp_path / TRACE)
    assert found["platform"] == "cpu"
    assert sum(one["count"] for one in found["operations"]) >= 20


@pytest.mark.parametrize("fetched", [True, False])
def test_a_large_one_is_held_until_it_is_fetched(tmp_path, job, trusted, monkeypatch, fetched):
    monkeypatch.setattr(delivery, "IN_LOG", 0)
    monkeypatch.setenv("JAXTRAIN_RESULT_HOLD", "30" if fetched else "0.1")
    (tmp_path / TRACE).write_bytes(b"trace")
    said: queue.Queue[dict[str, Any]] = queue.Queue()
    key = frames.key_from(podruns.KEY)
    channel = PodChannel(key, 0, None)
    monkeypatch.setattr(channel, "send", lambda kind, **more: said.put({"kind": kind, **more}))
    carrier = Carrier(channel)
    carrier.carry(tmp_path, _taken(**{TRACE: 5}))
    held = messages.read(said.get(timeout=LONG_S))
    assert isinstance(held, messages.ProfileHeld)
    if fetched:
        found: list[ProfileOfRank] = []
        (hold,) = carrier._holds

        def take() -> None:
            hold.join(0.3)
            assert hold.is_alive(), "a cell ends when its rank may go on, and has its profile then"
            found.append(arriving.unpack(job, 0, held.taken))

        target = arriving.archive_of(job, 0, "1")
        where = {"port": held.port, "seconds": held.seconds, "rank": 0, "since": time.time()}
        fetch = Fetch(
            Loopback(),  # type: ignore[arg-type]
            "pod-0",
            {**held.file, **where},  # type: ignore[typeddict-item]
            podruns.KEY,
            target,
            pytest.fail,
            mine=True,
            on_taken=take,
        )
        fetch.run()
        assert found[0]["problem"] is None and found[0]["files"] == {TRACE: 5}
        assert (job.profiles / "1" / "rank-0" / TRACE).read_bytes() == b"trace"
    carrier.close()
    if not fetched:
        lost = messages.read(said.get(timeout=LONG_S))
        assert isinstance(lost, messages.ProfileTaken) and lost.taken["problem"]
    assert said.empty()


def _taken(**files: int) -> Profiled:
    return {"name": "1", "seconds": 1.0, "files": {**files}, "left_out": {}, "problem": None}


def test_of_an_archive_no_more_is_taken_than_there_may_be(job, trusted, monkeypatch):
    monkeypatch.setenv("JAXTRAIN_PROFILE_BYTES", "1000")
    with zipfile.ZipFile(arriving.archive_of(job, 0, "1"), "w", zipfile.ZIP_DEFLATED) as pack:
        pack.writestr(TRACE, b"\0" * 100_000)
        pack.writestr("../../outside", b"x")
    found = arriving.unpack(job, 0, _taken(**{TRACE: 10, "../../outside": 1}))
    assert found["problem"] and not found["files"]
    assert not (job.profiles / "1" / "rank-0").exists() and not (job.path.parent / "x").exists()


def test_a_large_one_is_unpacked_in_little_memory(job, trusted):
    size = 64 << 20
    with zipfile.ZipFile(arriving.archive_of(job, 0, "1"), "w", zipfile.ZIP_DEFLATED) as pack:
        pack.writestr(TRACE, bytes(size))
    tracemalloc.start()
    try:
        found = arriving.unpack(job, 0, _taken(**{TRACE: size}))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found["files"] == {TRACE: size} and found["problem"] is None
    assert (job.profiles / "1" / "rank-0" / TRACE).stat().st_size == size
    assert most < size / 8


class Full(io.FileIO):
    """A file on a disk with room for one byte."""

    def write(self, data: Any) -> int:
        super().write(bytes(data)[:1])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("where", ["profile-1-0.zip", MEMORY, TRACE])
def test_a_disk_that_is_full_where_it_arrives_is_said_and_nothing_is_left(
    tmp_path, job, trusted, monkeypatch, where
):
    opened, open_private = [], files.open_private

    def open_one(path: Path) -> BinaryIO:
        opened.append(path.name)
        return Full(path, "wb") if path.name == where else open_private(path)  # type: ignore[return-value]

    for place in (files, arriving):
        monkeypatch.setattr(place, "open_private", open_one)
    said: list[dict[str, Any]] = []
    channel = PodChannel(frames.key_from(podruns.KEY), 0, None)
    monkeypatch.setattr(channel, "send", lambda kind, **more: said.append({"kind": kind, **more}))
    for name in (TRACE, MEMORY):
        (tmp_path / name).write_bytes(b"12345")
    Carrier(channel).carry(tmp_path, _taken(**{TRACE: 5, MEMORY: 5}))
    ranks = Ranks(job, 1, threading.RLock(), pytest.fail)
    for message in said:
        ranks.take(0, messages.read(message), 0)
    assert where in opened
    ((found,),) = (profile["ranks"] for profile in ranks.record.state["profiles"])
    assert found["problem"] == f"[Errno {errno.ENOSPC}] {os.strerror(errno.ENOSPC)}"
    assert not found["files"] and not list(job.path.glob("profile-*"))
    assert not job.profiles.exists() or not list(job.profiles.rglob("rank-*"))
    (told,) = LineReader[Event](job.events).read()
    assert told["kind"] == "profile" and found["problem"] in told["message"]


def test_nothing_of_somebody_elses_job_is_kept(job, monkeypatch):
    monkeypatch.setattr(JobDir, "read_manifest", lambda _: {})
    monkeypatch.setattr(policy, "standing", lambda *_: policy.Trust.FOREIGN)
    found = arriving.settle(job, 0, _taken(**{TRACE: 1}))
    assert found["problem"] and not job.profiles.exists()


@pytest.mark.parametrize("name", ["../x", "", "1/2", "Cell", "1" * 9])
def test_a_name_that_leads_elsewhere_is_no_message(name):
    said = {"kind": "profiled", **_taken(), "name": name}
    assert isinstance(messages.read(said), messages.Odd)


@pytest.mark.parametrize("data", [b"", b"\xff" * 1000, b"\x0a\xff\xff\xff\xff\x0f" * 9, b"{}" * 99])
def test_what_is_no_trace_is_said_and_the_others_are_read(job, data, monkeypatch):
    ranks = []
    for rank in (0, 1):
        folder = reading.folder_of(job, "1", rank)
        folder.mkdir(parents=True)
        (folder / TRACE).write_bytes(data if rank == 0 else b"")
        (folder / MEMORY).write_bytes(data)
        ranks.append({"rank": rank, **_taken(**{TRACE: 1})})
    state = {"name": "1", "time": 1.0, "whole": True, "ranks": ranks}
    found = reading.summarize(job, state)  # type: ignore[arg-type]
    assert [one["rank"] for one in found["ranks"]] == [0, 1]
    assert not any(one["operations"] or one["allocations"] for one in found["ranks"])
    assert found["ranks"][1]["problem"] is None or data != b""


def test_a_reader_that_dies_takes_no_other_rank_with_it(job, monkeypatch, tmp_path):
    """And one that never ends is not waited for."""
    (tmp_path / "dying_child.py").write_text(
        "import json, os, sys\n"
        "from jupyter_jax_trainer.profiles.summary import missing\n"
        "for word in sys.argv[1:]:\n"
        "    rank = int(word.partition('=')[0])\n"
        "    if rank == 1: os.abort()\n"
        "    if rank == 3: import time; time.sleep(60)\n"
        "    print(json.dumps(missing(rank, None)), flush=True)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr(reading, "_CHILD", "dying_child")
    monkeypatch.setenv("JAXTRAIN_SUMMARY_TIMEOUT", "4")
    found = reading._read(dict.fromkeys(range(4), job.path))
    assert [bool(found[rank]["problem"]) for rank in range(4)] == [False, True, False, True]
    assert "JAXTRAIN_SUMMARY_TIMEOUT" in str(found[3]["problem"])


def _rank(rank: int, **more: object) -> summary.RankSummary:
    made = {**summary.missing(rank, ""), "problem": None, "devices": 1, "seconds": 10.0, **more}
    return made  # type: ignore[return-value]


def test_what_bounds_a_job_is_told_of_accelerators_alone():
    def found(platform: str, busy: float) -> summary.ProfileSummary:
        return summary.of_ranks("1", [_rank(0, platform=platform, busy=busy)])

    assert found("gpu", 3.0)["bound"] == "host" and found("tpu", 9.5)["bound"] == "device"
    assert found("cpu", 3.0)["bound"] is None
    assert "can't tell" in found("cpu", 3.0)["notes"][0]


def test_operations_are_averaged_and_the_slowest_rank_is_named():
    def operations(seconds: float) -> list[summary.Operation]:
        one = {"name": "dot", "module": "jit_f", "count": 2, "collective": False}
        return [{**one, "seconds": seconds}]  # type: ignore[typeddict-item]

    whole = summary.of_ranks(
        "1",
        [_rank(0, operations=operations(1.0)), _rank(1, operations=operations(3.0)), _rank(2)],
    )
    (one,) = whole["operations"]
    assert (one["rank"], one["most"], one["count"]) == (1, 3.0, 4)
    assert one["seconds"] == pytest.approx(4 / 3)


@pytest.mark.parametrize(
    "data",
    [b"", b"x", gzip.compress(b"\xff" * 50), gzip.compress(b"\0")],
    ids=["empty", "short", "no fields", "no string"],
)
def test_what_is_no_profile_of_memory_is_refused_or_empty(data):
    with contextlib.suppress(ValueError):
        assert memory.read(data) == []


def test_a_profile_of_memory_that_unpacks_to_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "_BYTES", 1000)
    with pytest.raises(ValueError):
        memory.read(gzip.compress(b"\0" * 10_000))
