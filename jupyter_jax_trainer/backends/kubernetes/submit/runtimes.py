"""The JAX runtimes of a cluster, and whether its Kubeflow Trainer is new enough."""

from __future__ import annotations

import sys

from jupyter_jax_trainer.backends import idle
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, cluster_path
from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    TRAINER,
    Container,
    Part,
    Toleration,
    TrainingRuntime,
    mapping,
    mappings,
)
from jupyter_jax_trainer.backends.kubernetes.submit import devices, podsecurity
from jupyter_jax_trainer.backends.kubernetes.submit.restarts import is_own
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import CONVERTED, PREFIX, STEP
from jupyter_jax_trainer.devices import DEVICES
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.table import MAX_NODES
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
IDLE = f"{PREFIX}/session-idle"
IDLE_MOST = f"{PREFIX}/session-idle-max"
COMPILE_CACHE = f"{PREFIX}/compile-cache"
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
        data = mapping(client.request("GET", path).get("data"))
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
    schemas = Part(found).within("components", "schemas")
    for name, schema in schemas.items():
        spec = Part(schema).within("properties", "spec", "properties")
        if name.endswith(".TrainJob") and "runtimePatches" not in spec:
            raise BackendError(say.UNPATCHED_TRAINER())
    return "2.2 or newer"


def list_runtimes(client: Client) -> list[TrainingRuntime]:
    """List the runtimes for JAX that the namespace can use, its own before the cluster's.

    Raises
    ------
    ApiError
        Neither kind may be listed.
    """
    found: list[TrainingRuntime] = []
    refusal: ApiError | None = None
    for kind in KINDS:
        try:
            items = mappings(client.request("GET", path_of(client, kind)).get("items"))
        except ApiError as error:
            refusal = error
            continue
        known = [TrainingRuntime({**item, "kind": kind}) for item in items]
        found += [item for item in known if _is_jax(item) and not is_own(item)]
    if not found and refusal is not None:
        raise refusal
    return found


def get_runtime(client: Client, name: str) -> TrainingRuntime:
    """Find a runtime by its name.

    Raises
    ------
    UsageError
        There is none, or it isn't one for JAX.
    """
    refusal: ApiError | None = None
    for kind in KINDS:
        try:
            found = client.request("GET", f"{path_of(client, kind)}/{name}")
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            refusal = error if error.status == 403 else refusal
            continue
        item = TrainingRuntime({**found, "kind": kind})
        if not _is_jax(item):
            raise UsageError(say.NOT_FOR_JAX(name=name), _known(client))
        return item
    if refusal is not None:
        raise refusal
    raise UsageError(say.NO_SUCH_RUNTIME(name=name, namespace=client.namespace), _known(client))


def _known(client: Client) -> str:
    try:
        names = [item.name for item in list_runtimes(client)]
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


def _is_jax(item: TrainingRuntime) -> bool:
    policy = item.spec.within("mlPolicy")
    return policy.get("jax") is not None or (item.labels.get(_FRAMEWORK) == "jax" and not policy)


def device_of(item: TrainingRuntime) -> str:
    """Return the kind of device that a runtime is for: its label, else what its container asks."""
    label = item.labels.get(f"{PREFIX}/device", "")
    if label in DEVICES:
        return label
    kinds = {devices.kind_of(name) for name in item.container.resources.asked}
    return next((kind for kind in DEVICES if kind in kinds), "cpu")


def node_labels(item: TrainingRuntime) -> dict[str, str]:
    """Return the labels of nodes that a runtime itself asks for."""
    return item.pods.spec.node_selector


def pod_labels(item: TrainingRuntime) -> dict[str, str]:
    """Return the labels that a runtime itself puts on the pods in which the training runs."""
    return item.pods.labels


def replicated_jobs(item: TrainingRuntime) -> list[str]:
    """Return the names of the replicated jobs of a runtime, of which pods are named."""
    return [job.name for job in item.replicated_jobs] or [TRAINER]


def initializers(item: TrainingRuntime, name: str) -> list[Container]:
    """Return the containers that Trainer takes for its initializer: it goes by label and name."""
    jobs = [job for job in item.replicated_jobs if job.labels.get(STEP) == name]
    return [one for job in jobs for one in job.pods.spec.containers if one.name == name]


