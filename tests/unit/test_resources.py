"""What the job directory keeps of the resources of ranks, and what is said of them."""

from __future__ import annotations

import json
import threading
import time
import tracemalloc
from typing import Any

import pytest

from jupyter_jax_trainer.backends.kubernetes.api import objects
from jupyter_jax_trainer.backends.kubernetes.api.observed import Seen
from jupyter_jax_trainer.backends.kubernetes.follow.ranks import Ranks
from jupyter_jax_trainer.backends.kubernetes.follow.saved import applied
from jupyter_jax_trainer.backends.kubernetes.logs import messages
from jupyter_jax_trainer.jobdir import resources, writer
from jupyter_jax_trainer.jobdir.comparison import metrics
from jupyter_jax_trainer.jobdir.describe import pulse, remarks
from jupyter_jax_trainer.jobdir.failure import Failure, format_failure
from jupyter_jax_trainer.jobdir.files import LineReader
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.records import Event, Resource
from jupyter_jax_trainer.jobdir.resources import ResourceReader, ResourceWriter
from jupyter_jax_trainer.jobdir.state import new_rank
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.views.card import Facts, line, render, text

GIB = 1 << 30


def sample(at, memory=0.0, *, used=None, limit=16.0, devices=(), **more):
    """Return a sample; amounts of memory are in GiB."""
    used = memory if used is None else used
    return {
        "time": float(at),
        "cpu": 1.5,
        "cores": 2.0,
        "memory": int(memory * GIB),
        "used": int(used * GIB),
        "limit": int(limit * GIB),
        **dict.fromkeys(("received", "sent", "read", "written"), 0.0),
        "devices": [
            {"memory": int(now * GIB), "peak": None, "limit": 80 * GIB, "use": 0.9, "power": 300.0}
            for now in devices
        ],
        **more,
    }


@pytest.fixture
def record(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "_USAGE_INTERVAL", 0.0)
    found = Recorder(JobDir(tmp_path), [new_rank(number, host="a") for number in range(4)])
    found.change(State.RUNNING)
    return found


def events(record, kind):
    found = LineReader[Event](record._directory.events).read()
    return [(one["rank"], one["message"]) for one in found if one["kind"] == kind]


def test_the_card_and_the_terminal_have_one_line_of_what_is_used(record):
    record.resources(0, [sample(1, 2)])
    record.resources(3, [sample(1, 4, devices=[40, 60])])
    used = (
        "CPU 3.0 cores · memory 4 GiB of 16 GiB (rank 3) · GPU 90 % · "
        "device memory 60 GiB of 80 GiB (rank 3) · 600 W"
    )
    facts = Facts(name="fit", created=0.0, shape="4 nodes", sent="")
    assert pulse(record.state) == used
    for shown in (text, render, line):
        assert used in shown(facts, record.state)
    record.end(State.SUCCEEDED)
    assert pulse(record.state) == ""


def test_ranks_that_share_a_machine_say_what_is_used_by_all(record):
    record.resources(0, [sample(1, 2, used=12)])
    assert "memory 2 GiB of 16 GiB (rank 0) · 12 GiB used by all" in pulse(record.state)


def test_it_warns_before_memory_runs_out_and_only_where_it_grows(record):
    record.resources(3, [sample(at, 13 + at / 40) for at in range(70)])
    (said,) = events(record, "memory")
    assert said == (None, say.TIGHT(ranks="rank 3", share=90, limit="16 GiB"))
    assert say.TIGHT(ranks="rank 3", share=92, limit="16 GiB") in remarks(record.state)
    record.resources(2, [sample(at, 15) for at in range(0, 200, 2)])  # full, as it is to be
    assert len(events(record, "memory")) == 1
    record.resources(3, [sample(60, 5)])
    assert remarks(record.state) == []
    record.resources(3, [sample(at, 5 + at - 60) for at in range(61, 71)])
    assert len(events(record, "memory")) == 2


def test_it_warns_early_of_memory_that_fills_up_fast(record):
    record.resources(0, [sample(at, 3 * at) for at in range(5)])
    said = say.TIGHT(ranks="rank 0", share=75, limit="16 GiB")
    assert events(record, "memory") == [(None, said)]


def test_it_warns_once_of_a_machine_and_of_each_device(record):
    for at in range(10):
        for rank in range(4):
            record.resources(rank, [sample(at, 1, used=14 + at / 6, devices=[70 + at])])
    said = [message for _, message in events(record, "memory")]
    shared = [message for message in said if "machine" in message]
    assert shared == [say.TIGHT_MACHINE(ranks="rank 0", share=88, limit="16 GiB")]
    assert len(said) == 5
    assert said[-1].endswith("of its device 0 and grows")


def test_new_ranks_begin_anew(record):
    record.resources(3, [sample(at, 12 + at / 10) for at in range(30)])
    assert record.state["tight"]
    record.restart(3, "rank 3 was killed")
    assert "tight" not in record.state
    assert "usage" not in record.state


