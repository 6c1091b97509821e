"""Who a process is on a TPU slice.

Trainer gives each pod its number in the job (``JAX_PROCESS_ID``), and GKE its place in the slice
(``TPU_WORKER_ID``, by which libtpu knows its neighbours). Both take it from the pod's index in the
Job, so they are the same, and Trainer's is the one that counts. If they ever differ, collectives
would hang or mix up arrays: so that is checked before jax is used.
"""

from __future__ import annotations

import os

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.exceptions import WorkerError


def check(rank: int, nodes: int) -> None:
    """Refuse to run where the slice is not the job.

    Raises
    ------
    WorkerError
        The slice has other hosts than the job has ranks, or in another order.
    """
    hosts = [name for name in os.environ.get("TPU_WORKER_HOSTNAMES", "").split(",") if name]
    if len(hosts) < 2:
        return  # no TPU, or a slice of this one machine: there is no order
    if len(hosts) != nodes:
        raise WorkerError(say.SLICE_SIZE(hosts=len(hosts), nodes=nodes))
    place = os.environ.get("TPU_WORKER_ID", "")
    if place.isdecimal() and int(place) != rank:
        raise WorkerError(say.SLICE_ORDER(rank=rank, host=place))
