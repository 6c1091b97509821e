"""What a rank samples of its machine, and what it does where that can't be had."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from jupyter_jax_trainer.worker import livearrays, memory, nvml, rendezvous, sampler, usage
from jupyter_jax_trainer.worker.usage import UsageReader

GIB = 1 << 30


class Channel:
    """Keeps what is sent."""

    interval = 0.1

    def __init__(self):
        self.sent = []

    def send(self, kind, **fields):
        self.sent.append((kind, fields))


@pytest.fixture
def root(tmp_path):
    """Return a function that writes files of the system, and where they are."""

    def write(**files: str) -> Path:
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def files(group: str, used: str, bound: str, processor: dict[str, str]) -> dict[str, str]:
    return {
        "proc/meminfo": f"MemTotal: {64 << 20} kB\nMemAvailable: {60 << 20} kB\n",
        "proc/self/cgroup": f"{group}:/\n",
        "proc/self/net/dev": "a\nb\n lo: 9 0 0 0 0 0 0 0 9\n eth0: 100 0 0 0 0 0 0 0 50 0\n",
        "proc/self/io": "rchar: 1\nread_bytes: 1000\nwrite_bytes: 0\n",
        used: str(15 * GIB),
        bound: str(16 * GIB),
        **processor,
    }


VERSION_2 = files(
    "0:",
    "sys/fs/cgroup/memory.current",
    "sys/fs/cgroup/memory.max",
    {
        "sys/fs/cgroup/cpu.stat": "usage_usec 1000000\n",
        "sys/fs/cgroup/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/memory.stat": f"inactive_file {GIB}\n",
    },
)
VERSION_1 = files(
    "4:memory",
    "sys/fs/cgroup/memory/memory.usage_in_bytes",
    "sys/fs/cgroup/memory/memory.limit_in_bytes",
    {
        "sys/fs/cgroup/cpuacct/cpuacct.usage": "1000000000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/memory/memory.stat": f"total_inactive_file {GIB}\n",
    },
)


@pytest.mark.parametrize("there", [VERSION_1, VERSION_2], ids=["cgroup1", "cgroup2"])
def test_a_container_is_read_in_both_versions_of_control_groups(root, monkeypatch, there):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    place = root(**there)
    clock = [10.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    reader = UsageReader(contained=True, root=place)
    clock[0] += 2.0
    later = {name: text.replace("1000000", "2000000") for name, text in there.items()}
    later["proc/self/net/dev"] = there["proc/self/net/dev"].replace("100 ", "300 ")
    later["proc/self/io"] = there["proc/self/io"].replace("write_bytes: 0", "write_bytes: 8")
    root(**later)
    found = reader.read()
    assert found == {
        "cpu": 0.5,
        "cores": 1.5,
        "memory": 14 * GIB,  # what is kept of files can be given up
        "used": 14 * GIB,
        "limit": 16 * GIB,
        "received": 100.0,
        "sent": 0.0,
        "read": 0.0,
        "written": 4.0,
    }


def test_a_process_is_read_with_those_that_it_has_started():
    reader = UsageReader(contained=False)
    alone = reader.read()
    code = "held = bytearray(200 << 20); print(1, flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as child:
        child.stdout.readline()
        reader._search_at = 0.0
        more = reader.read()
        child.communicate(b"\n")
    assert more["memory"] - alone["memory"] > 150 << 20
    assert 0 < alone["memory"] < alone["used"] < alone["limit"]


@pytest.mark.parametrize("contained", [True, False])
def test_what_processes_that_it_has_started_read_and_write_counts(root, monkeypatch, contained):
    """Those that load data, say."""
    clock = [10.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(usage, "descendants", lambda _: [77, 78])
    counts = "read_bytes: {}\nwrite_bytes: {}\n"
    place = root(**{"proc/self/io": counts.format(10, 0), "proc/77/io": counts.format(1000, 0)})
    reader = UsageReader(contained=contained, root=place)
    reader.read()
    clock[0] += 2.0
    root(**{"proc/self/io": counts.format(10, 6), "proc/77/io": counts.format(5000, 2)})
    found = reader.read()
    assert (found["read"], found["written"]) == (2000.0, 4.0)


def test_nothing_is_known_where_the_system_says_nothing(tmp_path):
    found = UsageReader(contained=True, root=tmp_path).read()
    assert {name for name, value in found.items() if value is None} >= {"memory", "limit", "sent"}
    assert memory.tightest(tmp_path) is None


def device(**stats):
    return SimpleNamespace(
        platform="cuda", local_hardware_id=0, memory_stats=lambda: dict(stats) or None
    )


def taken(monkeypatch, devices=(), used=0, limit=16 * GIB, **more):
    """Return what a sampler sends of its first look, and the sampler."""
    monkeypatch.setattr(rendezvous, "devices_in_use", lambda: list(devices))
    usage = {"cpu": 1.0, "memory": used, "used": used, "limit": limit}
    monkeypatch.setattr(UsageReader, "read", lambda _: usage)
    channel = Channel()
    one = sampler.Sampler(channel, 1, contained=True)
    for name, value in more.items():
        setattr(one, name, value)
    return one, channel.sent


def test_a_device_without_statistics_is_left_out(monkeypatch):
    def broken():
        raise NotImplementedError("memory_stats")

    silent = SimpleNamespace(platform="cpu", memory_stats=broken)
    one, sent = taken(monkeypatch, [device(), silent])
    one._look()
    assert sent[0][1]["samples"][0]["devices"] == []


def test_a_device_is_told_with_what_the_driver_says(monkeypatch):
    stats = {"bytes_in_use": 5, "peak_bytes_in_use": 9, "bytes_limit": 10}
    gpus = SimpleNamespace(read=lambda numbers: [(0.5, 300.0) for _ in numbers])
    one, sent = taken(monkeypatch, [device(**stats)], _gpus=gpus)
    one._look()
    (found,) = sent[0][1]["samples"][0]["devices"]
    assert found == {"memory": 5, "peak": 9, "limit": 10, "use": 0.5, "power": 300.0}


def test_a_sampler_that_fails_says_so_once_and_harms_nobody(monkeypatch):
    looks = threading.Semaphore(0)
    one, sent = taken(monkeypatch, _pause=0.001)

    def broken():
        looks.release()
        raise RuntimeError("no such counter")

    monkeypatch.setattr(one, "_look", broken)
    one.start({})
    assert all(looks.acquire(timeout=10) for _ in range(3))
    problem = "RuntimeError: no such counter"
    assert sent == [("resources", {"samples": [], "problem": problem})]
    one._pause = 1e6  # the thread stays


def test_a_sampler_that_waits_for_ever_holds_up_nobody(monkeypatch):
    one, sent = taken(monkeypatch, _pause=0.001)
    monkeypatch.setattr(one, "_sample", threading.Event().wait)
    one.start({})
    time.sleep(0.05)
    begun = time.monotonic()
    one.flush()
    assert time.monotonic() - begun < 1
    assert sent == []


def driver(**calls):
    """Return a pynvml with these functions."""
    module = ModuleType("pynvml")
    module.nvmlInit = lambda: None
    module.nvmlDeviceGetHandleByIndex = lambda number: number
    module.nvmlDeviceGetHandleByUUID = lambda name: name
    module.nvmlDeviceGetUtilizationRates = lambda handle: SimpleNamespace(gpu=40)
    module.nvmlDeviceGetPowerUsage = lambda handle: 250_000
    for name, call in calls.items():
        setattr(module, name, call)
    return module


def heard(gpus, numbers, wanted):
    until = time.monotonic() + 5
    while (found := gpus.read(numbers)) != wanted and time.monotonic() < until:
        time.sleep(0.005)
    return found


def test_gpus_are_those_that_jax_sees(monkeypatch):
    seen = []
    powers = {3: 300_000, "GPU-ab": 100_000}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-ab")
    monkeypatch.setitem(
        sys.modules,
        "pynvml",
        driver(nvmlDeviceGetPowerUsage=lambda handle: seen.append(handle) or powers[handle]),
    )
    wanted = [(0.4, 100.0), (0.4, 300.0)]
    assert heard(nvml.Gpus(0.01), [1, 0], wanted) == wanted


def test_a_driver_that_hangs_or_refuses_says_nothing(monkeypatch):
    def refuses(_handle):
        raise RuntimeError("not supported")

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", driver(nvmlDeviceGetUtilizationRates=refuses))
    wanted = [(None, 250.0)]
    assert heard(nvml.Gpus(0.01), [0], wanted) == wanted
    answers = threading.Event()
    hangs = driver(nvmlDeviceGetPowerUsage=lambda _: answers.wait() and 1)
    monkeypatch.setitem(sys.modules, "pynvml", hangs)
    begun = time.monotonic()
    assert nvml.Gpus(0.01).read([0]) == [nvml.UNKNOWN]
    assert time.monotonic() - begun < 1
    answers.set()


def test_what_it_said_before_it_hung_counts_no_more(monkeypatch):
    gpus = nvml.Gpus(0.01)
    gpus._started, gpus._found, gpus._answered = True, {0: (1.0, 2.0)}, time.monotonic() - 1
    assert gpus.read([0]) == [nvml.UNKNOWN]


def test_arrays_are_named_where_memory_is_tight_and_not_at_each_sample(monkeypatch):
    held = np.ones(1000)
    looks = []
    monkeypatch.setattr(livearrays, "_live", lambda: looks.append(1) or [])
    one, sent = taken(monkeypatch, used=5 * GIB, _batch=100.0, _namespace={"held": held})
    one._look()
    assert "arrays" not in sent.pop()[1]["samples"][0]
    one, sent = taken(monkeypatch, used=15 * GIB, _batch=100.0, _namespace={"held": held})
    for _ in range(3):
        one._look()
    arrays = [said["samples"][0].get("arrays") for _, said in sent]
    assert arrays == [[{"name": "held", "type": "float64[1000]", "size": 8000}], None, None]
    assert len(looks) == 1


@pytest.fixture
def own(monkeypatch):
    """Leave out jax's arrays that other tests of this process have left behind."""
    monkeypatch.setattr(livearrays, "_live", list)


