"""What a page shows of Kueue's queues: how full they are, and which priorities there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, cluster_path
from jupyter_jax_trainer.backends.kubernetes.submit.queues import Kueue, find, listed
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.amounts import quantity

_MOST = 50  # queues that are described


def describe(client: Client) -> dict[str, Any] | None:
    """Describe the queues of a namespace for people to choose from; None where there is no Kueue.

    Returns
    -------
    dict
        ``version``; ``keeps_patches``; ``queues``: name, ``problem`` (why it takes no jobs, or
        None), ``waiting`` and ``admitted`` jobs, and ``free``, a list of flavor, resource and what
        is left of how much of the queue's own quota, or None where that may not be read;
        ``priorities``: name, value and description.

    Raises
    ------
    ApiError, Unreachable
        The cluster doesn't tell.
    """
    kueue = find(client)
    if kueue is None:
        return None
    queues = listed(client, kueue.of_namespace(client, "localqueues"))[:_MOST]
    behind = {str((item.get("spec") or {}).get("clusterQueue")) for item in queues}
    quotas = {name: _free(client, kueue, name) for name in sorted(behind)}
    classes = listed(client, cluster_path(kueue.base, "workloadpriorityclasses"))
    return {
        "version": kueue.version,
        "keeps_patches": kueue.keeps_patches,
        "queues": [
            _queue(item, quotas[str((item.get("spec") or {}).get("clusterQueue"))])
            for item in queues
        ],
        "priorities": [
            {
                "name": item["metadata"]["name"],
                "value": item.get("value"),
                "description": item.get("description") or None,
            }
            for item in sorted(classes, key=lambda one: -int(one.get("value") or 0))
        ],
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
        found = client.request("GET", kueue.of_namespace(client, "localqueues", queue))
    except ApiError as error:
        if error.status in (403, 404):
            return None
        raise
    behind = _cluster_queue(client, kueue, str((found.get("spec") or {}).get("clusterQueue")))
    if behind is not None:
        return _bounds(behind.get("spec") or {})
    # Of the ClusterQueue users often have no right; Kueue writes what it has here, used or not.
    flavors = (found.get("status") or {}).get("flavorsReservation") or []
    names = {str(one.get("name")) for flavor in flavors for one in flavor.get("resources") or []}
    return dict.fromkeys(names) or None


def _bounds(spec: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the most of each resource that one flavor has, with what it may borrow."""
    shares = bool(spec.get("cohortName") or spec.get("cohort"))  # as Kueue 0.15 and older call it
    bounds: dict[str, int | None] = {}
    for _, resource in _quotas(spec):
        name, borrowed = str(resource.get("name")), resource.get("borrowingLimit")
        if (shares and borrowed is None) or bounds.get(name, 0) is None:
            bounds[name] = None
            continue
        amounts = [resource.get("nominalQuota"), borrowed if shares else None]
        total = sum(int(quantity(str(amount)) or 0) for amount in amounts if amount is not None)
        bounds[name] = max(bounds.get(name) or 0, total)
    return bounds


def _queue(item: Mapping[str, Any], free: list[dict[str, str]] | None) -> dict[str, Any]:
    status = item.get("status") or {}
    broken = [
        str(found.get("message") or say.INACTIVE_QUEUE())
        for found in status.get("conditions") or []
        if found.get("type") == "Active" and found.get("status") != "True"
    ]
    return {
        "name": item["metadata"]["name"],
        "problem": broken[0] if broken else None,
        "waiting": int(status.get("pendingWorkloads") or 0),
        "admitted": int(status.get("admittedWorkloads") or 0),
        "free": free,
    }


def _cluster_queue(client: Client, kueue: Kueue, name: str) -> dict[str, Any] | None:
    """Read a ClusterQueue; None where that is not allowed, or there is none."""
    try:
        return client.request("GET", cluster_path(kueue.base, "clusterqueues", name))
    except ApiError as error:
        if error.status in (403, 404):
            return None
        raise


def _quotas(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the quotas of a ClusterQueue, each with its flavor."""
    for group in spec.get("resourceGroups") or []:
        for flavor in group.get("flavors") or []:
            for resource in flavor.get("resources") or []:
                yield str(flavor.get("name")), resource


def _free(client: Client, kueue: Kueue, name: str) -> list[dict[str, str]] | None:
    """Return what is left of a ClusterQueue's own quota; None where it can't be read."""
    found = _cluster_queue(client, kueue, name)
    if found is None:
        return None
    flavors = (found.get("status") or {}).get("flavorsReservation")
    taken = {
        (flavor.get("name"), resource.get("name")): quantity(str(resource.get("total") or "0"))
        for flavor in flavors or []
        for resource in flavor.get("resources") or []
    }
    rows = []
    for flavor, resource in _quotas(found.get("spec") or {}):
        total = str(resource.get("nominalQuota") or "0")
        used = taken.get((flavor, resource.get("name"))) or Decimal()
        left = (quantity(total) or Decimal()) - used
        rows.append(
            {
                "flavor": flavor,
                "resource": str(resource.get("name")),
                "total": total,
                "free": _written(max(left, Decimal()), total),
            }
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
