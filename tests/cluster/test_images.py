"""The worker images run a bundle, those for GPUs and TPUs on CPUs and with the runtime of these.

The images of the cluster itself, the standard and the slim one for CPUs, run all other tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.faults import require_own
from cluster.harness import layout
from cluster.jobs import PATIENCE, submit
from jupyter_jax_trainer.commands import Context, run_command
from jupyter_jax_trainer.messages import worker as say

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(3000)]

IMAGES = Path(__file__).parent / "harness" / "images.py"
STANDARD = ["flax", "grain", "pandas"]  # some of what the standard images have
KINDS = {
    "cpu": STANDARD,
    "cuda": [*STANDARD, "jax_plugins.xla_cuda13"],
    "tpu": [*STANDARD, "libtpu"],
}  # and what each has beside JAX
ALL = [("cpu", "3.13"), ("cuda", "3.11"), ("cuda", "3.13"), ("tpu", "3.11"), ("tpu", "3.13")]
OUT = "python,there,ranks,total,drivers,lacking"
CELL = """
import jax, optax, orbax.checkpoint, os, sys
import jax.numpy as jnp
from importlib.util import find_spec
from jupyter_jax_trainer.worker.pod import devices
python = f"{sys.version_info[0]}.{sys.version_info[1]}"
there = [name for name in wanted if find_spec(name)]
ranks, total = jax.process_count(), float(jnp.arange(scale).sum())
drivers = os.environ["LD_LIBRARY_PATH"]
del os.environ["JAX_PLATFORMS"]
def said(device):
    try:
        devices.check(device)
    except RuntimeError as error:
        return str(error)
lacking = [said(device) for device in ("gpu", "tpu")]
"""
PLUGIN = say.NO_GPU_PLUGIN()
DRIVER = say.NO_GPU_DRIVER(error="libcuda.so.1").removesuffix(".")
LIBTPU = say.NO_LIBTPU()
# What a job that asks for them is told on these images, where there are no such devices.
LACKING = {"cpu": (PLUGIN, LIBTPU), "cuda": (DRIVER, LIBTPU), "tpu": (PLUGIN, None)}


def images(*words: str) -> str:
    done = subprocess.run([sys.executable, IMAGES, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def room() -> int:
    """Return the bytes that the cluster's images take."""
    words = ["du", "--summarize", "--block-size=1", layout.STATE / "lib" / "containerd"]
    return int(subprocess.run(words, capture_output=True, text=True).stdout.split()[0])


@pytest.mark.release
def test_an_image_that_is_taken_out_gives_its_room_back(cluster):
    require_own(cluster)
    before = room()
    images("up", "cpu", "3.13")
    there = room()
    images("down", "cpu", "3.13")
    assert there - before > 1e9
    assert there - room() > 0.9 * (there - before)


@pytest.mark.release
@pytest.mark.parametrize(("kind", "python"), ALL)
def test_an_image_runs_a_bundle(kind, python, cluster, namespace, place):
    require_own(cluster)
    name = images("up", kind, python)
    install = ["install", "--namespace", namespace.name, "--device", "cpu", "--python", python]
    run_command(["runtimes", *install], Context(print=lambda text: None))
    runtime = "jax-cpu" if python == "3.11" else f"jax-cpu-py{python}"
    options = f"-n 2 -r {runtime} --image {name} --env JAX_PLATFORMS=cpu -o {OUT}"
    try:
        job = submit(CELL, place, options, {"scale": 10, "wanted": KINDS[kind]}).wait(3 * PATIENCE)
        found = job.result()
        gpu, tpu = found.pop("lacking")
        assert gpu.startswith(LACKING[kind][0]) and tpu == LACKING[kind][1]
        assert found == {
            "python": python,
            "there": KINDS[kind],
            "ranks": 2,
            "total": 45.0,
            "drivers": "/usr/local/nvidia/lib64",
        }  # where GKE has them
    finally:
        images("down", kind, python)


def test_the_cache_keeps_the_images_that_were_used_last(tmp_path):
    for age, name in enumerate(["last", "wanted", "older", "oldest"]):
        path = tmp_path / f"worker-cuda-{name}.tar"
        path.touch()
        os.utime(path, (1e9 - age, 1e9 - age))
    wanted = tmp_path / "worker-cuda-wanted.tar"
    new = tmp_path / "worker-cuda-new.tar"
    for made in (wanted, new):
        layout.forget_but(2, made, tmp_path.iterdir())
        made.touch()
    assert set(tmp_path.iterdir()) == {wanted, new}