def test_names_lead_to_arrays_without_running_code_of_the_users(own):
    class Sly:
        def __getattr__(self, name):
            raise AssertionError("code of the user's")

    class Model:
        def __init__(self):
            self.weights = [np.ones(300)]

    params = {"w": np.ones(400)}
    names = {"params": params, "model": Model(), "sly": Sly(), "_": np.ones(999), "again": params}
    found = livearrays.largest(names)
    assert [one["name"] for one in found] == ["params['w']", "model.weights[0]"]


def test_variables_of_functions_count_and_small_arrays_do_not(own):
    names: dict = {"big": [np.ones(100_000), np.ones(3)]}
    exec("def train(look):\n    batch = {'x': make()}\n    return look()\n", names)
    names["make"] = lambda: np.ones(200_000)

    def look():
        return livearrays.largest(names, livearrays.frames_of(threading.get_ident()))

    assert [one["name"] for one in names["train"](look)] == ["batch['x'] in train()", "big[0]"]


def test_arrays_of_a_list_count_as_one(own):
    names = {"kept": [np.ones(100) for _ in range(50)], "one": [np.ones(1000)]}
    found = [(one["name"], one["type"], one["size"]) for one in livearrays.largest(names)]
    assert found == [
        ("kept[…]", "50 × float64[100]", 40_000),
        ("one[0]", "float64[1000]", 8000),
    ]


def test_it_starts_no_backend_of_jax():
    code = (
        "import jax\n"
        "from jupyter_jax_trainer.worker import livearrays, rendezvous\n"
        "assert rendezvous.devices_in_use() == []\n"
        "assert livearrays.largest({}) == []\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge._backends\n"
        "x = jax.numpy.ones(8)\n"
        "assert [d.platform for d in rendezvous.devices_in_use()] == ['cpu']\n"
        "assert livearrays.largest({'x': x})[0]['name'] == 'x'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_error_of_memory_takes_the_arrays_along(monkeypatch, own):
    one, sent = taken(monkeypatch, _batch=100.0, _namespace={"held": np.ones(10)})
    one.look_at(ValueError("something else"))
    assert sent == []
    one.look_at(MemoryError())
    one.look_at(RuntimeError("RESOURCE_EXHAUSTED: out of memory"))
    assert [said["samples"][0]["arrays"][0]["name"] for _, said in sent] == ["held", "held"]


def test_many_ranks_sample_more_rarely():
    assert sampler.Sampler(Channel(), 256, contained=True)._pause == 8.0