def test_after_memory_ran_out_the_last_minute_is_told(record):
    arrays = [{"name": "params['w']", "type": "float32[1024,1024]", "size": 4 << 20}]
    record.resources(1, [sample(at, 1 + at / 8) for at in range(100)])
    record.resources(1, [sample(100, 15.5, arrays=arrays)])
    record.end(State.FAILED, "out of memory", Failure(kind="memory", message="m", rank=1))
    told = Failure.from_json(JobDir(record._directory.path).read_state()["failure"])
    shown = format_failure(told, "fit")
    course = "6.1 GiB → 8.5 GiB → 11 GiB → 15.5 GiB"
    assert say.LAST_MINUTE(rank=1, seconds=59, course=course, limit="16 GiB") in shown
    assert say.LARGEST_ARRAYS(arrays="params['w'] float32[1024,1024] 4 MiB") in shown


def test_the_last_minute_of_a_device_is_told_where_that_is_full(record):
    record.resources(0, [sample(at, 1, devices=[5, 20 + at]) for at in range(60)])
    (said,) = resources.last_minute(record._directory, 0)
    course = "20 GiB → 39 GiB → 59 GiB → 79 GiB"
    assert said == say.LAST_MINUTE_OF_DEVICE(
        device=1, rank=0, seconds=59, course=course, limit="80 GiB"
    )
    record.end(State.FAILED, "no", Failure(kind="error", message="m", rank=0))
    assert record.state["failure"]["usage"] == []
    assert resources.last_minute(record._directory, 2) == []


def test_a_device_that_ran_out_is_told_of_though_it_is_nearly_empty(record):
    """What asks for more than there is gets nothing of it, so no sample sees a full device."""
    record.resources(0, [sample(at, 5, devices=[1]) for at in range(60)])
    error: Any = {"type": "JaxRuntimeError", "message": "RESOURCE_EXHAUSTED", "secondary": False}
    record.end(State.FAILED, "no", Failure(kind="memory", message="m", rank=0, error=error))
    (said,) = record.state["failure"]["usage"]
    course = "1 GiB → 1 GiB → 1 GiB → 1 GiB"
    assert said == say.LAST_MINUTE_OF_DEVICE(
        device=0, rank=0, seconds=59, course=course, limit="80 GiB"
    )


def test_a_file_is_thinned_and_keeps_the_last_minutes_and_the_peaks(tmp_path):
    path = tmp_path / "resources.jsonl"
    file = ResourceWriter(path, 2)
    reader, again = ResourceReader(path), 0
    for at in range(0, 20_000, 4):
        memory = 15 if at == 5_000 else 2
        lines = [resources.resource(sample(at, memory), rank, ["ab", at]) for rank in (0, 1)]
        file.write(lines)
        again += reader.read()[0]
    found = list(LineReader[Resource](path).read())
    assert again > 3
    assert len(found) <= 2_000
    assert [one["time"] for one in found if one["rank"] == 1][-30:] == [*range(19_880, 20_000, 4)]
    assert max(one["memory"] for one in found) == 15 * GIB
    times = [one["time"] for one in found if one["rank"] == 0]
    assert times == sorted(times)
    # What is old is as dense as what came later.
    early, later = sum(at < 5_000 for at in times), sum(5_000 <= at < 10_000 for at in times)
    assert 0.5 < early / later < 2


def test_another_writer_goes_on_with_the_bound(tmp_path):
    path = tmp_path / "resources.jsonl"
    for at in range(0, 3_000, 100):
        lines = [resources.resource(sample(at + n), 0) for n in range(100)]
        ResourceWriter(path, 1).write(lines)
    assert len(list(LineReader[Resource](path).read())) <= 2_000


def samples_of_all(record: Recorder, at: float) -> None:
    """Take of all ranks what they sampled in 80 seconds: one sample in eight seconds each."""
    devices = [{"memory": 1, "peak": 2, "limit": 3, "use": 0.5, "power": 1.0}]
    for rank in range(256):
        samples = [{**sample(at + n, 3), "devices": devices} for n in range(0, 80, 8)]
        record.resources(rank, samples, None, ["ab", int(at) + 1])


def test_samples_of_256_ranks_stay_within_the_bounds_of_a_follower(tmp_path, monkeypatch):
    """Four minutes; thinned as those of an hour."""
    monkeypatch.setattr(resources, "_EACH", 16)
    directory = JobDir(tmp_path)
    record = Recorder(directory, [new_rank(number) for number in range(256)])
    begun = time.process_time()
    for at in range(0, 240, 80):
        samples_of_all(record, at)
    spent = time.process_time() - begun
    assert spent < 0.01 * 240  # of a core
    count = sum(1 for _ in LineReader[Resource](directory.resources).read())
    assert 2_000 < count <= 16 * 256
    assert directory.resources.stat().st_size < 400 * count
    record.save()
    assert directory.state.stat().st_size < 100_000
    assert applied([directory], 256)[255] == {"ab": 161}
    # What comes now is kept in the file alone, and to thin that takes little.
    tracemalloc.start()
    try:
        samples_of_all(record, 240)
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1_000_000 and most < 1_000 * 16 * 256


