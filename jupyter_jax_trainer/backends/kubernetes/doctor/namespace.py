"""What of a namespace can stand in the way of jobs: meshes, PodSecurity, quotas, network policies.

What there is no permission to read is said, and is no error: no job needs these rights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client
from jupyter_jax_trainer.backends.kubernetes.doctor import netpolicies
from jupyter_jax_trainer.backends.kubernetes.submit import podsecurity, runtimes
from jupyter_jax_trainer.doctor.finding import OK, WARN, Finding
from jupyter_jax_trainer.messages import doctor as say
from jupyter_jax_trainer.options.amounts import quantity
from jupyter_jax_trainer.text import joined

Items = Sequence[Mapping[str, Any]]

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


def examine(client: Client, found: Items) -> Iterator[Finding]:
    """Look at the namespace, for jobs of these runtimes."""
    unseen: list[str] = []

    def read(what: str, path: str) -> Any:
        try:
            return client.request("GET", path)
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            unseen.append(what)
            return {}

    space = read("namespaces", f"/api/v1/namespaces/{client.namespace}").get("metadata")
    labels = (space or {}).get("labels") or {}
    restricted = podsecurity.is_restricted(client, None if space is None else labels)
    quotas = read("resourcequotas", client.core("resourcequotas")).get("items") or []
    ranges = read("limitranges", client.core("limitranges")).get("items") or []
    path = f"/apis/networking.k8s.io/v1/namespaces/{client.namespace}/networkpolicies"
    policies = read("networkpolicies", path).get("items") or []
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


def _names(found: Items) -> str:
    return ", ".join(item["metadata"]["name"] for item in found)


def _mesh(labels: Mapping[str, str], found: Items) -> Iterator[Finding]:
    ambient = labels.get("istio.io/dataplane-mode") == "ambient"
    if ambient or labels.get("linkerd.io/inject") in ("enabled", "ingress"):
        yield Finding(WARN, say.MESH(), say.AMBIENT() if ambient else say.LINKERD())
        return
    if labels.get("istio-injection") != "enabled" and "istio.io/rev" not in labels:
        return
    inside = [item for item in found if runtimes.patches(item, restricted=False)["mesh"]]
    if inside:
        yield Finding(WARN, say.MESH(), say.ISTIO(runtimes=_names(inside), label=_ISTIO))


def _security(restricted: bool | None, found: Items) -> Iterator[Finding]:
    loose = [item for item in found if runtimes.patches(item, restricted=True)["restricted"]]
    if restricted is None and loose:
        yield Finding(OK, say.POD_SECURITY(), say.UNKNOWN_LEVEL(runtimes=_names(loose)))
    if not restricted:
        return
    if loose:
        yield Finding(WARN, say.POD_SECURITY(), say.NOT_MET(runtimes=_names(loose)))
    for item in found:
        if why := podsecurity.beyond(item):
            said = say.NEVER_MET(runtime=item["metadata"]["name"], why=", ".join(why))
            yield Finding(WARN, say.POD_SECURITY(), said)


def _full(quotas: Items) -> Iterator[Finding]:
    """Find quotas with no room for even one more pod."""
    for quota in quotas:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        full = [
            f"{name} {used.get(name, '0')} of {most}"
            for name, most in hard.items()
            if (name in _COUNTED or name.rpartition(".")[2] in _AMOUNTS)
            and (quantity(str(used.get(name, "0"))) or 0) >= (quantity(str(most)) or 0)
        ]
        if full:
            said = say.USED_UP(name=quota["metadata"]["name"], amounts=", ".join(full))
            yield Finding(WARN, say.QUOTA(), said)


def _amounts_wanted(quotas: Items, ranges: Items, found: Items) -> Iterator[Finding]:
    """Find quotas that refuse pods without amounts, where nothing sets these."""
    wanted = {
        name if "." in name else f"requests.{name}"
        for quota in quotas
        for name in (quota.get("spec") or {}).get("hard") or {}
        if name.rpartition(".")[2] in _AMOUNTS
    }
    containers = _limits(ranges, "Container")
    default = [one.get("default") or {} for one in containers]
    requested = [one.get("defaultRequest") or {} for one in containers]
    for item in found:
        resources = runtimes.container(item).get("resources") or {}
        limits = [resources.get("limits") or {}, *default]
        # A limit without a request is the request, too.
        requests = [resources.get("requests") or {}, *limits, *requested]
        stated = {f"limits.{name}" for one in limits for name in one}
        stated |= {f"requests.{name}" for one in requests for name in one}
        missing = sorted(wanted - stated)
        if missing:
            said = say.NO_AMOUNTS(amounts=joined(missing), runtime=item["metadata"]["name"])
            yield Finding(WARN, say.QUOTA(), said, _advice_on(missing))
            return


def _advice_on(missing: list[str]) -> str:
    if "limits.cpu" in missing:  # --cpu is a request: a limit would only slow a job down
        return say.NO_CPU_LIMIT()
    options = joined(dict.fromkeys(f"--{name.rpartition('.')[2]}" for name in missing))
    return say.GIVE_AMOUNTS(options=options)


def _out_of_range(ranges: Items, found: Items) -> Iterator[Finding]:
    for item in found:
        resources = runtimes.container(item).get("resources") or {}
        asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        for one in _limits(ranges, "Container") + _limits(ranges, "Pod"):
            for name, most in (one.get("max") or {}).items():
                if (quantity(str(asked.get(name, "0"))) or 0) > (quantity(str(most)) or 0):
                    said = say.OUT_OF_RANGE(
                        runtime=item["metadata"]["name"],
                        amount=asked[name],
                        resource=name,
                        most=most,
                    )
                    yield Finding(WARN, say.LIMIT_RANGE(), said)


def _limits(ranges: Items, kind: str) -> list[Mapping[str, Any]]:
    return [
        one
        for item in ranges
        for one in (item.get("spec") or {}).get("limits") or []
        if one.get("type") == kind
    ]
