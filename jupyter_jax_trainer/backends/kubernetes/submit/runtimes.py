"""The JAX runtimes of a cluster, and whether its Kubeflow Trainer is new enough."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, cluster_path
from jupyter_jax_trainer.backends.kubernetes.submit import devices, podsecurity
from jupyter_jax_trainer.backends.kubernetes.submit.restarts import is_own
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import CONVERTED, PREFIX, STEP
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.table import DEVICES, MAX_NODES
from jupyter_jax_trainer.runtime import Runtime
from jupyter_jax_trainer.text import version_numbers

KINDS = ("TrainingRuntime", "ClusterTrainingRuntime")
LEAST_TRAINER = (2, 2)
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
INSTALL = "jaxtrain runtimes install"
_API = "/apis/trainer.kubeflow.org/v1alpha1"
_FRAMEWORK = "trainer.kubeflow.org/framework"
_SUPPORT = "trainer.kubeflow.org/support"
_MESH = "sidecar.istio.io/inject"
SHARED = f"{PREFIX}/shared-folder"
# Volumes that go with the pod, or can't be written.
_PASSING = {"emptyDir", "ephemeral", "configMap", "secret", "projected", "downwardAPI", "image"}


def check_trainer(client: Client) -> str:
    """Return the version of Kubeflow Trainer, or ``2.2 or newer`` where it isn't published.

    Raises
    ------
    BackendError
        There is none, or it is too old: 2.0 and 2.1 know neither patches nor JAX.
    """
    path = "/api/v1/namespaces/kubeflow-system/configmaps/kubeflow-trainer-public"
    try:
        data = client.request("GET", path).get("data") or {}
        version = str(data.get("kubeflow_trainer_version", ""))
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        version = ""
    if numbers := version_numbers(version):
        if numbers[:2] < LEAST_TRAINER:
            raise BackendError(say.OLD_TRAINER(version=version))
        return version
    return _from_schema(client)


def _from_schema(client: Client) -> str:
    """Tell by the API's own description, which everybody may read."""
    try:
        found = client.request("GET", "/openapi/v3/apis/trainer.kubeflow.org/v1alpha1")
    except ApiError as error:
        if error.status == 404:
            raise BackendError(say.NO_TRAINER()) from None
        raise
    schemas = (found.get("components") or {}).get("schemas") or {}
    for name, schema in schemas.items():
        if name.endswith(".TrainJob"):
            spec = (schema.get("properties") or {}).get("spec") or {}
            if "runtimePatches" not in (spec.get("properties") or {}):
                raise BackendError(say.UNPATCHED_TRAINER())
    return "2.2 or newer"


def list_runtimes(client: Client) -> list[dict[str, Any]]:
    """List the runtimes for JAX that the namespace can use, its own before the cluster's.

    Raises
    ------
    ApiError
        Neither kind may be listed.
    """
    found: list[dict[str, Any]] = []
    refusal: ApiError | None = None
    for kind in KINDS:
        try:
            items = client.request("GET", path_of(client, kind)).get("items") or []
        except ApiError as error:
            refusal = error
            continue
        # One broken runtime must not hide the others.
        found += [{**item, "kind": kind} for item in items if _is_jax(item) and not is_own(item)]
    if not found and refusal is not None:
        raise refusal
    return found


def get_runtime(client: Client, name: str) -> dict[str, Any]:
    """Find a runtime by its name.

    Raises
    ------
    UsageError
        There is none, or it isn't one for JAX.
    """
    refusal: ApiError | None = None
    for kind in KINDS:
        try:
            item = client.request("GET", f"{path_of(client, kind)}/{name}")
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            refusal = error if error.status == 403 else refusal
            continue
        if not _is_jax(item):
            raise UsageError(say.NOT_FOR_JAX(name=name), _known(client))
        return {**item, "kind": kind}
    if refusal is not None:
        raise refusal
    raise UsageError(say.NO_SUCH_RUNTIME(name=name, namespace=client.namespace), _known(client))


