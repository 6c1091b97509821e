"""What a page draws of the resources of ranks: bounded, whatever their number."""

from __future__ import annotations

import json
import math
import time
from types import SimpleNamespace

from jupyter_jax_trainer.jobdir.resources import ResourceWriter, resource
from jupyter_jax_trainer.queries.machine import MachineReader

GIB = 1 << 30


def sample(at, memory, cpu=1.0, devices=()):
    none = dict.fromkeys(("received", "sent", "read", "written"))
    more = {"used": int(memory * GIB), "limit": 16 * GIB, "cores": 2.0, "devices": list(devices)}
    return {"time": float(at), "cpu": cpu, "memory": int(memory * GIB), **none, **more}


def a_job(tmp_path, begin=0.0, end=math.inf):
    return SimpleNamespace(resources_file=tmp_path / "resources.jsonl", resources_time=(begin, end))


def test_few_ranks_have_a_line_each(tmp_path):
    job = a_job(tmp_path)
    reader = MachineReader(job)
    assert reader.read() is None
    device = {"memory": 40 * GIB, "peak": None, "limit": 80 * GIB, "use": 0.5, "power": 300.0}
    file = ResourceWriter(job.resources_file, 2)
    for at in range(4):
        file.write([resource(sample(at, 1 + at, devices=[device] * 2), r) for r in (0, 2)])
    found = reader.read()
    courses = {one["name"]: one for one in found["courses"]}
    assert [*courses] == ["memory", "cpu", "device_memory", "gpu", "power"]
    assert [(one["rank"], one["role"]) for one in courses["memory"]["lines"]] == [
        (0, "rank"),
        (2, "rank"),
    ]
    assert [value for _, value in courses["memory"]["lines"][0]["points"]] == [1, 2, 3, 4]
    last = {name: one["lines"][0]["points"][-1][1] for name, one in courses.items()}
    assert last == {"memory": 4, "cpu": 1, "device_memory": 40, "gpu": 50, "power": 600}
    assert (courses["memory"]["limit"], courses["device_memory"]["limit"]) == (16, 80)
    assert found["sparks"] == [[1, 2, 3, 4], [], [1, 2, 3, 4]]
    assert reader.read() is None
    file.write([resource(sample(9, 9), 0)])
    assert reader.read()["sparks"][0][-1] == 9


def test_a_cell_has_what_the_ranks_of_its_session_used_meanwhile(tmp_path):
    file = ResourceWriter(tmp_path / "resources.jsonl", 1)
    file.write([resource(sample(at, 1 + at), 0) for at in range(10)])
    found = MachineReader(a_job(tmp_path, 3, 5)).read()
    assert found["sparks"] == [[4, 5, 6]]


def test_many_ranks_are_a_band_and_the_odd_ones_are_named(tmp_path):
    job = a_job(tmp_path)
    file = ResourceWriter(job.resources_file, 256)
    for at in range(0, 600, 8):
        file.write(
            [resource(sample(at + r / 64, 12 if r == 77 else 4 + r / 1000), r) for r in range(256)]
        )
    begun = time.process_time()
    found = MachineReader(job).read()
    assert time.process_time() - begun < 10
    memory, cpu = found["courses"]
    roles = [(one["role"], one["rank"]) for one in memory["lines"]]
    assert roles == [("least", None), ("median", None), ("most", None), ("rank", 77)]
    least, median, most, odd = (one["points"][-1][1] for one in memory["lines"])
    assert 4 <= least < median < 4.3 < most == odd == 12
    assert len(cpu["lines"]) == 3
    assert len(json.dumps(found)) < 150_000


def with_gpu(use):
    return {"memory": None, "peak": None, "limit": None, "use": use, "power": None}


def test_a_gpu_that_is_idle_throughout_is_drawn_and_odd_among_busy_ones(tmp_path):
    job = a_job(tmp_path)
    file = ResourceWriter(job.resources_file, 16)
    for at in range(4):
        uses = [0.0 if rank == 9 else 0.8 for rank in range(16)]
        file.write(
            [resource(sample(at, 1, devices=[with_gpu(use)]), r) for r, use in enumerate(uses)]
        )
    (gpu,) = [one for one in MachineReader(job).read()["courses"] if one["name"] == "gpu"]
    lines = {(one["role"], one["rank"]): one["points"][-1][1] for one in gpu["lines"]}
    assert lines == {("least", None): 0, ("median", None): 80, ("most", None): 80, ("rank", 9): 0}


def test_of_what_nobody_uses_only_gpus_are_drawn(tmp_path):
    job = a_job(tmp_path)
    idle = {**sample(1, 1, devices=[with_gpu(0.0)]), "received": 0.0, "read": 0.0}
    ResourceWriter(job.resources_file, 1).write([resource(idle, 0)])
    assert [one["name"] for one in MachineReader(job).read()["courses"]] == ["memory", "cpu", "gpu"]
