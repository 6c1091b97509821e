"""What jobs can run on here: the CPU always, and the GPUs where there are any."""

from __future__ import annotations

import functools
import os
import platform
import re
from pathlib import Path

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import local as say
from jupyter_jax_trainer.options.checks import did_you_mean, shown
from jupyter_jax_trainer.options.table import MAX_NODES
from jupyter_jax_trainer.runtime import Runtime, installed

LOCAL_CPU = "local-cpu"
LOCAL_GPU = "local-gpu"
_PROC_GPUS = Path("/proc/driver/nvidia/gpus")
_PLUGINS = ("jax-cuda13-plugin", "jax-cuda12-plugin", "jax-rocm60-plugin", "jax-rocm7-plugin")


def local_runtimes() -> list[Runtime]:
    """List the runtimes of this machine."""
    python, jax = platform.python_version(), installed("jax")
    missing = None if jax else say.NO_JAX()
    found = [
        Runtime(
            name=LOCAL_CPU,
            backend="local",
            device="cpu",
            nodes=(1, MAX_NODES),
            description=say.CPU_RUNTIME(),
            python=python,
            jax=jax,
            problem=missing,
        )
    ]
    if gpus := local_gpus():
        found.append(
            Runtime(
                name=LOCAL_GPU,
                backend="local",
                device="gpu",
                nodes=(1, len(gpus)),
                description=say.GPU_RUNTIME(),
                python=python,
                jax=jax,
                devices=len(gpus),
                problem=missing or (None if gpu_plugin() else say.NO_GPU_PLUGIN()),
            )
        )
    return found


def get_runtime(name: str) -> Runtime:
    """Find a runtime of this machine by its name.

    Raises
    ------
    UsageError
        There is none of that name; the nearest one is named.
    """
    known = local_runtimes()
    for runtime in known:
        if runtime.name == name:
            return runtime
    names = [runtime.name for runtime in known]
    raise UsageError(say.UNKNOWN_RUNTIME(name=shown(name)), did_you_mean(name, names))


def gpu_plugin() -> str | None:
    """Return the version of the plugin with which jax uses GPUs, or None."""
    return next((version for name in _PLUGINS if (version := installed(name))), None)


def usable_gpus() -> list[str]:
    """List the GPUs that jax can use here: none where it has no plugin for them."""
    return local_gpus() if gpu_plugin() else []


def local_gpus() -> list[str]:
    """List this machine's GPUs, each as ``CUDA_VISIBLE_DEVICES`` of one worker would name it.

    A ``CUDA_VISIBLE_DEVICES`` of our own bounds the list, as it bounds CUDA.
    """
    present = _hardware(os.environ.get("PATH", ""))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [names[0] for names in present]
    chosen: list[str] = []
    for entry in (word.strip() for word in visible.split(",")):
        if entry.isdecimal():
            known = int(entry) < len(present)
        else:
            known = bool(entry) and any(n.startswith(entry) for names in present for n in names)
        if not known or entry in chosen:
            break  # CUDA ignores what comes after an entry that it does not know
        chosen.append(entry)
    return chosen


@functools.cache
def _hardware(path: str) -> tuple[tuple[str, ...], ...]:
    """Return the names of every GPU, the one to use first. ``path`` keys the cache."""
    import subprocess

    try:
        listing = subprocess.run(
            ["nvidia-smi", "-L"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeouts.GPU.seconds,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        # Containers often have the driver without its tools.
        count = len(list(_PROC_GPUS.iterdir())) if _PROC_GPUS.is_dir() else 0
        return tuple((str(index),) for index in range(count))
    return _read_listing(listing)


def _read_listing(listing: str) -> tuple[tuple[str, ...], ...]:
    found: list[tuple[str, ...]] = []
    in_parts = False  # a GPU that is cut into MIG devices can be used in parts only
    for line in listing.splitlines():
        uuid = re.search(r"UUID: ([A-Za-z]+-[A-Za-z0-9/-]+)", line)
        if gpu := re.match(r"GPU (\d+):", line):
            found.append((gpu[1], uuid[1]) if uuid else (gpu[1],))
            in_parts = False
        elif re.match(r"\s+MIG ", line) and uuid:
            if not in_parts and found:
                found.pop()
            in_parts = True
            found.append((uuid[1],))
    return tuple(found)