def _known(client: Client) -> str:
    try:
        names = [item["metadata"]["name"] for item in list_runtimes(client)]
    except ApiError:
        names = []
    if not names:
        return say.INSTALL_OURS(install=INSTALL)
    return say.AVAILABLE(names=", ".join(names))


def path_of(client: Client, kind: str) -> str:
    """Return the path of the runtimes of a kind."""
    if kind == "TrainingRuntime":
        return client.trainer("trainingruntimes")
    return cluster_path(_API, "clustertrainingruntimes")


def _is_jax(item: Mapping[str, Any]) -> bool:
    labels = item.get("metadata", {}).get("labels") or {}
    policy = (item.get("spec") or {}).get("mlPolicy") or {}
    return policy.get("jax") is not None or (labels.get(_FRAMEWORK) == "jax" and not policy)


def device_of(item: Mapping[str, Any]) -> str:
    """Return the kind of device that a runtime is for: its label, else what its container asks."""
    label = (item["metadata"].get("labels") or {}).get(f"{PREFIX}/device")
    if label in DEVICES:
        return str(label)
    asked = devices.asked_for(container(item).get("resources") or {})
    kinds = {devices.kind_of(name) for name in asked}
    return next((kind for kind in ("gpu", "tpu") if kind in kinds), "cpu")


