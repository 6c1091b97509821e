"""Which nodes a job's devices are on: from ``--accelerator`` and ``--topology`` to node labels.

What all devices of a kind share, the tolerations of their taints, is in our runtimes: jobs need
patches only for a type, a topology, or another runtime.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client
from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    ApiObject,
    Resources,
    mappings,
    texts,
)
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options import topology
from jupyter_jax_trainer.options.amounts import quantity
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.text import joined

TOPOLOGY = "cloud.google.com/gke-tpu-topology"
_TPU = "cloud.google.com/gke-tpu-accelerator"
_GPU_FOUND = "nvidia.com/gpu.product"  # set by NVIDIA's GPU feature discovery
_SIDES = {
    "tpu-v4-podslice": 3,
    "tpu-v5p-slice": 3,
    "tpu7x": 3,
    "tpu-v5-lite-podslice": 2,
    "tpu-v6e-slice": 2,
}


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """What Kubernetes calls a kind of device.

    Attributes
    ----------
    resource
        The usual name of the resource.
    others
        A pattern of its other names: of shares and slices, and by other makers.
    labels
        The labels that tell the type of a node's devices; the cloud provider's comes first.
    types
        What people call the types → the values of the first label.
    """

    resource: str
    others: str = ""
    labels: tuple[str, ...]
    types: Mapping[str, str]

    def is_meant(self, label: str, word: str) -> bool:
        """Return whether a type is one of this kind, by its label or by what people call it."""
        return label in self.labels or word in self.types

    def is_called(self, resource: str) -> bool:
        """Return whether a resource is this kind of device."""
        return resource == self.resource or re.fullmatch(self.others, resource) is not None


# The first kind that claims a word has it. GPUs come last: nobody knows all their names.
_KINDS: dict[str, _Kind] = {
    "tpu": _Kind(
        resource="google.com/tpu",
        labels=(_TPU,),
        types={
            "v4": "tpu-v4-podslice",
            "v5e": "tpu-v5-lite-podslice",
            "v5p": "tpu-v5p-slice",
            "v6e": "tpu-v6e-slice",
            "v7": "tpu7x",
            "tpu7x": "tpu7x",
        },
    ),
    "gpu": _Kind(
        resource="nvidia.com/gpu",
        # Amounts of memory, cores and the like are no devices.
        others=r"(?!.*(?:mem|core|percent|monitor))(?:.*gpu.*|nvidia\.com/mig-.*)",
        labels=("cloud.google.com/gke-accelerator", _GPU_FOUND),
        types={
            "t4": "nvidia-tesla-t4",
            "v100": "nvidia-tesla-v100",
            "l4": "nvidia-l4",
            "a100": "nvidia-tesla-a100",
            "a100-80gb": "nvidia-a100-80gb",
            "h100": "nvidia-h100-80gb",
            "h100-mega": "nvidia-h100-mega-80gb",
            "h200": "nvidia-h200-141gb",
            "b200": "nvidia-b200",
            "gb200": "nvidia-gb200",
        },
    ),
}
RESOURCES = {device: kind.resource for device, kind in _KINDS.items()}


@dataclass(frozen=True)
class Node:
    """A node of the cluster: its labels, and how much of each resource pods can have there."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, str]

    def amount(self, resource: str) -> int:
        """Return how many of a resource pods can have."""
        return int(quantity(self.allocatable.get(resource, "0")) or 0)

    def has(self, labels: Mapping[str, str]) -> bool:
        """Return whether it has all of these labels."""
        return all(self.labels.get(name) == value for name, value in labels.items())


@dataclass(frozen=True)
class Placement:
    """What a job asks for.

    Attributes
    ----------
    per_node
        Devices of each node.
    selector
        The labels that nodes have to have, beside those in the runtime.
    notes
        What to say about it before the job is submitted.
    """

    per_node: int
    selector: dict[str, str]
    notes: tuple[str, ...] = ()


