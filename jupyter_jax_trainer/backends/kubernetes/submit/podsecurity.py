"""PodSecurity ``restricted``: whether a namespace demands it, and what of a runtime can meet it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping

from jupyter_jax_trainer.backends.kubernetes.api.answers import ApiError
from jupyter_jax_trainer.backends.kubernetes.api.client import Client
from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    Container,
    Event,
    PodSpec,
    Security,
    TrainingRuntime,
    mappings,
)
from jupyter_jax_trainer.messages import submit as say

ENFORCED = "pod-security.kubernetes.io/enforce"
RESTRICTED = "restricted"
OF_POD = Security(
    {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
)
OF_CONTAINER = Security({"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}})
Pods = dict[str, dict[str, list[str]]]

_REFUSED = re.compile(r'violates PodSecurity "restricted\b')
_TRIAL = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "jaxtrain-trial-"},
    "spec": {"containers": [{"name": "trial", "image": "none"}], "restartPolicy": "Never"},
}
_MAY_ADD = {"NET_BIND_SERVICE"}
_SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
}
_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def is_restricted(client: Client, labels: Mapping[str, str] | None) -> bool | None:
    """Return whether a namespace takes only pods that meet ``restricted``; None if that is unknown.

    Where its labels can't be read, a pod is tried in a dry run, for those who may create pods;
    else the namespace's events may have a refusal.

    Parameters
    ----------
    labels
        The namespace's; None where they may not be read.
    """
    if labels is not None:
        return labels.get(ENFORCED) == RESTRICTED
    try:
        client.request("POST", client.core("pods"), query={"dryRun": "All"}, body=_TRIAL)
        return False
    except ApiError as error:
        if _REFUSED.search(str(error)):
            return True
    with contextlib.suppress(ApiError):
        query: dict[str, str | int] = {"fieldSelector": "reason=FailedCreate", "limit": 200}
        found = client.request("GET", client.core("events"), query=query)
        events = [Event(one) for one in mappings(found.get("items"))]
        if any(_REFUSED.search(event.message) for event in events):
            return True
    return None


def lacking(item: TrainingRuntime) -> Pods:
    """Return the containers of a runtime that violate ``restricted``, by replicated job and kind.

    A replicated job is named without containers where its pods alone lack something.
    """
    found: Pods = {}
    for job in item.replicated_jobs:
        pod = job.pods.spec
        loose = {
            kind: [one.name for one in containers if not _is_meek(one.security)]
            for kind, containers in _by_kind(pod).items()
        }
        wide = not all(_is_confined(one.security.within_pod(pod.security)) for one in _all(pod))
        if wide or any(loose.values()):
            found[job.name] = loose
    return found


def beyond(item: TrainingRuntime) -> list[str]:
    """Say what of a runtime is against ``restricted`` and can't be patched away by a job."""
    found: list[str] = []
    for job in item.replicated_jobs:
        pod = job.pods.spec
        found += [say.HOST_FIELD_OF(field=name, job=job.name) for name in pod.host_namespaces]
        found += [
            say.VOLUME_OF(name=volume.name, job=job.name)
            for volume in pod.volumes
            if volume.kinds - _VOLUMES
        ]
        found += [
            say.SYSCTL_OF(name=name, job=job.name)
            for name in pod.security.sysctls
            if name not in _SYSCTLS
        ]
        for one in _all(pod):
            found += [
                say.HOST_PORT_OF(port=port.on_host, name=one.name, job=job.name)
                for port in one.ports
                if port.on_host
            ]
            if _is_bold(one.security):
                found.append(say.CONTAINER_OF(name=one.name, job=job.name))
    return found


def _by_kind(pod: PodSpec) -> dict[str, list[Container]]:
    return {"initContainers": pod.init_containers, "containers": pod.containers}


def _all(pod: PodSpec) -> list[Container]:
    return [*pod.init_containers, *pod.containers]


def _is_meek(secure: Security) -> bool:
    return not secure.allows_escalation and "ALL" in secure.drops


def _is_confined(secure: Security) -> bool:
    return secure.runs_as_non_root is True and secure.seccomp in ("RuntimeDefault", "Localhost")


def _is_bold(secure: Security) -> bool:
    return (
        secure.is_privileged
        or bool({*secure.adds} - _MAY_ADD)
        or secure.is_root
        or secure.runs_as_non_root is False
        or secure.seccomp == "Unconfined"
        or secure.proc_mount != "Default"
    )
