"""From a JAXJob of the training operator (kubeflow.org/v1) to a TrainJob, with a report.

A JAXJob says everything itself. A TrainJob says what differs from job to job, and leaves the rest
to a runtime; so a TrainingRuntime of the job's own is made, unless a runtime is named. The facts
about both sides are those of the training operator 1.9 and of Trainer 2.3.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jupyter_jax_trainer.backends.base import Converted
from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    ApiObject,
    Part,
    PodTemplate,
    TrainingRuntime,
    TrainJob,
)
from jupyter_jax_trainer.backends.kubernetes.submit.queues import QUEUE
from jupyter_jax_trainer.backends.kubernetes.submit.restarts import FINAL
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import (
    API,
    CONVERTED,
    PREFIX,
    STEP,
    max_name,
    to_yaml,
)
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.installation import install_command
from jupyter_jax_trainer.messages import jaxjob as say
from jupyter_jax_trainer.options import checks

_CONTAINER, _OLD_CONTAINER = "node", "jax"
_PORT, _OLD_PORT = 29500, 6666
_RANK = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_RESTARTS = 6  # where a JAXJob says no number, it restarts without end
# Conditions of a JAXJob. One that is suspended still has Created.
_ENDED = {"Succeeded", "Failed"}
_ACTIVE = {"Created", "Running", "Restarting"}
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Of a container, what the TrainJob itself says; and of a pod, what it may change in a runtime.
_TRAINER = ("image", "command", "args", "env")
_PATCHES = (
    "serviceAccountName",
    "volumes",
    "imagePullSecrets",
    "securityContext",
    "nodeSelector",
    "affinity",
    "tolerations",
)
_PATCHES_OF_CONTAINER = ("volumeMounts", "securityContext")


class JaxJob(ApiObject):
    """A JAXJob; `read` has checked what is read of it."""

    @property
    def nodes(self) -> int:
        """How many processes it has."""
        return int(self._worker.json.get("replicas", 1))

    @property
    def restart_policy(self) -> str:
        """``Never``, ``OnFailure``, ``Always`` or ``ExitCode``."""
        return self._worker.text("restartPolicy") or "Never"

    @property
    def template(self) -> PodTemplate:
        """The template of its pods."""
        return PodTemplate(self._worker.within("template"))

    @property
    def run_policy(self) -> Part:
        """How it runs and ends."""
        return Part(self.spec.within("runPolicy"))

    @property
    def is_queued(self) -> bool:
        """Whether Kueue steers it."""
        return QUEUE in self.labels

    @property
    def states(self) -> set[str]:
        """The types of its conditions that are true."""
        return {one.type for one in self.conditions if one.status == "True"}

    @property
    def _worker(self) -> Part:
        return Part(self.spec.within("jaxReplicaSpecs", "Worker"))


class _Restarts(NamedTuple):
    """When a job restarts: parts of the specs of a JobSet and of its Job."""

    job_set: dict[str, Any]
    job: dict[str, Any]


@dataclass
class Conversion:
    """What a JAXJob becomes.

    Attributes
    ----------
    documents
        A TrainingRuntime where one is needed, and the TrainJob; none of a job that has ended.
    before
        What to do before they are applied.
    changed
        What is done in another way now, a sentence each.
    lost
        What has no counterpart, and what to do about it.
    """

    documents: list[TrainingRuntime | TrainJob] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def report(self) -> str:
        """Return all that somebody should know before applying it."""
        parts = []
        for title, lines in (
            (say.BEFORE(), self.before),
            (say.CHANGED(), self.changed),
            (say.LOST(), self.lost),
        ):
            if lines:
                parts.append("\n".join([title, *(f"  - {line}" for line in lines)]))
        return "\n".join(parts) or say.NOTHING_TO_KNOW()


def convert_all(text: str, source: str, runtime: str | None, *, ended: bool) -> Converted:
    """Turn the JAXJobs in a text into TrainJobs; `Backend.convert` says more.

    Raises
    ------
    UsageError
        There is none, or one that the training operator would refuse.
    """
    jobs = [job for job in _objects(text, source) if job.get("kind") == "JAXJob"]
    if not jobs:
        raise UsageError(say.NO_JAXJOB(file=source))
    found = [(job.name, convert(job, runtime, ended=ended)) for job in map(read, jobs)]
    documents = [document for _, one in found for document in one.documents]
    return Converted(
        yaml=to_yaml(documents).rstrip("\n") if documents else "",
        reports=[f"JAXJob {name}\n{one.report()}" for name, one in found],
    )


def _objects(text: str, source: str) -> list[Mapping[str, Any]]:
    try:
        import yaml
    except ImportError:
        raise UsageError(say.NO_YAML(), install_command("kubernetes")) from None
    try:
        documents = [one for one in yaml.safe_load_all(text) if isinstance(one, Mapping)]
    except yaml.YAMLError as error:
        raise UsageError(say.NOT_YAML(file=source, error=error)) from None
    lists = [one["items"] for one in documents if isinstance(one.get("items"), list)]
    return documents + [one for items in lists for one in items if isinstance(one, Mapping)]


def read(found: object) -> JaxJob:
    """Read a JAXJob from parsed YAML.

    Raises
    ------
    UsageError
        It is none, or one that the training operator would refuse.
    """
    if not isinstance(found, dict) or not found.get("kind"):
        raise UsageError(say.NO_OBJECT())
    kind, version = found["kind"], found.get("apiVersion")
    if kind != "JAXJob" or version != "kubeflow.org/v1":
        raise UsageError(say.ANOTHER_KIND(kind=kind, version=version))
    _check(found)
    return JaxJob(found)


def convert(job: JaxJob, runtime: str | None = None, *, ended: bool = False) -> Conversion:
    """Turn a JAXJob into a TrainJob.

    Parameters
    ----------
    runtime
        A ClusterTrainingRuntime to build on; without it, the job gets a TrainingRuntime of its own.
    ended
        Convert a job that has ended, too: it would be run again.

    Raises
    ------
    UsageError
        It can't be one: its name is too long, or no container is the one that trains.
    """
    found = Conversion()
    if not _look_at_status(job, ended, found):
        return found
    pod = copy.deepcopy(dict(job.template.spec.json))
    container = _take_container(pod, found)
    _check_name(job.name, job.nodes)
    _look_for_old_names(job.name, container, found)
    trainer = _trainer(job.name, job.nodes, container)
    kind = "ClusterTrainingRuntime" if runtime else "TrainingRuntime"
    reference = {"apiGroup": API.split("/")[0], "kind": kind, "name": runtime or job.name}
    body: dict[str, Any] = {"runtimeRef": reference, "trainer": trainer}
    body |= _run_policy(job.run_policy.json, found)
    if runtime is None:
        found.documents.append(_runtime(job, pod, _restarts(job, found)))
    else:
        if patch := _patch(job.template, pod, container, runtime, found):
            body["runtimePatches"] = [patch.json]
            if job.is_queued:
                found.lost.append(say.QUEUE_DROPS_PATCHES(label=QUEUE, runtime=runtime))
        found.lost.append(say.RUNTIME_RESTARTS(runtime=runtime))
    found.documents.append(
        TrainJob(
            {
                "apiVersion": API,
                "kind": "TrainJob",
                "metadata": _metadata(job.metadata.json),
                "spec": body,
            }
        )
    )
    return found


# ---------------------------------------------------------------------------- what there is


def _check(job: Mapping[str, Any]) -> None:
    try:
        name, replicas = job["metadata"]["name"], job["spec"]["jaxReplicaSpecs"]
        checks.job_name("metadata.name", name)
        if set(replicas) != {"Worker"}:
            raise UsageError(say.ONLY_WORKER())
        nodes = replicas["Worker"].get("replicas", 1)
        if type(nodes) is not int or nodes < 1:
            raise UsageError(say.BAD_REPLICAS(replicas=nodes))
        containers = replicas["Worker"]["template"]["spec"]["containers"]
        if not containers:
            raise UsageError(say.NO_CONTAINER())
        for container in containers:
            _check_container(container)
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(say.INCOMPLETE(error=error)) from None


def _check_container(container: Mapping[str, Any]) -> None:
    """Look at what is read of a container; the rest is passed on as it is."""
    for what in ("command", "args"):
        words = container.get(what) or []
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UsageError(say.NOT_STRINGS(field=what, value=words))
    for one in container.get("env") or []:
        if not isinstance(one.get("name"), str):
            raise UsageError(say.UNNAMED_VARIABLE(variable=one))
    if not all(isinstance(port, Mapping) for port in container.get("ports") or []):
        raise TypeError("a port")


def _check_name(name: str, nodes: int) -> None:
    longest = max_name([_CONTAINER], nodes)
    if len(name) > longest:
        raise UsageError(say.NAME_TOO_LONG(name=name, longest=longest))


def _look_at_status(job: JaxJob, ended: bool, found: Conversion) -> bool:
    """Return whether a job is to be converted; of one still in its cluster, say what to do."""
    true = job.states
    if end := true & _ENDED:
        if not ended:
            found.lost.append(say.HAS_ENDED(end=min(end).lower()))
        return ended
    # Kueue resumes what is suspended.
    if true & _ACTIVE and (job.is_queued or "Suspended" not in true):
        what = say.DELETE if job.is_queued else say.DELETE_OR_SUSPEND
        found.before.append(what(name=job.name))
    return True


def _take_container(pod: dict[str, Any], found: Conversion) -> dict[str, Any]:
    """Return the container that trains, under its new name; the pod keeps it."""
    containers: list[dict[str, Any]] = pod["containers"]
    named = [one for one in containers if one.get("name") == _OLD_CONTAINER]
    if not named and len(containers) > 1:
        raise UsageError(say.NO_JAX_CONTAINER())
    container = (named or containers)[0]
    found.changed.append(say.CONTAINER_RENAMED(old=container.get("name"), new=_CONTAINER))
    container["name"] = _CONTAINER
    ports = container.get("ports") or []
    if any(port.get("containerPort") == _OLD_PORT for port in ports):
        container["ports"] = [port for port in ports if port.get("containerPort") != _OLD_PORT]
        found.changed.append(say.PORT_MOVED(port=_PORT, old=_OLD_PORT))
    for port in container.get("ports") or []:
        if not port.get("name"):  # Trainer 2.3 puts its own port in the place of one without
            number = port.get("containerPort")
            taken = {one.get("name") for one in container["ports"]}
            names = (f"port-{number}", f"port-{number}-{port.get('protocol', 'TCP')}".lower())
            port["name"] = next((name for name in names if name not in taken), names[-1])
            found.changed.append(say.PORT_NAMED(number=number, name=port["name"]))
    if not container.get("ports"):
        container.pop("ports", None)
    return container


def _look_for_old_names(name: str, container: Mapping[str, Any], found: Conversion) -> None:
    """Find words that mean something of the training operator's."""
    said = [*(container.get("command") or ()), *(container.get("args") or ())]
    said += [str(one.get("value", "")) for one in container.get("env") or ()]
    for words in said:
        for old in dict.fromkeys(re.findall(rf"\b{re.escape(name)}-worker-\d+\b", words)):
            found.lost.append(say.OLD_HOST(old=old))
        if re.search(rf":{_OLD_PORT}\b", words):
            found.lost.append(say.OLD_PORT(port=_OLD_PORT))