def list_nodes(client: Client) -> list[Node] | None:
    """List the nodes of the cluster that take pods; None where the user may not."""
    try:
        found = client.request("GET", "/api/v1/nodes")
    except ApiError as error:
        if error.status != 403:
            raise
        return None
    nodes = [ApiObject(one) for one in mappings(found.get("items"))]
    return [
        Node(node.name, node.labels, texts(node.status.json.get("allocatable")))
        for node in nodes
        if _takes_pods(node)
    ]


def _takes_pods(node: ApiObject) -> bool:
    """Return whether a node is neither cordoned nor lost."""
    ready = node.any_condition("Ready").status or "True"
    return ready == "True" and not node.spec.json.get("unschedulable")


def kind(spec: JobSpec) -> str | None:
    """Return the kind of device that a job asks for, in whatever words; None where it doesn't."""
    if spec.device or not (spec.topology or spec.accelerator):
        return spec.device
    label, _, word = str(spec.accelerator).lower().rpartition("=")
    if spec.topology:
        return "tpu"
    meant = (
        device
        for device, kind in _KINDS.items()
        if kind.is_meant(label, word) or word.startswith(device)
    )
    return next(meant, "gpu")


def kind_of(resource: str) -> str | None:
    """Return the kind of device that a resource is; None for cores, memory and others."""
    return next((device for device, kind in _KINDS.items() if kind.is_called(resource)), None)


def resource(device: str, resources: Resources) -> str | None:
    """Return the name under which a job asks for its devices; None where there is none to ask for.

    Parameters
    ----------
    device
        Their kind.
    resources
        What the runtime's container asks for: what that names comes before the usual name.
    """
    usual = RESOURCES.get(device)
    own = resources.asked
    if usual is None or usual in own:
        return usual
    return next((name for name in sorted(own) if kind_of(name) == device), usual)


def taint(device: str, resources: Resources) -> str | None:
    """Return the taint by which nodes are kept free for such devices; None for the CPU.

    Parameters
    ----------
    device, resources
        As of `resource`.
    """
    name, usual = resource(device, resources), RESOURCES.get(device)
    if name is None or usual is None:
        return None
    # Nodes with a maker's shares and slices have the taint of those with its whole devices.
    return usual if name.partition("/")[0] == usual.partition("/")[0] else name


def brought(device: str, resources: Resources, own: Mapping[str, str]) -> int | None:
    """Return the devices that each node of a runtime has by itself; None where it does not say.

    Parameters
    ----------
    device
        Its kind of device.
    resources, own
        What its container asks for, and the labels of nodes that its pods ask for.
    """
    if device == "tpu" and TOPOLOGY in own:
        with contextlib.suppress(UsageError, ValueError):  # no such shape, or no shape at all
            return topology.fit(own[TOPOLOGY], None, None)[1]
    name = resource(device, resources)
    amount = quantity(resources.limits.get(name, "")) if name else None
    return int(amount) if amount else None


def total(nodes: Iterable[Node], asked: str) -> int:
    """Count the devices of the cluster, by the name of their resource."""
    return sum(node.amount(asked) for node in nodes)


