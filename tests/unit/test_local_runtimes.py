from __future__ import annotations

import os
import platform
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.local import runtimes
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import local as say
from jupyter_jax_trainer.messages import options

TWO = """GPU 0: NVIDIA H200 (UUID: GPU-11111111-aaaa)
GPU 1: NVIDIA H200 (UUID: GPU-22222222-bbbb)
"""
MIG = """GPU 0: NVIDIA H200 (UUID: GPU-11111111-aaaa)
  MIG 3g.71gb     Device  0: (UUID: MIG-aaaa)
  MIG 3g.71gb     Device  1: (UUID: MIG-bbbb)
GPU 1: NVIDIA H200 (UUID: GPU-22222222-bbbb)
"""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: Any, tmp_path: Path) -> None:
    runtimes._hardware.cache_clear()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(runtimes, "_PROC_GPUS", tmp_path / "no-driver")


def smi(tmp_path: Path, monkeypatch: Any, script: str) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return program


def gpus(tmp_path: Path, monkeypatch: Any, listing: str) -> None:
    (tmp_path / "listing").write_text(listing)
    smi(tmp_path, monkeypatch, f'[ "$1" = -L ] && cat {tmp_path}/listing')


def test_the_cpu_is_always_there(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    (found,) = runtimes.local_runtimes()
    assert (found.name, found.device, found.backend) == ("local-cpu", "cpu", "local")
    assert found.nodes == (1, 4096)
    assert found.python == platform.python_version()
    assert found.jax == runtimes.installed("jax")


def test_gpus_are_counted(tmp_path, monkeypatch):
    gpus(tmp_path, monkeypatch, TWO)
    assert runtimes.local_gpus() == ["0", "1"]
    found = runtimes.get_runtime("local-gpu")
    assert (found.devices, found.nodes) == (2, (1, 2))


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("1", ["1"]),
        ("1,0", ["1", "0"]),
        ("", []),
        ("-1", []),
        ("0,7,1", ["0"]),
        ("GPU-2222", ["GPU-2222"]),
        ("GPU-nothere,0", []),
        ("0, 1", ["0", "1"]),
        ("0,0", ["0"]),
    ],
)
def test_cuda_visible_devices_bounds_them(tmp_path, monkeypatch, visible, expected):
    gpus(tmp_path, monkeypatch, TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert runtimes.local_gpus() == expected
    assert ("local-gpu" in [r.name for r in runtimes.local_runtimes()]) == bool(expected)


def test_a_gpu_in_parts_is_its_parts(tmp_path, monkeypatch):
    gpus(tmp_path, monkeypatch, MIG)
    assert runtimes.local_gpus() == ["MIG-aaaa", "MIG-bbbb", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-bbbb")
    assert runtimes.local_gpus() == ["MIG-bbbb"]


@pytest.mark.parametrize(
    "script", ["exit 9", "echo NVIDIA-SMI has failed; exit 0", "printf '\\377'"]
)
def test_a_driver_that_does_not_work_means_no_gpus(tmp_path, monkeypatch, script):
    smi(tmp_path, monkeypatch, script)
    assert runtimes.local_gpus() == []


def test_a_driver_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    smi(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setenv(timeouts.GPU.variable, "0.2")
    began = time.monotonic()
    assert runtimes.local_gpus() == []
    assert time.monotonic() - began < 10


def test_a_driver_without_its_tools(tmp_path, monkeypatch):
    driver = tmp_path / "gpus"
    (driver / "0000:01:00.0").mkdir(parents=True)
    monkeypatch.setattr(runtimes, "_PROC_GPUS", driver)
    monkeypatch.setenv("PATH", "/nowhere")
    assert runtimes.local_gpus() == ["0"]


def test_the_machine_is_asked_once(tmp_path, monkeypatch):
    program = smi(tmp_path, monkeypatch, f"echo asked >> {tmp_path}/count; cat {tmp_path}/listing")
    (tmp_path / "listing").write_text(TWO)
    assert program.exists()
    for _ in range(3):
        runtimes.local_gpus()
    assert (tmp_path / "count").read_text() == "asked\n"


def test_gpus_without_a_plugin_for_jax_are_not_usable(tmp_path, monkeypatch):
    gpus(tmp_path, monkeypatch, TWO)
    monkeypatch.setattr(runtimes, "_PLUGINS", ("no-such-plugin",))
    assert runtimes.usable_gpus() == []
    problem = runtimes.get_runtime("local-gpu").problem
    assert problem is not None and "jax[cuda" in problem
    monkeypatch.setattr(runtimes, "_PLUGINS", ("jax",))
    assert runtimes.usable_gpus() == ["0", "1"]
    assert runtimes.get_runtime("local-gpu").problem is None


def test_an_unknown_runtime_names_the_nearest_one(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError) as caught:
        runtimes.get_runtime("local-cpus")
    assert caught.value.message == say.UNKNOWN_RUNTIME(name="'local-cpus'")
    assert caught.value.hint == options.DID_YOU_MEAN(name="local-cpu")