# ---------------------------------------------------------------------------- what comes of it


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    kept = {what: metadata[what] for what in ("name", "namespace", "labels") if metadata.get(what)}
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(_LAST_APPLIED, None)
    if annotations:
        kept["annotations"] = annotations
    return kept


def _trainer(name: str, nodes: int, container: dict[str, Any]) -> dict[str, Any]:
    """Say what the processes run; the rest of the container is left in it."""
    trainer: dict[str, Any] = {"numNodes": nodes}
    for what in _TRAINER:
        if value := container.pop(what, None):
            trainer[what] = value
    if resources := container.pop("resources", None):
        trainer["resourcesPerNode"] = resources
    given = trainer.get("env", [])
    names = {one["name"] for one in given}
    # As the training operator named them. Trainer's own are there besides: JAX_PROCESS_ID etc.
    old: list[dict[str, Any]] = [
        {"name": "PYTHONUNBUFFERED", "value": "1"},
        {"name": "COORDINATOR_ADDRESS", "value": f"{name}-node-0-0.{name}"},
        {"name": "COORDINATOR_PORT", "value": str(_PORT)},
        {"name": "NUM_PROCESSES", "value": str(nodes)},
        {"name": "PROCESS_ID", "valueFrom": {"fieldRef": {"fieldPath": _RANK}}},
    ]
    trainer["env"] = [one for one in old if one["name"] not in names] + given
    return trainer


