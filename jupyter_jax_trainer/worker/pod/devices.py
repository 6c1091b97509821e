"""Whether JAX will find the kind of device that a job asked for.

Without a driver or plugin JAX falls back to the CPU, and a job trains there for days while its
nodes' devices are idle. Whoever sets ``JAX_PLATFORMS`` has chosen. JAX itself is not asked: what a
cell sets before the first use would then come too late.
"""

from __future__ import annotations

import ctypes
import os
import pkgutil
from collections.abc import Callable
from importlib.metadata import entry_points
from importlib.util import find_spec

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.exceptions import WorkerError

_DRIVER = "libcuda.so.1"  # what JAX's plugin loads
_CHOSEN = {"JAX_PLATFORMS", "PJRT_NAMES_AND_LIBRARY_PATHS"}  # the second brings plugins as well


def check(device: str | None) -> None:
    """Refuse to run where JAX would take the CPU instead; nothing of jax is used for that.

    Parameters
    ----------
    device
        The kind that was asked for; None where that is not known.

    Raises
    ------
    WorkerError
        The pod has no driver for such a device, or its Python no plugin.
    """
    one = CHECKS.get(device or "")
    if one and not os.environ.keys() & _CHOSEN:
        one()


def _check_tpu() -> None:
    # JAX looks for Google's library in the same places.
    path = os.environ.get("TPU_LIBRARY_PATH", "")
    if not os.path.isfile(path) and find_spec("libtpu") is None:
        raise WorkerError(say.NO_LIBTPU())


def _check_gpu() -> None:
    plugins = _plugins()
    if not plugins:
        raise WorkerError(say.NO_GPU_PLUGIN())
    if not all("cuda" in name for name in plugins):
        return  # other makers' drivers have other names
    try:
        ctypes.CDLL(_DRIVER)
    except OSError as error:
        raise WorkerError(say.NO_GPU_DRIVER(error=error)) from None


def _plugins() -> set[str]:
    """Return the names of the plugins that are installed, in either way in which JAX finds them."""
    found = {entry.name for entry in entry_points(group="jax_plugins")}
    if package := find_spec("jax_plugins"):
        folders = package.submodule_search_locations or []
        found |= {module.name for module in pkgutil.iter_modules(folders)}
    return found


CHECKS: dict[str, Callable[[], None]] = {"gpu": _check_gpu, "tpu": _check_tpu}