def tolerations(item: TrainingRuntime, device: str) -> list[Toleration]:
    """Return the tolerations of a runtime, and with them that of the taint of its GPUs or TPUs.

    The taint reserves nodes for pods that use such devices. A patch replaces all tolerations.
    """
    added = {"key": taint(item, device), "operator": "Exists", "effect": "NoSchedule"}
    return [*item.pods.spec.tolerations, Toleration(added)]


def taint(item: TrainingRuntime, device: str) -> str | None:
    """Return the taint of the nodes with a runtime's devices; None for the CPU."""
    return devices.taint(device, item.container.resources)


def patches(item: TrainingRuntime, *, restricted: bool, device: str = "cpu") -> dict[str, bool]:
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
    pod = item.pods
    empty = {volume.name for volume in pod.spec.volumes if "emptyDir" in volume.kinds}
    found = {
        "scratch": empty.isdisjoint(mount.name for mount in item.container.mounts),
        "mesh": pod.labels.get(_MESH) != "false",
        "restricted": restricted and bool(podsecurity.lacking(item)),
    }
    if key := taint(item, device):
        found["tolerations"] = not any(one.tolerates(key) for one in pod.spec.tolerations)
    return found


def shared_folder(item: TrainingRuntime) -> str | None:
    """Return the folder that a runtime says all pods see and that outlives them."""
    folder = item.annotations.get(SHARED, "").rstrip("/")
    return folder if folder.startswith("/") else None


def idle_limits(item: TrainingRuntime) -> idle.Limits:
    """Return for how long a runtime lets sessions be idle.

    Raises
    ------
    UsageError
        An annotation is no span of time.
    """
    said = item.annotations
    usual, most = ((name, said.get(name)) for name in (IDLE, IDLE_MOST))
    return idle.Limits.read(usual, most)


def shares_compiled(item: TrainingRuntime) -> bool:
    """Return whether a runtime lets jobs keep what XLA has compiled where pods share a volume."""
    return item.annotations.get(COMPILE_CACHE) == "shared"


def is_on_volume(item: TrainingRuntime, folder: str) -> bool:
    """Return whether a folder is on a volume of the runtime's that outlives its pods."""
    passing = {volume.name for volume in item.pods.spec.volumes if volume.kinds & _PASSING}
    places = [
        mount.path.rstrip("/")
        for mount in item.container.mounts
        if mount.name not in passing and not mount.read_only
    ]
    return any(f"{folder}/".startswith(f"{place}/") for place in places)


def runs_once(item: TrainingRuntime) -> bool:
    """Return whether a cell that fails stays failed: nothing of it is tried again."""
    return not item.max_restarts and all(
        job.backoff_limit == 0 and job.pods.spec.restart_policy == "Never"
        for job in item.replicated_jobs
        if job.name == TRAINER
    )


def is_converted(item: TrainingRuntime) -> bool:
    """Return whether a runtime was made from somebody's JAXJob, and is for others by name only."""
    return CONVERTED in item.labels


def is_slim(item: TrainingRuntime) -> bool:
    """Return whether a runtime's image has less than our others, for jobs that name it."""
    return item.labels.get(f"{PREFIX}/slim") == "true"


def is_deprecated(item: TrainingRuntime) -> bool:
    """Return whether those who run the cluster want another one to be used."""
    return item.labels.get(_SUPPORT) == "deprecated"


def deprecation(item: TrainingRuntime) -> str | None:
    """Return the warning for those who use a runtime that is deprecated; None where it isn't."""
    return say.DEPRECATED(name=item.name) if is_deprecated(item) else None


def describe(item: TrainingRuntime) -> Runtime:
    """Make a line of the list of runtimes."""
    image = item.container.image or None
    deprecated = is_deprecated(item)
    device = device_of(item)
    kind = item.kind
    words = say.RUNTIME(kind=kind, image=image) if image else say.RUNTIME_WITHOUT_IMAGE(kind=kind)
    return Runtime(
        name=item.name,
        backend="kubernetes",
        device=device,
        nodes=(1, MAX_NODES),
        description=say.DEPRECATED_RUNTIME(description=words) if deprecated else words,
        python=item.labels.get(f"{PREFIX}/python"),
        jax=item.labels.get(f"{PREFIX}/jax"),
        devices=devices.brought(device, item.container.resources, node_labels(item)),
        image=image,
        deprecated=deprecated,
    )
