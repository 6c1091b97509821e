"""What of a namespace can stand in the way of jobs: meshes, PodSecurity, quotas, network policies.

What there is no permission to read is said, and is no error: no job needs these rights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client
from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    ApiObject,
    Limit,
    LimitRange,
    ResourceQuota,
    TrainingRuntime,
    mappings,
)
from jupyter_jax_trainer.backends.kubernetes.doctor import netpolicies
from jupyter_jax_trainer.backends.kubernetes.doctor.netpolicies import NetworkPolicy
from jupyter_jax_trainer.backends.kubernetes.submit import podsecurity, runtimes
from jupyter_jax_trainer.doctor.finding import OK, WARN, Finding
from jupyter_jax_trainer.messages import doctor as say
from jupyter_jax_trainer.options.amounts import quantity
from jupyter_jax_trainer.text import joined

_ISTIO = 'sidecar.istio.io/inject: "false"'
_AMOUNTS = ("cpu", "memory")
# What a job is made of, as quotas count it; amounts come beside.
_COUNTED = (
    "pods",
    "count/pods",
    "secrets",
    "count/secrets",
    "count/jobs.batch",
    "services",
    "count/services",
    "count/trainjobs.trainer.kubeflow.org",
    "count/jobsets.jobset.x-k8s.io",
)


def examine(client: Client, found: Sequence[TrainingRuntime]) -> Iterator[Finding]:
    """Look at the namespace, for jobs of these runtimes."""
    unseen: list[str] = []

    def read(what: str, path: str) -> dict[str, Any]:
        try:
            return client.request("GET", path)
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            unseen.append(what)
            return {}

    def listed(what: str, path: str) -> list[dict[str, Any]]:
        return mappings(read(what, path).get("items"))

    space = ApiObject(read("namespaces", f"/api/v1/namespaces/{client.namespace}"))
    labels = space.labels
    restricted = podsecurity.is_restricted(client, labels if "metadata" in space.json else None)
    found_quotas = listed("resourcequotas", client.core("resourcequotas"))
    quotas = [ResourceQuota(one) for one in found_quotas]
    ranges = [LimitRange(one) for one in listed("limitranges", client.core("limitranges"))]
    path = f"/apis/networking.k8s.io/v1/namespaces/{client.namespace}/networkpolicies"
    policies = [NetworkPolicy(one) for one in listed("networkpolicies", path)]
    findings = [
        *_mesh(labels, found),
        *_security(restricted, found),
        *_full(quotas),
        *_amounts_wanted(quotas, ranges, found),
        *_out_of_range(ranges, found),
        *netpolicies.examine(policies, found, client.namespace, labels),
    ]
    yield from findings
    if all(one.status == OK for one in findings):
        what = ", ".join(unseen)
        said = say.NOTHING_SEEN_IN_THE_WAY(what=what) if unseen else say.NOTHING_IN_THE_WAY()
        yield Finding(OK, say.SETTINGS(), said)


def _names(found: Sequence[TrainingRuntime]) -> str:
    return ", ".join(item.name for item in found)


def _mesh(labels: Mapping[str, str], found: Sequence[TrainingRuntime]) -> Iterator[Finding]:
    ambient = labels.get("istio.io/dataplane-mode") == "ambient"
    if ambient or labels.get("linkerd.io/inject") in ("enabled", "ingress"):
        yield Finding(WARN, say.MESH(), say.AMBIENT() if ambient else say.LINKERD())
        return
    if labels.get("istio-injection") != "enabled" and "istio.io/rev" not in labels:
        return
    inside = [item for item in found if runtimes.patches(item, restricted=False)["mesh"]]
    if inside:
        yield Finding(WARN, say.MESH(), say.ISTIO(runtimes=_names(inside), label=_ISTIO))


def _security(restricted: bool | None, found: Sequence[TrainingRuntime]) -> Iterator[Finding]:
    loose = [item for item in found if runtimes.patches(item, restricted=True)["restricted"]]
    if restricted is None and loose:
        yield Finding(OK, say.POD_SECURITY(), say.UNKNOWN_LEVEL(runtimes=_names(loose)))
    if not restricted:
        return
    if loose:
        yield Finding(WARN, say.POD_SECURITY(), say.NOT_MET(runtimes=_names(loose)))
    for item in found:
        if why := podsecurity.beyond(item):
            said = say.NEVER_MET(runtime=item.name, why=", ".join(why))
            yield Finding(WARN, say.POD_SECURITY(), said)


def _full(quotas: Sequence[ResourceQuota]) -> Iterator[Finding]:
    """Find quotas with no room for even one more pod."""
    for quota in quotas:
        used = quota.used
        full = [
            f"{name} {used.get(name, '0')} of {most}"
            for name, most in quota.hard.items()
            if (name in _COUNTED or name.rpartition(".")[2] in _AMOUNTS)
            and (quantity(used.get(name, "0")) or 0) >= (quantity(most) or 0)
        ]
        if full:
            said = say.USED_UP(name=quota.name, amounts=", ".join(full))
            yield Finding(WARN, say.QUOTA(), said)


def _amounts_wanted(
    quotas: Sequence[ResourceQuota], ranges: Sequence[LimitRange], found: Sequence[TrainingRuntime]
) -> Iterator[Finding]:
    """Find quotas that refuse pods without amounts, where nothing sets these."""
    wanted = {
        name if "." in name else f"requests.{name}"
        for quota in quotas
        for name in quota.bounds
        if name.rpartition(".")[2] in _AMOUNTS
    }
    containers = _limits(ranges, "Container")
    default = [one.default for one in containers]
    requested = [one.default_request for one in containers]
    for item in found:
        resources = item.container.resources
        limits = [resources.limits, *default]
        # A limit without a request is the request, too.
        requests = [resources.requests, *limits, *requested]
        stated = {f"limits.{name}" for one in limits for name in one}
        stated |= {f"requests.{name}" for one in requests for name in one}
        missing = sorted(wanted - stated)
        if missing:
            said = say.NO_AMOUNTS(amounts=joined(missing), runtime=item.name)
            yield Finding(WARN, say.QUOTA(), said, _advice_on(missing))
            return


def _advice_on(missing: list[str]) -> str:
    if "limits.cpu" in missing:  # --cpu is a request: a limit would only slow a job down
        return say.NO_CPU_LIMIT()
    options = joined(dict.fromkeys(f"--{name.rpartition('.')[2]}" for name in missing))
    return say.GIVE_AMOUNTS(options=options)


def _out_of_range(
    ranges: Sequence[LimitRange], found: Sequence[TrainingRuntime]
) -> Iterator[Finding]:
    for item in found:
        asked = item.container.resources.asked
        for one in _limits(ranges, "Container") + _limits(ranges, "Pod"):
            for name, most in one.max.items():
                if (quantity(asked.get(name, "0")) or 0) > (quantity(most) or 0):
                    said = say.OUT_OF_RANGE(
                        runtime=item.name, amount=asked[name], resource=name, most=most
                    )
                    yield Finding(WARN, say.LIMIT_RANGE(), said)


def _limits(ranges: Sequence[LimitRange], kind: str) -> list[Limit]:
    return [one for item in ranges for one in item.limits if one.type == kind]