def node_labels(item: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of nodes that a runtime itself asks for."""
    return dict(_pod(item)[1].get("nodeSelector") or {})


def pod_labels(item: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels that a runtime itself puts on the pods in which the training runs."""
    return dict(_pod(item)[0].get("labels") or {})


def replicated_jobs(item: Mapping[str, Any]) -> list[str]:
    """Return the names of the replicated jobs of a runtime, of which pods are named."""
    jobs = _job_set(item).get("replicatedJobs") or []
    return [str(job.get("name")) for job in jobs] or ["node"]


def initializers(item: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the containers that Trainer takes for its initializer: it goes by label and name."""
    found: list[dict[str, Any]] = []
    for job in _job_set(item).get("replicatedJobs") or []:
        template = job.get("template") or {}
        labels = (template.get("metadata") or {}).get("labels") or {}
        pod = ((template.get("spec") or {}).get("template") or {}).get("spec") or {}
        if labels.get(STEP) == name:
            found += [dict(c) for c in pod.get("containers") or [] if c.get("name") == name]
    return found


def container(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the container in which the training runs, as the runtime has it."""
    found = _pod(item)[1].get("containers") or []
    return next((dict(c) for c in found if c.get("name") == "node"), {})


def tolerations(item: Mapping[str, Any], device: str) -> list[dict[str, Any]]:
    """Return the tolerations of a runtime, and with them that of the taint of its GPUs or TPUs.

    Nodes with such devices are kept free by it for those who use them. A patch replaces them all.
    """
    own = list(_pod(item)[1].get("tolerations") or [])
    return [*own, {"key": taint(item, device), "operator": "Exists", "effect": "NoSchedule"}]


def taint(item: Mapping[str, Any], device: str) -> str | None:
    """Return the taint of the nodes with a runtime's devices; None for the CPU."""
    return devices.taint(device, container(item).get("resources") or {})


def _tolerates(own: list[dict[str, Any]], key: str) -> bool:
    return any(
        one.get("key") in (key, None, "") and one.get("effect") in ("NoSchedule", None, "")
        for one in own
    )


def patches(item: Mapping[str, Any], *, restricted: bool, device: str = "cpu") -> dict[str, bool]:
    """Say what a runtime lacks that a job needs.

    Parameters
    ----------
    restricted
        The namespace is known to take only pods of the strictest kind.
    device
        The kind of device that the job is to have.

    Returns
    -------
    dict
        ``scratch``, ``mesh``, ``restricted`` and, for GPUs and TPUs, ``tolerations``: what has to
        be patched in.
    """
    metadata, pod = _pod(item)
    empty = {v.get("name") for v in pod.get("volumes") or [] if "emptyDir" in v}
    mounts = {m.get("name") for m in container(item).get("volumeMounts") or []}
    labels = metadata.get("labels") or {}
    found = {
        "scratch": not empty & mounts,
        "mesh": labels.get(_MESH) != "false",
        "restricted": restricted and bool(podsecurity.lacking(item)),
    }
    if key := taint(item, device):
        found["tolerations"] = not _tolerates(pod.get("tolerations") or [], key)
    return found


def shared_folder(item: Mapping[str, Any]) -> str | None:
    """Return the folder that a runtime says all pods see and that outlives them."""
    folder = str((item["metadata"].get("annotations") or {}).get(SHARED, "")).rstrip("/")
    return folder if folder.startswith("/") else None


def is_on_volume(item: Mapping[str, Any], folder: str) -> bool:
    """Return whether a folder is on a volume of the runtime's that outlives its pods."""
    passing = {v.get("name") for v in _pod(item)[1].get("volumes") or [] if _PASSING & v.keys()}
    places = [
        str(mount.get("mountPath")).rstrip("/")
        for mount in container(item).get("volumeMounts") or []
        if mount.get("name") not in passing and not mount.get("readOnly")
    ]
    return any(f"{folder}/".startswith(f"{place}/") for place in places)


def runs_once(item: Mapping[str, Any]) -> bool:
    """Return whether a cell that fails stays failed: nothing of it is tried again."""
    for job in _job_set(item).get("replicatedJobs") or []:
        spec = (job.get("template") or {}).get("spec") or {}
        pod = (spec.get("template") or {}).get("spec") or {}
        if job.get("name") == "node" and (
            spec.get("backoffLimit") != 0 or pod.get("restartPolicy") != "Never"
        ):
            return False
    policy = _job_set(item).get("failurePolicy") or {}
    return not policy.get("maxRestarts")


def is_converted(item: Mapping[str, Any]) -> bool:
    """Return whether a runtime was made from somebody's JAXJob, and is for others by name only."""
    return CONVERTED in (item["metadata"].get("labels") or {})


def is_deprecated(item: Mapping[str, Any]) -> bool:
    """Return whether those who run the cluster want another one to be used."""
    labels = item["metadata"].get("labels") or {}
    return bool(labels.get(_SUPPORT) == "deprecated")


def deprecation(item: Mapping[str, Any]) -> str | None:
    """Return the warning for those who use a runtime that is deprecated; None where it isn't."""
    if not is_deprecated(item):
        return None
    return say.DEPRECATED(name=item["metadata"]["name"])


def describe(item: Mapping[str, Any]) -> Runtime:
    """Make a line of the list of runtimes."""
    metadata = item["metadata"]
    labels = metadata.get("labels") or {}
    image = container(item).get("image")
    deprecated = is_deprecated(item)
    device = device_of(item)
    kind = item["kind"]
    words = say.RUNTIME(kind=kind, image=image) if image else say.RUNTIME_WITHOUT_IMAGE(kind=kind)
    return Runtime(
        name=str(metadata["name"]),
        backend="kubernetes",
        device=device,
        nodes=(1, MAX_NODES),
        description=say.DEPRECATED_RUNTIME(description=words) if deprecated else words,
        python=labels.get(f"{PREFIX}/python"),
        jax=labels.get(f"{PREFIX}/jax"),
        devices=devices.brought(device, container(item).get("resources") or {}, node_labels(item)),
        image=image,
        deprecated=deprecated,
    )


def _job_set(item: Mapping[str, Any]) -> dict[str, Any]:
    template = (item.get("spec") or {}).get("template") or {}
    return dict(template.get("spec") or {})


def _pod(item: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return metadata and spec of the pods in which the training runs."""
    for job in _job_set(item).get("replicatedJobs") or []:
        if job.get("name") == "node":
            template = ((job.get("template") or {}).get("spec") or {}).get("template") or {}
            return dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    return {}, {}
