"""PodSecurity ``restricted``: whether a namespace demands it, and what of a runtime can meet it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.api.answers import ApiError
from jupyter_jax_trainer.backends.kubernetes.api.client import Client
from jupyter_jax_trainer.messages import submit as say

ENFORCED = "pod-security.kubernetes.io/enforce"
RESTRICTED = "restricted"
OF_POD = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "runAsGroup": 1000,
    "fsGroup": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
OF_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
KINDS = ("initContainers", "containers")
Pods = dict[str, dict[str, list[str]]]

_REFUSED = re.compile(r'violates PodSecurity "restricted\b')
_TRIAL = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "jaxtrain-trial-"},
    "spec": {"containers": [{"name": "trial", "image": "none"}], "restartPolicy": "Never"},
}
_HOST = ("hostNetwork", "hostPID", "hostIPC")
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
        query = {"fieldSelector": "reason=FailedCreate", "limit": 200}
        events = client.request("GET", client.core("events"), query=query).get("items") or []
        if any(_REFUSED.search(str(event.get("message"))) for event in events):
            return True
    return None


def lacking(item: Mapping[str, Any]) -> Pods:
    """Return the containers of a runtime that violate ``restricted``, by replicated job and kind.

    A replicated job is named without containers where its pods alone lack something.
    """
    found: Pods = {}
    for name, pod in _pods(item):
        secure = pod.get("securityContext") or {}
        loose = {
            kind: [str(one.get("name")) for one in pod.get(kind) or [] if not _is_meek(one)]
            for kind in KINDS
        }
        wide = [
            one
            for kind in KINDS
            for one in pod.get(kind) or []
            if not _is_confined({**secure, **(one.get("securityContext") or {})})
        ]
        if wide or any(loose.values()):
            found[name] = loose
    return found


def beyond(item: Mapping[str, Any]) -> list[str]:
    """Say what of a runtime is against ``restricted`` and can't be patched away by a job."""
    found: list[str] = []
    for job, pod in _pods(item):
        found += [say.HOST_FIELD_OF(field=name, job=job) for name in _HOST if pod.get(name)]
        found += [
            say.VOLUME_OF(name=volume.get("name"), job=job)
            for volume in pod.get("volumes") or []
            if volume.keys() - {"name"} - _VOLUMES
        ]
        sysctls = (pod.get("securityContext") or {}).get("sysctls") or []
        found += [
            say.SYSCTL_OF(name=one.get("name"), job=job)
            for one in sysctls
            if one.get("name") not in _SYSCTLS
        ]
        for one in (one for kind in KINDS for one in pod.get(kind) or []):
            secure = one.get("securityContext") or {}
            found += [
                say.HOST_PORT_OF(port=port["hostPort"], name=one.get("name"), job=job)
                for port in one.get("ports") or []
                if port.get("hostPort")
            ]
            added = (secure.get("capabilities") or {}).get("add") or []
            if (
                secure.get("privileged")
                or {*added} - _MAY_ADD
                or secure.get("runAsUser") == 0
                or secure.get("runAsNonRoot") is False
                or (secure.get("seccompProfile") or {}).get("type") == "Unconfined"
                or secure.get("procMount", "Default") != "Default"
            ):
                found.append(say.CONTAINER_OF(name=one.get("name"), job=job))
    return found


def _pods(item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the replicated jobs of a runtime, and what their pods are."""
    job_set = ((item.get("spec") or {}).get("template") or {}).get("spec") or {}
    for job in job_set.get("replicatedJobs") or []:
        template = ((job.get("template") or {}).get("spec") or {}).get("template") or {}
        yield str(job.get("name")), dict(template.get("spec") or {})


def _is_meek(container: Mapping[str, Any]) -> bool:
    secure = container.get("securityContext") or {}
    dropped = (secure.get("capabilities") or {}).get("drop") or []
    return secure.get("allowPrivilegeEscalation") is False and "ALL" in dropped


def _is_confined(secure: Mapping[str, Any]) -> bool:
    profile = (secure.get("seccompProfile") or {}).get("type")
    return secure.get("runAsNonRoot") is True and profile in ("RuntimeDefault", "Localhost")