@pytest.mark.parametrize(
    "odd",
    [
        {"samples": None},
        {"samples": [7]},
        {"samples": [{}]},
        {"samples": [{**sample(1), "cpu": "much"}]},
        {"samples": [{**sample(1), "devices": [{"memory": []}]}]},
    ],
)
def test_samples_of_another_form_are_refused(odd):
    found = messages.read({"kind": "resources", "problem": None, "frame": ["ab", 1], **odd})
    assert isinstance(found, messages.Odd)


def test_samples_are_bounded_whatever_a_rank_says():
    array = {"name": "n" * 999, "type": "t" * 999, "size": 10**30}
    odd = {
        **sample(1, devices=[1] * 17),
        "cpu": float("inf"),
        "memory": -5,
        "arrays": [{"name": 1}] + [array] * 16,
    }
    said = {"kind": "resources", "samples": [odd] * 1_001, "problem": "p" * 999}
    found = messages.read({**said, "frame": ["ab", 1]})
    assert isinstance(found, messages.Sampled)
    assert len(found.samples) == 1_000
    assert len(found.problem) == 200
    kept = found.samples[0]
    assert (kept["cpu"], kept["memory"]) == (None, 0)
    assert (len(kept["devices"]), len(kept["arrays"])) == (16, 15)
    assert len(json.dumps(kept)) < 10_000


def test_a_follower_writes_what_ranks_sampled_once(tmp_path):
    ranks = Ranks(JobDir(tmp_path), 2, threading.RLock(), print)
    said = {"kind": "resources", "samples": [sample(1, 3)], "problem": None, "frame": ["ab", 7]}
    ranks.take(1, messages.read(said), 0)
    problem = {**said, "samples": [], "problem": "no counters"}
    for rank in (0, 1):
        ranks.take(rank, messages.read(problem), 0)
    (found,) = LineReader[Resource](JobDir(tmp_path).resources).read()
    assert (found["rank"], found["memory"]) == (1, 3 * GIB)
    assert applied([JobDir(tmp_path)], 2) == {1: {"ab": 7}}
    warnings = [message for _, message in events(ranks.record, "warning")]
    assert len(warnings) == 1
    assert "no counters" in warnings[0]


def pod_of(rank, *, scheduled, taken):
    """Return the pod of a rank, with the times of the scheduler and of its node, in seconds."""

    def at(seconds):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))

    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(scheduled)}
    labels = {objects.ROLE: objects.TRAINER, objects.RANK: str(rank)}
    return objects.Pod(
        {
            "metadata": {"name": f"fit-{rank}", "uid": f"p{rank}", "labels": labels},
            "status": {"startTime": at(taken), "conditions": [condition]},
        }
    )


def test_samples_have_the_time_of_the_cluster_where_clocks_of_nodes_are_hours_off(tmp_path):
    now = 1_000_000.0
    taken = (now - 7200, now + 1, now + 59, now + 7200)  # the kubelet of one was late
    pods = [pod_of(rank, scheduled=now, taken=at) for rank, at in enumerate(taken)]

    def follower():
        return Ranks(JobDir(tmp_path), len(pods), threading.RLock(), print)

    def looks(ranks, seen_at):
        seen = Seen(
            trainjob=None,
            jobs=(),
            jobset=None,
            pods=pods,
            events=(),
            workloads=(),
            nodes=len(pods),
            now=seen_at,
        )
        ranks.note_pods(seen, pods)
        ranks.kept.save()

    def samples(ranks, number, at):
        for rank, clock in enumerate((at - 7200, at, at, at + 7200)):
            said = {"kind": "resources", "samples": [sample(clock, 3)], "problem": None}
            ranks.take(rank, messages.read({**said, "frame": ["ab", number]}), 0)

    ranks = follower()
    looks(ranks, now + 5)
    samples(ranks, 1, now + 10)
    ranks.record.save()
    ranks = follower()  # the next one, hours later
    looks(ranks, now + 9000)
    samples(ranks, 2, now + 9000)
    times = [one["time"] - now for one in LineReader[Resource](JobDir(tmp_path).resources).read()]
    assert times == [10] * 4 + [9000] * 4


def test_resources_are_metrics_of_reserved_names_for_those_who_ask(record):
    record.resources(2, [sample(5, 3, devices=[40])])
    job = Job(record._directory)
    job.__dict__["manifest"] = {"name": "fit"}
    assert metrics(job) == job.metrics() == []
    (row,) = metrics(job, resources=True)
    assert row["rank"] == 2
    assert row["jaxtrain/memory"] == 3 * GIB
    assert row["jaxtrain/device0/memory"] == 40 * GIB
    assert "step" not in row
