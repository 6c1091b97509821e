"""What a job in a cluster gets, and where it is."""

from __future__ import annotations

from typing import NotRequired, TypedDict, cast

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.jobdir.manifest import Manifest, Plan

# What an administrator wrote, with whatever fields that has: kept to be written back, never read.
RuntimeSpec = dict[str, JsonValue]


class Amounts(TypedDict):
    """What a container asks for."""

    requests: dict[str, str]
    limits: dict[str, str]


class KubernetesPlan(Plan):
    """The plan of a job in a cluster; one that was found there has its place and little more.

    Attributes
    ----------
    runtime_kind
        Of the runtime that `runtime` names.
    runs_once
        Its pods are not started again when they fail.
    server, context, namespace, cluster, kubeconfig
        Where it is: `cluster` tells clusters and namespaces apart, whatever leads there.
    own_runtime
        The spec of a runtime that is made for this job.
    resources
        What the runtime's container asks for by itself.
    patches
        Which changes to the runtime are needed.
    loose
        Containers of the runtime that don't meet the namespace's PodSecurity.
    packages
        Bytes of the packages in the bundle.
    without_packages
        The pods most likely have them in a cache.
    compile_cache
        What XLA compiles is kept on a volume that pods share.
    tolerations
        All that the pods are to have, in the API's form; empty where the runtime's will do.
    """

    runtime_kind: str
    runs_once: bool
    server: str
    context: str | None
    namespace: str
    cluster: str
    kubeconfig: NotRequired[str | None]
    own_runtime: NotRequired[RuntimeSpec | None]
    selector: NotRequired[dict[str, str]]
    resources: NotRequired[Amounts]
    python: NotRequired[str | None]
    jax: NotRequired[str | None]
    image: NotRequired[str | None]
    trainer: NotRequired[str]
    patches: NotRequired[dict[str, bool]]
    loose: NotRequired[dict[str, dict[str, list[str]]]]
    mounts: NotRequired[bool]
    packages: NotRequired[int]
    without_packages: NotRequired[bool]
    tolerations: NotRequired[list[dict[str, str | int]]]
    shared: NotRequired[str | None]
    compile_cache: NotRequired[bool]
    pip: NotRequired[list[str]]
    secret_keys: NotRequired[dict[str, list[str]]]


def plan_of(manifest: Manifest) -> KubernetesPlan:
    """Return the plan of a job of this backend."""
    return cast(KubernetesPlan, manifest["plan"])