def _run_policy(policy: Mapping[str, Any], found: Conversion) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if (seconds := policy.get("activeDeadlineSeconds")) is not None:
        body["activeDeadlineSeconds"] = seconds
    if policy.get("suspend"):
        body["suspend"] = True
    manager = policy.get("managedBy")
    if manager and manager != "kubeflow.org/training-operator":
        body["managedBy"] = manager
    if policy.get("ttlSecondsAfterFinished") is not None:
        found.lost.append(say.NO_TTL())
    if policy.get("cleanPodPolicy") == "All":
        found.lost.append(say.NO_CLEANUP())
    for what in policy.get("schedulingPolicy") or {}:
        found.lost.append(say.NO_SCHEDULING(label=QUEUE, field=what))
    return body


def _restarts(job: JaxJob, found: Conversion) -> _Restarts:
    """Say when a job restarts.

    A rank that comes back alone can't join the others again, so all of them restart.
    """
    said, times = job.restart_policy, job.run_policy.json.get("backoffLimit")
    made = _Restarts({"failurePolicy": {"maxRestarts": 0}}, {"backoffLimit": 0})
    if said == "Never":
        if times:
            found.changed.append(say.BACKOFF_UNUSED())
        return made
    if times is None:
        times = _RESTARTS
        found.changed.append(say.WAS_UNLIMITED(most=_RESTARTS))
    made.job_set["failurePolicy"]["maxRestarts"] = times
    found.changed.append(say.ALL_RESTART(policy=said, most=times))
    if said == "Always":
        found.changed.append(say.SUCCESS_IS_FINAL())
    if said == "ExitCode":
        # 1 to 127 is a fault of the program; others are signals, which a new start may survive.
        made.job["podFailurePolicy"] = {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {
                        "containerName": _CONTAINER,
                        "operator": "In",
                        "values": list(range(1, 128)),
                    },
                }
            ]
        }
        made.job_set["failurePolicy"]["rules"] = [FINAL.json]
    return made


