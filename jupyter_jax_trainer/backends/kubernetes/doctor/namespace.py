"""Check a namespace for obstacles to jobs: meshes, PodSecurity, quotas, network policies.

A missing right to read them is reported, but is no error: no job needs these rights.
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
from jupyter_jax_trainer.messages import Label, Message, identify
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
    "configmaps",
    "count/configmaps",
    "count/jobs.batch",
    "services",
    "count/services",
    "count/trainjobs.trainer.kubeflow.org",
    "count/jobsets.jobset.x-k8s.io",
)

SETTINGS = Label("Namespace settings")
NOTHING_IN_THE_WAY = Message("nothing blocks jobs")
NOTHING_SEEN_IN_THE_WAY = Message(
    "not all checked: no permission to read {what}; nothing else blocks jobs"
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
        said = NOTHING_SEEN_IN_THE_WAY(what=what) if unseen else NOTHING_IN_THE_WAY()
        yield Finding(OK, SETTINGS(), said)


def _names(found: Sequence[TrainingRuntime]) -> str:
    return ", ".join(item.name for item in found)


AMBIENT = Message(
    "all pods of the namespace join Istio's ambient mesh",
    "A mesh can break the rendezvous of the ranks: use a namespace without it.",
)
LINKERD = Message(
    "all pods of the namespace join Linkerd's mesh",
    "A mesh can break the rendezvous of the ranks: use a namespace without it.",
)
ISTIO = Message(
    "pods of {runtimes} join Istio's mesh",
    "Label them {label}, as ours are. Jobs patch that in, but not with --queue; then ranks may not "
    "find each other.",
)


def _mesh(labels: Mapping[str, str], found: Sequence[TrainingRuntime]) -> Iterator[Finding]:
    ambient = labels.get("istio.io/dataplane-mode") == "ambient"
    if ambient or labels.get("linkerd.io/inject") in ("enabled", "ingress"):
        yield Finding(WARN, say.MESH(), AMBIENT() if ambient else LINKERD())
        return
    if labels.get("istio-injection") != "enabled" and "istio.io/rev" not in labels:
        return
    inside = [item for item in found if runtimes.patches(item, restricted=False)["mesh"]]
    if inside:
        yield Finding(WARN, say.MESH(), ISTIO(runtimes=_names(inside), label=_ISTIO))


UNKNOWN_LEVEL = Message(
    "unknown whether the namespace enforces restricted (needs get on the namespace, or create on "
    "pods). If it does, the first job of {runtimes} fails and later ones comply"
)
NOT_MET = Message(
    "the namespace enforces restricted; not met by {runtimes}",
    "Use a runtime whose pods meet it, as ours do. Jobs patch in what is missing, but not with "
    "--queue; then their pods are refused.",
)
NEVER_MET = Message(
    "the namespace enforces restricted, which jobs of {runtime} can't meet: {why}",
    "Use another runtime, or have these changed in it: jobs can't override them.",
)


def _security(restricted: bool | None, found: Sequence[TrainingRuntime]) -> Iterator[Finding]:
    loose = [item for item in found if runtimes.patches(item, restricted=True)["restricted"]]
    if restricted is None and loose:
        yield Finding(OK, say.POD_SECURITY(), UNKNOWN_LEVEL(runtimes=_names(loose)))
    if not restricted:
        return
    if loose:
        yield Finding(WARN, say.POD_SECURITY(), NOT_MET(runtimes=_names(loose)))
    for item in found:
        if why := podsecurity.beyond(item):
            said = NEVER_MET(runtime=item.name, why=", ".join(why))
            yield Finding(WARN, say.POD_SECURITY(), said)


QUOTA = Label("Quota")
USED_UP = Message(
    "quota {name} is used up: {amounts}",
    "Jobs can't start until others in the namespace end or are deleted, or the ResourceQuota is "
    "raised.",
)


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
            said = USED_UP(name=quota.name, amounts=", ".join(full))
            yield Finding(WARN, QUOTA(), said)


NO_AMOUNTS = Message("pods must state {amounts}, and those of {runtime} don't")


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
            said = NO_AMOUNTS(amounts=joined(missing), runtime=item.name)
            yield Finding(WARN, QUOTA(), said, _advice_on(missing))
            return


NO_CPU_LIMIT = Message(
    "No option states limits.cpu: have a LimitRange set a default, or state it in the runtime."
)
GIVE_AMOUNTS = Message("Give {options} with each job, or have a LimitRange set a default.")


def _advice_on(missing: list[str]) -> str:
    if "limits.cpu" in missing:  # --cpu is a request: a limit would only slow a job down
        return NO_CPU_LIMIT()
    options = joined(dict.fromkeys(f"--{name.rpartition('.')[2]}" for name in missing))
    return GIVE_AMOUNTS(options=options)


LIMIT_RANGE = Label("Limit range")
OUT_OF_RANGE = Message(
    "some runtimes ask for more {resource} than the namespace allows ({most}): {runtimes}",
    "Give --{resource} with each job, or have the LimitRange changed.",
)


def _out_of_range(
    ranges: Sequence[LimitRange], found: Sequence[TrainingRuntime]
) -> Iterator[Finding]:
    bounds: dict[str, list[str]] = {}
    for one in _limits(ranges, "Container") + _limits(ranges, "Pod"):
        for name, most in one.max.items():
            bounds.setdefault(name, []).append(most)
    for name, mosts in bounds.items():
        least = min(mosts, key=lambda most: quantity(most) or 0)
        asked = {item.name: item.container.resources.asked.get(name, "0") for item in found}
        over = [
            f"{runtime} ({amount})"
            for runtime, amount in asked.items()
            if (quantity(amount) or 0) > (quantity(least) or 0)
        ]
        if over:
            said = OUT_OF_RANGE(resource=name, most=least, runtimes=", ".join(over))
            yield Finding(WARN, LIMIT_RANGE(), said)


def _limits(ranges: Sequence[LimitRange], kind: str) -> list[Limit]:
    return [one for item in ranges for one in item.limits if one.type == kind]


identify(globals(), "doctor")
