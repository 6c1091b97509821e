"""Choose the runtime of a job, and with it the kind of device where nobody asked for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jupyter_jax_trainer.backends.kubernetes import devices, initializers, quota, runtimes
from jupyter_jax_trainer.backends.kubernetes.client import Client
from jupyter_jax_trainer.backends.kubernetes.trainjob import PREFIX
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.spec import JobSpec


def runtime(client: Client, spec: JobSpec) -> tuple[dict[str, Any], str]:
    """Find the runtime that was asked for, or one for the device.

    Returns
    -------
    tuple
        The runtime, and what to say about the device where nobody asked for one.

    Raises
    ------
    UsageError
        There is none, or it is for another device.
    """
    wanted = devices.kind(spec)
    if spec.runtime:
        named = runtimes.get_runtime(client, spec.runtime)
        device = runtimes.device_of(named)
        if wanted not in (None, device) and _says_device(named):
            raise UsageError(
                f"The runtime {spec.runtime} has the device {device}, and {wanted} is asked for.",
                "Leave one of the two out.",
            )
        initializers.check(named, spec, lambda: runtimes.list_runtimes(client))
        return named, ""
    known = runtimes.list_runtimes(client)
    offered = [item for item in known if not runtimes.is_converted(item)]
    said = ""
    if wanted is None:
        wanted, said = _device(client, spec, offered)
    fitting = [item for item in offered if runtimes.device_of(item) == wanted]
    if fitting:
        chosen = _best(fitting, spec)
        initializers.check(chosen, spec, lambda: known)
        return chosen, said
    names = ", ".join(item["metadata"]["name"] for item in known)
    raise UsageError(
        f"Namespace {client.namespace} has no JAX runtime for {wanted}"
        + (f"; there are {names}." if names else "."),
        f"Name one with --runtime, or have ours installed: {runtimes.INSTALL} --device {wanted}",
    )


def _device(client: Client, spec: JobSpec, offered: list[dict[str, Any]]) -> tuple[str, str]:
    """Choose a device where nobody asked for one, GPUs if there are enough; and say why."""
    with_gpus = [item for item in offered if runtimes.device_of(item) == "gpu"]
    if not with_gpus or not (nodes := devices.list_nodes(client)):
        return "cpu", ""
    best = _best(with_gpus, spec)
    own = runtimes.container(best).get("resources") or {}
    asked = devices.resource("gpu", own) or ""
    brought = devices.brought("gpu", own, runtimes.node_labels(best))
    each = spec.devices_per_node or brought or 1
    if not (there := devices.total(nodes, asked)):
        return "cpu", ""
    suiting = {runtimes.device_of(item) for item in offered if initializers.suits(item, spec)}
    if "cpu" in suiting and "gpu" not in suiting:
        return "cpu", ", on CPU: no runtime for GPUs has just the initializers for this job"
    covered = quota.covered(client, spec.queue) if spec.queue else None
    if covered is not None and asked not in covered:
        return "cpu", f", on CPU: the queue {spec.queue} has no GPUs"
    if devices.enough(nodes, asked, spec.nodes, each):
        return "gpu", ", on GPU (--device cpu for the CPU)"
    return "cpu", (
        f", on CPU: {spec.nodes} × {each} GPUs would be needed, and the cluster has {there}"
    )


def _best(items: list[dict[str, Any]], spec: JobSpec) -> dict[str, Any]:
    """Choose among runtimes for one device."""
    return min(items, key=lambda item: (initializers.rank(item, spec), _rank(item)))


def _rank(item: Mapping[str, Any]) -> tuple[bool, bool, bool]:
    """Order runtimes: the deprecated last, ours first, since they run a cell once."""
    python = (item["metadata"].get("labels") or {}).get(f"{PREFIX}/python", runtimes.PYTHON)
    return runtimes.is_deprecated(item), not runtimes.runs_once(item), python != runtimes.PYTHON


def _says_device(item: Mapping[str, Any]) -> bool:
    """Tell whether a runtime says itself for which kind of device it is."""
    label = (item["metadata"].get("labels") or {}).get(f"{PREFIX}/device")
    return label in ("cpu", "gpu", "tpu") or runtimes.device_of(item) != "cpu"
