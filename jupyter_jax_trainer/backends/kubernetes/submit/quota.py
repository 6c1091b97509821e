"""What a page shows of Kueue's queues: how full they are, and which priorities there are."""

from __future__ import annotations

from decimal import Decimal

from jupyter_jax_trainer.backends.base import FreeQuota, Priority, Queue, Queues
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, cluster_path
from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    ClusterQueue,
    LocalQueue,
    PriorityClass,
)
from jupyter_jax_trainer.backends.kubernetes.submit.queues import Kueue, find, listed
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.amounts import quantity

_MOST = 50  # queues that are described


def describe(client: Client) -> Queues | None:
    """Describe the queues of a namespace for people to choose from; None where there is no Kueue.

    Raises
    ------
    ApiError, Unreachable
        The cluster doesn't tell.
    """
    kueue = find(client)
    if kueue is None:
        return None
    found = listed(client, kueue.of_namespace(client, "localqueues"))[:_MOST]
    queues = [LocalQueue(one.json) for one in found]
    behind = sorted({queue.cluster_queue for queue in queues})
    quotas = {name: _free(client, kueue, name) for name in behind}
    found = listed(client, cluster_path(kueue.base, "workloadpriorityclasses"))
    classes = sorted((PriorityClass(one.json) for one in found), key=lambda one: -(one.value or 0))
    return {
        "version": kueue.version,
        "keeps_patches": kueue.keeps_patches,
        "queues": [_queue(queue, quotas[queue.cluster_queue]) for queue in queues],
        "priorities": [_priority(one) for one in classes],
    }


def most(client: Client, queue: str) -> dict[str, int | None] | None:
    """Return how much of each resource a queue's jobs can have at most; None where nobody tells.

    Returns
    -------
    dict
        By resource, in its whole units; None for what has no bound that may be read.
    """
    kueue = find(client)
    if kueue is None:
        return None
    try:
        found = LocalQueue(client.request("GET", kueue.of_namespace(client, "localqueues", queue)))
    except ApiError as error:
        if error.status in (403, 404):
            return None
        raise
    behind = _cluster_queue(client, kueue, found.cluster_queue)
    if behind is not None:
        return _bounds(behind)
    # Of the ClusterQueue users often have no right; Kueue writes what it has here, used or not.
    names = {resource.name for flavor in found.reserved for resource in flavor.resources}
    return dict.fromkeys(names) or None


def _bounds(queue: ClusterQueue) -> dict[str, int | None]:
    """Return the most of each resource that one flavor has, with what it may borrow."""
    shares = bool(queue.cohort)
    bounds: dict[str, int | None] = {}
    for resource in (resource for flavor in queue.flavors for resource in flavor.resources):
        name, borrowed = resource.name, resource.borrowing_limit
        if (shares and borrowed is None) or bounds.get(name, 0) is None:
            bounds[name] = None
            continue
        amounts = [resource.nominal, borrowed if shares else None]
        total = sum(int(quantity(amount) or 0) for amount in amounts if amount is not None)
        bounds[name] = max(bounds.get(name) or 0, total)
    return bounds


def _queue(queue: LocalQueue, free: list[FreeQuota] | None) -> Queue:
    active = queue.any_condition("Active")
    broken = active.status not in ("", "True")
    return {
        "name": queue.name,
        "problem": str(active.message or say.INACTIVE_QUEUE()) if broken else None,
        "waiting": queue.pending,
        "admitted": queue.admitted,
        "free": free,
    }


def _priority(one: PriorityClass) -> Priority:
    return {"name": one.name, "value": one.value, "description": one.description or None}


def _cluster_queue(client: Client, kueue: Kueue, name: str) -> ClusterQueue | None:
    """Read a ClusterQueue; None where that is not allowed, or there is none."""
    if not name:
        return None
    try:
        return ClusterQueue(client.request("GET", cluster_path(kueue.base, "clusterqueues", name)))
    except ApiError as error:
        if error.status in (403, 404):
            return None
        raise


def _free(client: Client, kueue: Kueue, name: str) -> list[FreeQuota] | None:
    """Return what is left of a ClusterQueue's own quota; None where it can't be read."""
    found = _cluster_queue(client, kueue, name)
    if found is None:
        return None
    taken = {
        (flavor.name, resource.name): quantity(resource.total)
        for flavor in found.reserved
        for resource in flavor.resources
    }
    rows: list[FreeQuota] = []
    for flavor in found.flavors:
        for resource in flavor.resources:
            total = resource.nominal
            used = taken.get((flavor.name, resource.name)) or Decimal()
            left = (quantity(total) or Decimal()) - used
            free = _written(max(left, Decimal()), total)
            rows.append(
                {"flavor": flavor.name, "resource": resource.name, "total": total, "free": free}
            )
    return rows


def _written(amount: Decimal, like: str) -> str:
    """Write a quantity with the unit of another one where that is exact."""
    unit = like.lstrip("+.0123456789")
    if amount and unit:
        size = quantity(f"1{unit}")
        if size and amount % size == 0:
            return f"{int(amount / size)}{unit}"
    if amount == amount.to_integral_value():
        return str(int(amount))
    return f"{int(amount * 1000)}m"
