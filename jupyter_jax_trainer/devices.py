"""The kinds of devices that jobs run on; a new kind starts here.

What Kubernetes calls a kind is in ``backends/kubernetes/submit/devices.py``, how a pod finds out
that JAX can use it in ``worker/pod/devices.py``. The worker's processes import this, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Device = Literal["cpu", "gpu", "tpu"]
DEVICES: tuple[Device, ...] = get_args(Device)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKind:
    """What is known of a kind of device, wherever a job runs.

    Attributes
    ----------
    label
        What one device is called.
    local
        Whether jobs on this machine can use it.
    packages
        Patterns of the distributions with which JAX uses it. They must fit its driver, so they
        are the image's and are never sent.
    variables
        How the names of the environment variables begin that configure it. They hold no secrets.
    """

    label: str
    local: bool
    packages: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


KINDS: dict[Device, DeviceKind] = {
    "cpu": DeviceKind(label="CPU", local=True),
    "gpu": DeviceKind(
        label="GPU",
        local=True,
        packages=(r"jax-(cuda|rocm|metal)[\w-]*", "nvidia-.*"),
        variables=("NCCL", "CUDA", "NVIDIA"),
    ),
    "tpu": DeviceKind(
        label="TPU",
        local=False,
        packages=(r"jax-tpu[\w-]*", "libtpu"),
        variables=("TPU", "LIBTPU"),
    ),
}
ACCELERATORS = tuple(kind.label for name, kind in KINDS.items() if name != "cpu")