def enough(nodes: Iterable[Node], asked: str, count: int, each: int) -> bool:
    """Return whether so many pods fit onto the cluster's devices, when nobody else uses them."""
    return sum(node.amount(asked) // each for node in nodes) >= count


def place(
    spec: JobSpec,
    device: str,
    resources: Resources,
    own: Mapping[str, str],
    nodes: Sequence[Node] | None,
) -> Placement:
    """Return what a job asks for, and check that against the nodes.

    Parameters
    ----------
    device
        Its kind of device.
    resources, own
        What the runtime's container asks for, and the labels of nodes that its pods ask for.
    nodes
        The cluster's; None where they may not be listed.

    Raises
    ------
    UsageError
        The words contradict each other.
    """
    asked = resource(device, resources)
    if asked is None:
        return Placement(spec.devices_per_node or 1, {})
    per_node = spec.devices_per_node or brought(device, resources, own) or 1
    selector: dict[str, str] = {}
    notes: list[str] = []
    if spec.accelerator:
        name, value = _label(spec.accelerator, device, nodes)
        selector[name] = value
        if nodes is None and "=" not in spec.accelerator:
            notes.append(say.LABEL_GUESSED(accelerator=spec.accelerator, label=name, value=value))
        if nodes and name == _GPU_FOUND and not any(node.has(selector) for node in nodes):
            notes.append(say.UNKNOWN_PRODUCT(label=name, value=value))
    if shape := spec.topology or (own.get(TOPOLOGY) if device == "tpu" else None):
        given = spec.nodes if spec.topology is None or "nodes" in spec.explicit else None
        _, per_node = topology.fit(shape, given, spec.devices_per_node)
        if spec.topology:
            selector[TOPOLOGY] = shape
        sides, type_of = shape.count("x") + 1, {**own, **selector}.get(_TPU, "")
        if _SIDES.get(type_of, sides) != sides:
            raise UsageError(
                say.WRONG_DIMENSIONS(
                    topology=shape,
                    dimensions=sides,
                    accelerator=type_of,
                    expected=_SIDES[type_of],
                )
            )
    if nodes is not None:
        notes += _check(spec.nodes, per_node, asked, {**own, **selector}, nodes)
    return Placement(per_node, selector, tuple(notes))


def _label(word: str, device: str, nodes: Sequence[Node] | None) -> tuple[str, str]:
    """Find the label that a word for a type means; what the nodes carry comes first."""
    name, equals, value = word.rpartition("=")
    if equals:
        return name, value
    lower = word.lower()
    labels = _KINDS[device].labels
    usual = _KINDS[device].types.get(lower, word)
    carried = sorted(
        {
            (label, node.labels[label])
            for node in nodes or ()
            for label in labels
            if label in node.labels
        }
    )
    for fits in (
        lambda text: text.lower() == lower,
        lambda text: text == usual,
        lambda text: _parts(lower) <= _parts(text),
    ):
        if found := [(label, text) for label, text in carried if fits(text)]:
            break
    # Google's nodes with NVIDIA's feature discovery have both labels, with the same meaning.
    for label in labels:
        values = [text for name, text in found if name == label]
        if len(values) > 1:
            raise UsageError(say.AMBIGUOUS_ACCELERATOR(accelerator=word, values=", ".join(values)))
    if found:
        return found[0]
    # Nodes of that type may be added: they will have the label that the others have.
    label = carried[0][0] if carried else labels[0]
    return label, usual if label == labels[0] else word


def _parts(text: str) -> set[str]:
    """Take a type's name apart: ``NVIDIA-A100-SXM4-80GB`` is meant by ``a100-80gb``, too."""
    return set(re.split("[-_ ]", text.lower()))


def _check(
    wanted: int, per_node: int, resource: str, selector: Mapping[str, str], nodes: Sequence[Node]
) -> list[str]:
    """Say what has to wait for nodes that are not there; only the user knows whether they will be.

    A label often covers machines of several sizes, so it does not rule out larger ones.
    """
    words = joined(f"{name}={value}" for name, value in selector.items())
    fitting = [node for node in nodes if node.has(selector)]
    amounts = [amount for node in fitting if (amount := node.amount(resource))]
    if not amounts:
        if not words:
            return [say.NO_NODE_WITH(resource=resource)]
        if fitting:
            return [say.NO_LABELLED_NODE_WITH(labels=words, resource=resource)]
        if others := _others(selector, nodes):
            return [say.NO_NODE_LABELLED_BUT(labels=words, others=others)]
        return [say.NO_NODE_LABELLED(labels=words)]
    if max(amounts) < per_node:
        known = {
            "each": per_node,
            "resource": resource,
            "count": len(amounts),
            "most": max(amounts),
        }
        if words:
            return [say.LABELLED_NODES_TOO_SMALL(labels=words, **known)]
        return [say.NODES_TOO_SMALL(**known)]
    room = sum(amount // per_node for amount in amounts)
    if room < wanted:
        return [say.TOO_FEW_NODES(nodes=wanted, each=per_node, resource=resource, room=room)]
    return []


def _others(selector: Mapping[str, str], nodes: Sequence[Node]) -> str:
    """Return which values of the same labels there are."""
    found = sorted(
        {
            f"{name}={node.labels[name]}"
            for node in nodes
            for name in selector
            if name in node.labels
        }
    )
    return ", ".join(found)
