"""Choose the runtime of a job, and with it the kind of device where nobody asked for one."""

from __future__ import annotations

from collections.abc import Mapping

from jupyter_jax_trainer.backends.kubernetes.api.client import Client
from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.submit import devices, initializers, quota, runtimes
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import PREFIX
from jupyter_jax_trainer.devices import DEVICES
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.spec import JobSpec


def runtime(client: Client, spec: JobSpec) -> tuple[TrainingRuntime, str]:
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
            raise UsageError(say.WRONG_DEVICE(runtime=spec.runtime, device=device, wanted=wanted))
        initializers.check(named, spec, lambda: runtimes.list_runtimes(client))
        return named, ""
    known = runtimes.list_runtimes(client)
    offered = [item for item in known if not runtimes.is_converted(item)]
    said = ""
    if wanted is None:
        found, said = _unasked(client, spec, offered)
        if found:
            return found, said
        wanted = "cpu"
    fitting = [item for item in offered if runtimes.device_of(item) == wanted]
    if fitting:
        chosen = min(fitting, key=lambda item: _order(item, spec))
        initializers.check(chosen, spec, lambda: known)
        return chosen, said
    namespace, install = client.namespace, runtimes.INSTALL
    if not known:
        raise UsageError(say.NO_RUNTIME(namespace=namespace, device=wanted, install=install))
    names = ", ".join(item.name for item in known)
    raise UsageError(
        say.NO_RUNTIME_AMONG(namespace=namespace, device=wanted, names=names, install=install)
    )


def _unasked(
    client: Client, spec: JobSpec, offered: list[TrainingRuntime]
) -> tuple[TrainingRuntime | None, str]:
    """Choose a runtime for GPUs where nobody asked for a device; None where one for CPUs is meant.

    Returns
    -------
    tuple
        The runtime, and why that device.
    """
    with_gpus = [item for item in offered if runtimes.device_of(item) == "gpu"]
    if not with_gpus or not (nodes := devices.list_nodes(client)):
        return None, ""
    most = quota.most(client, spec.queue) if spec.queue else None
    reasons = []
    best = min(_order(item, spec) for item in with_gpus)
    # Not one for another Python, say: then the CPU is better.
    for item in (item for item in with_gpus if _order(item, spec) == best):
        why_not = _lacks(item, spec, nodes, most)
        if why_not is None:
            return item, say.ON_GPU()
        reasons.append(why_not)
    return None, next((say.ON_CPU(reason=reason) for reason in reasons if reason), "")


def _lacks(
    item: TrainingRuntime,
    spec: JobSpec,
    nodes: list[devices.Node],
    most: Mapping[str, int | None] | None,
) -> str | None:
    """Return why a runtime for GPUs won't do unasked; None where it will, empty without any."""
    own = item.container.resources
    labels = runtimes.node_labels(item)
    asked = devices.resource("gpu", own) or ""
    each = spec.devices_per_node or devices.brought("gpu", own, labels) or 1
    fitting = [node for node in nodes if node.has(labels)]
    if not (there := devices.total(fitting, asked)):
        return ""
    if not initializers.suits(item, spec):
        return say.NO_SUCH_INITIALIZERS()
    if most is not None:
        quota_of = most.get(asked, 0)
        if quota_of == 0:
            return say.QUEUE_WITHOUT_GPUS(queue=spec.queue)
        if quota_of is not None and quota_of < spec.nodes * each:
            return say.QUEUE_TOO_SMALL(
                nodes=spec.nodes, each=each, queue=spec.queue, count=quota_of
            )
    if not devices.enough(fitting, asked, spec.nodes, each):
        return say.CLUSTER_TOO_SMALL(nodes=spec.nodes, each=each, count=there)
    return None


def _order(item: TrainingRuntime, spec: JobSpec) -> tuple[bool, ...]:
    """Order runtimes for a device: the deprecated last, ours first, since they run a cell once."""
    python = item.labels.get(f"{PREFIX}/python", runtimes.PYTHON)
    return (
        *initializers.rank(item, spec),
        runtimes.is_deprecated(item),
        not runtimes.runs_once(item),
        python != runtimes.PYTHON,
        runtimes.is_slim(item),
    )


def _says_device(item: TrainingRuntime) -> bool:
    """Return whether a runtime says itself for which kind of device it is."""
    label = item.labels.get(f"{PREFIX}/device")
    return label in DEVICES or runtimes.device_of(item) != "cpu"