def _runtime(job: JaxJob, pod: Mapping[str, Any], restarts: _Restarts) -> TrainingRuntime:
    """Make the job's own runtime: its pod, and when it restarts."""
    template = {**job.template.json, "spec": {**pod, "restartPolicy": "Never"}}
    labels = {"trainer.kubeflow.org/framework": "jax", CONVERTED: "jaxjob"}
    body = {**restarts.job, "template": template}
    ancestor = {"labels": {STEP: "trainer"}}
    replicated = {"name": _CONTAINER, "template": {"metadata": ancestor, "spec": body}}
    metadata = job.metadata.json
    kept = {what: metadata[what] for what in ("name", "namespace") if metadata.get(what)}
    return TrainingRuntime(
        {
            "apiVersion": API,
            "kind": "TrainingRuntime",
            "metadata": {**kept, "labels": labels},
            "spec": {
                "mlPolicy": {"numNodes": 1, "jax": {}},
                "template": {"spec": {**restarts.job_set, "replicatedJobs": [replicated]}},
            },
        }
    )


def _patch(
    template: PodTemplate,
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    runtime: str,
    found: Conversion,
) -> Part | None:
    """Return what is changed in a runtime that others use, too."""
    ours = {what: container[what] for what in _PATCHES_OF_CONTAINER if container.get(what)}
    changed = {what: pod[what] for what in _PATCHES if pod.get(what)}
    if ours:
        changed["containers"] = [{"name": _CONTAINER, **ours}]
    for what in _others(pod, container):
        found.lost.append(say.RUNTIME_DECIDES(what=what, runtime=runtime))
    patched: dict[str, Any] = {"spec": changed} if changed else {}
    if about := {
        k: v for k, v in template.within("metadata").items() if k in ("labels", "annotations") and v
    }:
        patched["metadata"] = about
    if not patched:
        return None
    job = {"name": _CONTAINER, "template": {"spec": {"template": patched}}}
    return Part(
        {
            "manager": f"{PREFIX}/convert",
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
        }
    )


def _others(pod: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[str]:
    """Name the parts that no patch can carry."""
    for what, value in pod.items():
        if value and what not in (*_PATCHES, "containers", "restartPolicy"):
            yield say.POD_FIELD(field=what)
    for one in pod["containers"]:
        if one is not container:
            yield say.OTHER_CONTAINER(name=one.get("name"))
    for what, value in container.items():
        if value and what not in (*_PATCHES_OF_CONTAINER, "name"):
            yield say.CONTAINER_FIELD(field=what)
