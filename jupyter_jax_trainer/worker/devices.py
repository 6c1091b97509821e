"""Whether JAX will find the kind of device that a job asked for.

Left to itself it goes on with the CPU where a driver or a plugin is missing, and a job trains there
for days while the devices of its nodes are idle. Whoever sets ``JAX_PLATFORMS`` has chosen.
"""

from __future__ import annotations

import ctypes
import os
import pkgutil
from importlib.metadata import entry_points
from importlib.util import find_spec

from jupyter_jax_trainer.worker.exceptions import WorkerError

_DRIVER = "libcuda.so.1"  # what JAX's plugin loads
_HINT = (
    "Choose a --runtime or an --image for {}, or --device cpu; --env JAX_PLATFORMS= lets JAX look."
)


def check(device: str | None) -> None:
    """Refuse to run where JAX would take the CPU instead; nothing of jax is used for that.

    Parameters
    ----------
    device
        What was asked for: ``cpu``, ``gpu``, ``tpu``; None where that is not known.

    Raises
    ------
    WorkerError
        There is no such device in this pod, or its Python has no plugin for it.
    """
    if "JAX_PLATFORMS" in os.environ:
        return
    if device == "tpu" and find_spec("libtpu") is None and "TPU_LIBRARY_PATH" not in os.environ:
        raise WorkerError(
            "The job asked for TPUs, and the image has no libtpu.", _HINT.format("TPUs")
        )
    if device != "gpu":
        return
    plugins = _plugins()
    if not plugins:
        raise WorkerError(
            "The job asked for GPUs, and JAX has no plugin for them in this image.",
            _HINT.format("GPUs"),
        )
    if not all("cuda" in name for name in plugins):
        return  # for other GPUs, whose drivers have other names
    try:
        ctypes.CDLL(_DRIVER)
    except OSError as error:
        raise WorkerError(
            f"The job asked for GPUs, and its pod has no driver for them: {error}.",
            "NVIDIA's container toolkit puts the node's into each pod with a GPU. Where that is in "
            "an unusual place, --env LD_LIBRARY_PATH=… names it.",
        ) from None


def _plugins() -> set[str]:
    """Give the names of JAX's plugins, which it looks for in two ways."""
    found = {entry.name for entry in entry_points(group="jax_plugins")}
    if package := find_spec("jax_plugins"):
        folders = package.submodule_search_locations
        found |= {module.name for module in pkgutil.iter_modules(folders)}
    return found
