"""Kueue's queues: which there are, what a job in one can't have, and how to stop one that waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jupyter_jax_trainer.backends.kubernetes.api.client import (
    MERGE_PATCH,
    ApiError,
    Client,
    cluster_path,
)
from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    ApiObject,
    Part,
    PodSpec,
    TrainJob,
    Workload,
    mappings,
)
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import kubernetes as cluster
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.text import joined, version_numbers

QUEUE = "kueue.x-k8s.io/queue-name"  # labels of a TrainJob
PRIORITY = "kueue.x-k8s.io/priority-class"
GROUP = "kueue.x-k8s.io"
_KEEPS_PATCHES = (0, 17)  # the first Kueue that knows runtimePatches
_DEPLOYMENT = "/apis/apps/v1/namespaces/kueue-system/deployments/kueue-controller-manager"


@dataclass(frozen=True)
class Kueue:
    """The Kueue of a cluster.

    Attributes
    ----------
    base
        The path of its API, in the version that it prefers.
    version
        As its image is tagged; None where that may not be read.
    """

    base: str
    version: str | None

    @property
    def keeps_patches(self) -> bool:
        """Whether it is known to keep what is patched into a job's runtime."""
        return version_numbers(self.version)[:2] >= _KEEPS_PATCHES

    @property
    def words(self) -> str:
        """How it is called in a sentence."""
        if self.version is None:
            return say.UNKNOWN_KUEUE()
        return say.KUEUE(version=self.version)

    def of_namespace(self, client: Client, resource: str, name: str = "") -> str:
        """Return the path of objects of the client's namespace."""
        return cluster_path(self.base, "namespaces", client.namespace, resource, name)


def find(client: Client) -> Kueue | None:
    """Find Kueue; None where the cluster has none.

    Raises
    ------
    ApiError, Unreachable
        The cluster doesn't tell.
    """
    base = _api(client)
    return None if base is None else Kueue(base, _version(client))


def _api(client: Client) -> str | None:
    """Return the path of Kueue's API in the version that it prefers; None where there is none."""
    try:
        group = Part(client.request("GET", f"/apis/{GROUP}"))
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    preferred = group.within("preferredVersion").get("groupVersion")
    return f"/apis/{preferred or f'{GROUP}/v1beta1'}"


def workloads(client: Client) -> str | None:
    """Return the path of the Workloads of the client's namespace; None where there is no Kueue.

    Raises
    ------
    ApiError, Unreachable
        The cluster doesn't tell.
    """
    base = _api(client)
    if base is None:
        return None
    return Kueue(base, None).of_namespace(client, "workloads")


def _version(client: Client) -> str | None:
    """Read the tag of the controller's image."""
    try:
        found = client.request("GET", _DEPLOYMENT)
    except ApiError as error:
        if error.status in (403, 404):  # it may be installed under other names
            return None
        raise
    for container in PodSpec(Part(found).within("spec", "template", "spec")).containers:
        tag = container.image.partition("@")[0].rpartition(":")[2]
        if version_numbers(tag):
            return tag
    return None


def check(client: Client, spec: JobSpec) -> Kueue:
    """See that the queue and the priority class of a job exist, as far as that may be read.

    Raises
    ------
    UsageError
        One of them doesn't, or there is no Kueue.
    ApiError, Unreachable
        The cluster doesn't tell.
    """
    kueue = find(client)
    if kueue is None:
        raise UsageError(say.NO_KUEUE(queue=spec.queue))
    queues = kueue.of_namespace(client, "localqueues")
    if spec.queue and not _exists(client, f"{queues}/{spec.queue}"):
        raise UsageError(
            say.NO_QUEUE(queue=spec.queue, namespace=client.namespace),
            _known(client, queues) or say.MAKE_QUEUE(),
        )
    classes = cluster_path(kueue.base, "workloadpriorityclasses")
    if spec.priority and not _exists(client, f"{classes}/{spec.priority}"):
        raise UsageError(
            say.NO_PRIORITY(priority=spec.priority),
            _known(client, classes) or say.OMIT_PRIORITY(),
        )
    return kueue


def _exists(client: Client, path: str) -> bool:
    """Return whether an object exists; assume so if the user may not read it."""
    try:
        client.request("GET", path)
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        return error.status == 403
    return True


def _known(client: Client, path: str) -> str | None:
    names = [item.name for item in listed(client, path)]
    return say.AVAILABLE(names=", ".join(names)) if names else None


def listed(client: Client, path: str) -> list[ApiObject]:
    """List objects; none where that is forbidden."""
    try:
        found = client.request("GET", path)
    except ApiError as error:
        if error.status != 403:
            raise
        return []
    return [ApiObject(one) for one in mappings(found.get("items"))]


def allowed_patches(
    kueue: Kueue, spec: JobSpec, patches: Mapping[str, bool], runtime: str, meshed: bool
) -> dict[str, bool]:
    """Say what of the runtime is patched for a job in a queue.

    Scratch space can be done without: the worker finds some. So can the label against a mesh where
    there is none.

    Parameters
    ----------
    patches
        What `runtimes.patches` says.
    meshed
        The namespace is known to put its pods into a mesh.

    Raises
    ------
    UsageError
        The job can't do without a patch that this Kueue would drop.
    """
    if kueue.keeps_patches:
        return dict(patches)

    needing = [
        flag
        for flag, given in (
            ("--volume", spec.volume),
            ("--service-account", spec.service_account),
            ("--accelerator", spec.accelerator),
            ("--topology", spec.topology),
        )
        if given
    ]
    if needing:
        raise UsageError(say.OPTIONS_NOT_IN_QUEUE(options=joined(needing), kueue=kueue.words))
    lacking = [
        what()
        for name, what in (("restricted", say.RESTRICTED_SETTINGS), ("mesh", say.MESH_LABEL))
        if patches[name] and (name == "restricted" or meshed)
    ]
    if lacking:
        settings = joined(lacking)
        raise UsageError(
            say.RUNTIME_NOT_IN_QUEUE(runtime=runtime, settings=settings, kueue=kueue.words)
        )
    return dict.fromkeys(patches, False)


def queue_of(trainjob: TrainJob) -> str | None:
    """Return the queue of a TrainJob; None where it is in none."""
    return trainjob.labels.get(QUEUE) or None


def set_active(client: Client, trainjob: TrainJob, active: bool) -> bool:
    """Stop or resume a job that Kueue steers; it would undo a change of the TrainJob's own.

    Returns
    -------
    bool
        Whether Kueue steers it.

    Raises
    ------
    ApiError, Unreachable
        It is refused, or the cluster does not answer.
    UsageError
        The job is stopped already, or is not.
    """
    path = workloads(client) if queue_of(trainjob) else None
    if path is None:
        return False
    query = {"labelSelector": f"{GROUP}/job-uid={trainjob.uid}"}
    found = client.request("GET", path, query=query)
    for item in unfinished(Workload(one) for one in mappings(found.get("items"))):
        if all(owner.uid != trainjob.uid for owner in item.owners):
            continue  # the label may be a copy
        if item.is_active == active:
            what = cluster.NOT_SUSPENDED if active else cluster.ALREADY_SUSPENDED
            raise UsageError(what(name=trainjob.name))
        one = f"{path}/{item.name}"
        client.request("PATCH", one, body={"spec": {"active": active}}, content_type=MERGE_PATCH)
        return True
    return False


def unfinished(workloads: Iterable[Workload]) -> list[Workload]:
    """Return the Workloads of a job that are not over, the newest first; mostly there is one."""
    found = [item for item in workloads if item.condition("Finished") is None]
    return sorted(found, key=lambda item: item.created, reverse=True)
