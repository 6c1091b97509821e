"""Objects of the Kubernetes API, read into types as they arrive.

Each keeps the JSON that the API sent, for those who show it, change it or write it back; all others
ask for what they need by name. What is missing, or is not of the kind that the API has there, reads
as empty: names and messages in it were written by others.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

RANK = "batch.kubernetes.io/job-completion-index"
ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
MESSAGE = 4000  # characters of a message that are read
TRAINER = "node"  # the replicated Job, and the container, that train
_STARTING = ("ContainerCreating", "PodInitializing")
_SKEW = 60.0  # seconds by which a kubelet may be late, or a clock off
_SIGNALS = {number.value for number in signal.Signals}


def seconds(stamp: object) -> float | None:
    """Read one of the API's times."""
    try:
        when = datetime.fromisoformat(str(stamp))
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def mapping(value: object) -> dict[str, Any]:
    """Return a JSON object; an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[dict[str, Any]]:
    """Return the JSON objects of a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def texts(value: object) -> dict[str, str]:
    """Return a JSON object of strings, such as labels."""
    return {str(name): str(text) for name, text in mapping(value).items() if text is not None}


@dataclass(frozen=True)
class Part:
    """A JSON object of the API.

    Attributes
    ----------
    json
        As the API sent it.
    """

    json: Mapping[str, Any]

    def text(self, name: str, most: int = MESSAGE) -> str:
        """Return a field as a string, cut; empty where there is none."""
        found = self.json.get(name)
        return "" if found is None else str(found)[:most]

    def number(self, name: str) -> int:
        """Return a field as an integer; 0 where there is none."""
        found = self.json.get(name)
        return int(found) if isinstance(found, (int, float)) else 0

    def within(self, *names: str) -> dict[str, Any]:
        """Return a JSON object that lies deeper; an empty one where there is none."""
        found: Mapping[str, Any] = self.json
        for name in names:
            found = mapping(found.get(name))
        return dict(found)


class Named(Part):
    """A part with a name."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.text("name")


class Said(Part):
    """What somebody says of an object."""

    @property
    def reason(self) -> str:
        """What it is, in one word: ``ImagePullBackOff``, ``OOMKilled``."""
        return self.text("reason")

    @property
    def message(self) -> str:
        """The same in a sentence."""
        return self.text("message")


class OwnerRef(Named):
    """An owner of an object."""

    @property
    def kind(self) -> str:
        """``Job``, ``TrainJob``."""
        return self.text("kind")

    @property
    def uid(self) -> str:
        """Its uid."""
        return self.text("uid")

    @property
    def group(self) -> str:
        """The group of its API; empty for the core's."""
        group, slash, _ = self.text("apiVersion").rpartition("/")
        return group if slash else ""

    @property
    def version(self) -> str:
        """The version of its API."""
        return self.text("apiVersion").rpartition("/")[2]

    @property
    def controls(self) -> bool:
        """Whether it is the one that controls the object."""
        return bool(self.json.get("controller"))


class Condition(Said):
    """A condition in an object's status."""

    @property
    def type(self) -> str:
        """What may be so."""
        return self.text("type")

    @property
    def status(self) -> str:
        """``True``, ``False`` or ``Unknown``."""
        return self.text("status")

    @property
    def what(self) -> str:
        """The sentence, or else the word."""
        return self.message or self.reason

    @property
    def since(self) -> float | None:
        """When it became so, in seconds since the epoch."""
        return seconds(self.json.get("lastTransitionTime"))


class ApiObject(Part):
    """An object with metadata."""

    @cached_property
    def metadata(self) -> Part:
        """Its metadata."""
        return Part(mapping(self.json.get("metadata")))

    @property
    def spec(self) -> Part:
        """Its spec."""
        return Part(mapping(self.json.get("spec")))

    @cached_property
    def status(self) -> Part:
        """Its status; empty where it has none yet."""
        return Part(mapping(self.json.get("status")))

    @property
    def kind(self) -> str:
        """What it is; items of a list don't say it."""
        return self.text("kind")

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.text("name")

    @property
    def namespace(self) -> str:
        """Its namespace; empty for an object of the cluster."""
        return self.metadata.text("namespace")

    @property
    def uid(self) -> str:
        """Its uid; empty before the API has created it."""
        return self.metadata.text("uid")

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return texts(self.metadata.json.get("labels"))

    @property
    def annotations(self) -> dict[str, str]:
        """Its annotations."""
        return texts(self.metadata.json.get("annotations"))

    @property
    def owners(self) -> list[OwnerRef]:
        """Its owners."""
        return [OwnerRef(one) for one in mappings(self.metadata.json.get("ownerReferences"))]

    @cached_property
    def created(self) -> float:
        """When it was created, in seconds since the epoch; 0 where that is not known."""
        return seconds(self.metadata.json.get("creationTimestamp")) or 0.0

    @cached_property
    def deleted(self) -> float | None:
        """When its deletion was asked for; None where it was not."""
        end = seconds(self.metadata.json.get("deletionTimestamp"))
        grace = self.metadata.json.get("deletionGracePeriodSeconds")
        return None if end is None else end - float(grace or 0)

    @cached_property
    def conditions(self) -> list[Condition]:
        """The conditions of its status."""
        return [Condition(one) for one in mappings(self.status.json.get("conditions"))]

    def condition(self, *types: str) -> Condition | None:
        """Return the first condition of these types that is true."""
        found = (one for one in self.conditions if one.type in types and one.status == "True")
        return next(found, None)

    def any_condition(self, kind: str) -> Condition:
        """Return a condition whatever its status is; an empty one where there is none."""
        return next((one for one in self.conditions if one.type == kind), Condition({}))

    def controller(self, kind: str, group: str) -> OwnerRef | None:
        """Return the owner that controls the object, if it is of this kind."""
        owner = next((one for one in self.owners if one.controls), None)
        if owner is None or not owner.uid or not owner.name:
            return None
        return owner if (owner.kind, owner.group) == (kind, group) else None


class Event(ApiObject, Said):
    """An event."""

    @cached_property
    def about(self) -> OwnerRef:
        """The object that it is about."""
        return OwnerRef(mapping(self.json.get("involvedObject")))

    @cached_property
    def time(self) -> float:
        """When it happened last; each of its sources fills in another field."""
        for stamp in (
            mapping(self.json.get("series")).get("lastObservedTime"),
            self.json.get("eventTime"),
            self.json.get("lastTimestamp"),
            self.json.get("firstTimestamp"),
            self.metadata.json.get("creationTimestamp"),
        ):
            when = seconds(stamp) if stamp else None
            if when is not None:
                return when
        return 0.0


class Ended(Said):
    """How a container has ended."""

    @property
    def raw_code(self) -> int:
        """The exit code as the kubelet tells it: 128 and more for a signal."""
        return self.number("exitCode")

    @property
    def code(self) -> int:
        """The exit code; negative is a signal."""
        code, number = self.raw_code, self.number("signal")
        if number:
            return -number
        return 128 - code if code - 128 in _SIGNALS else code

    @property
    def time(self) -> float | None:
        """When."""
        return seconds(self.json.get("finishedAt"))


class Waiting(Said):
    """Why a container waits."""


class ContainerState(Named):
    """The state of a container, as the status of its pod has it."""

    @property
    def runs(self) -> bool:
        """Whether it runs."""
        return "running" in self.within("state")

    @property
    def waiting(self) -> Waiting | None:
        """Why it waits; None where it does not."""
        found = self.within("state", "waiting")
        return Waiting(found) if found else None

    @property
    def waited(self) -> Waiting | None:
        """Why it waited before."""
        found = self.within("lastState", "waiting")
        return Waiting(found) if found else None

    @property
    def ended(self) -> Ended | None:
        """How it has ended; None where it has not."""
        found = self.within("state", "terminated")
        return Ended(found) if found else None

    @property
    def ended_before(self) -> Ended | None:
        """How it ended before its last restart."""
        found = self.within("lastState", "terminated")
        return Ended(found) if found else None

    @property
    def restarts(self) -> int:
        """How often it has started again."""
        return self.number("restartCount")

    @property
    def ready(self) -> bool:
        """Whether the kubelet takes it for ready."""
        return bool(self.json.get("ready"))

    @property
    def has_started(self) -> bool:
        """Whether it does not wait: then it has a log."""
        return "waiting" not in self.within("state")


class Resources(Part):
    """What a container asks for."""

    @property
    def requests(self) -> dict[str, str]:
        """Amounts that it is sure to have."""
        return texts(self.json.get("requests"))

    @property
    def limits(self) -> dict[str, str]:
        """Amounts that it can't exceed."""
        return texts(self.json.get("limits"))

    @property
    def asked(self) -> dict[str, str]:
        """All that is asked for, as a request or as a limit."""
        return {**self.requests, **self.limits}


class Security(Part):
    """The security context of a pod or a container."""

    @property
    def drops(self) -> list[str]:
        """Capabilities that are taken away."""
        return [str(one) for one in self.within("capabilities").get("drop") or []]

    @property
    def adds(self) -> list[str]:
        """Capabilities that are given."""
        return [str(one) for one in self.within("capabilities").get("add") or []]

    @property
    def allows_escalation(self) -> bool:
        """Whether a process can gain more privileges than its parent: unless it is forbidden."""
        return self.json.get("allowPrivilegeEscalation") is not False

    @property
    def is_privileged(self) -> bool:
        """Whether the container runs with all privileges of its node."""
        return bool(self.json.get("privileged"))

    @property
    def runs_as_non_root(self) -> bool | None:
        """Whether root is refused; None where nothing is said."""
        found = self.json.get("runAsNonRoot")
        return found if isinstance(found, bool) else None

    @property
    def is_root(self) -> bool:
        """Whether the user that is named is root."""
        return self.json.get("runAsUser") == 0

    @property
    def seccomp(self) -> str:
        """The type of the seccomp profile; empty where there is none."""
        return str(self.within("seccompProfile").get("type") or "")

    @property
    def proc_mount(self) -> str:
        """How ``/proc`` is mounted."""
        return self.text("procMount") or "Default"

    @property
    def sysctls(self) -> list[str]:
        """The names of the kernel parameters that are set."""
        return [str(one.get("name")) for one in mappings(self.json.get("sysctls"))]

    def within_pod(self, pod: Security) -> Security:
        """Return a container's effective context: its own settings override its pod's."""
        return Security({**pod.json, **self.json})


class Mount(Named):
    """A volume in a container."""

    @property
    def path(self) -> str:
        """Where it is."""
        return self.text("mountPath")

    @property
    def read_only(self) -> bool:
        """Whether the container can't write there."""
        return bool(self.json.get("readOnly"))


class EnvVar(Named):
    """A variable of a container."""

    @property
    def value(self) -> str | None:
        """Its value; None where it comes from elsewhere."""
        found = self.json.get("value")
        return None if found is None else str(found)

    @property
    def secret(self) -> str | None:
        """The name of the Secret that it comes from."""
        return self.within("valueFrom", "secretKeyRef").get("name") or None


class Port(Part):
    """A port of a container."""

    @property
    def on_host(self) -> int:
        """The port of the node that it takes; 0 for none."""
        return self.number("hostPort")


class Container(Named):
    """A container, as a pod or a template describes it."""

    @property
    def image(self) -> str:
        """Its image; empty where there is none."""
        return self.text("image")

    @property
    def resources(self) -> Resources:
        """What it asks for."""
        return Resources(self.within("resources"))

    @property
    def env(self) -> list[EnvVar]:
        """Its variables."""
        return [EnvVar(one) for one in mappings(self.json.get("env"))]

    @property
    def env_from(self) -> list[Part]:
        """The ConfigMaps and Secrets of which all keys become variables."""
        return [Part(one) for one in mappings(self.json.get("envFrom"))]

    @property
    def command(self) -> list[str]:
        """Its command; empty for that of its image."""
        return [str(word) for word in self.json.get("command") or []]

    @property
    def ports(self) -> list[Port]:
        """Its ports."""
        return [Port(one) for one in mappings(self.json.get("ports"))]

    @property
    def mounts(self) -> list[Mount]:
        """Its volumes."""
        return [Mount(one) for one in mappings(self.json.get("volumeMounts"))]

    @property
    def security(self) -> Security:
        """Its security context."""
        return Security(self.within("securityContext"))

    @property
    def is_sidecar(self) -> bool:
        """Whether it is an init container that goes on running."""
        return self.json.get("restartPolicy") == "Always"


class Volume(Named):
    """A volume of a pod."""

    @property
    def claim(self) -> str:
        """The claim that it is of; empty for others."""
        return str(self.within("persistentVolumeClaim").get("claimName") or "")

    @property
    def kinds(self) -> set[str]:
        """What it is: ``emptyDir``; the API takes one of them."""
        return set(self.json) - {"name"}


class Toleration(Part):
    """A toleration of a pod."""

    def tolerates(self, taint: str) -> bool:
        """Return whether pods with it come to nodes that have a taint against scheduling."""
        any_or = self.json.get("key") in (taint, None, "")
        return any_or and self.json.get("effect") in ("NoSchedule", None, "")


class PodSpec(Part):
    """What a pod is to be."""

    @property
    def containers(self) -> list[Container]:
        """Its containers."""
        return [Container(one) for one in mappings(self.json.get("containers"))]

    @property
    def init_containers(self) -> list[Container]:
        """Its init containers, sidecars among them."""
        return [Container(one) for one in mappings(self.json.get("initContainers"))]

    @property
    def volumes(self) -> list[Volume]:
        """Its volumes."""
        return [Volume(one) for one in mappings(self.json.get("volumes"))]

    @property
    def tolerations(self) -> list[Toleration]:
        """Its tolerations."""
        return [Toleration(one) for one in mappings(self.json.get("tolerations"))]

    @property
    def node_selector(self) -> dict[str, str]:
        """The labels that its node has to have."""
        return texts(self.json.get("nodeSelector"))

    @property
    def node(self) -> str:
        """The node that it is on; empty where it has none yet."""
        return self.text("nodeName")

    @property
    def gates(self) -> list[str]:
        """What has to happen before it is scheduled."""
        return [str(one.get("name")) for one in mappings(self.json.get("schedulingGates"))]

    @property
    def restart_policy(self) -> str:
        """``Never``, ``OnFailure`` or ``Always``."""
        return self.text("restartPolicy")

    @property
    def host_namespaces(self) -> list[str]:
        """The namespaces of its node that it shares: ``hostNetwork``."""
        return [one for one in ("hostNetwork", "hostPID", "hostIPC") if self.json.get(one)]

    @property
    def security(self) -> Security:
        """The security context of all its containers."""
        return Security(self.within("securityContext"))

    def container(self, name: str) -> Container:
        """Return a container by its name; an empty one where there is none."""
        return next((one for one in self.containers if one.name == name), Container({}))

    @property
    def trainer(self) -> Container:
        """The container that trains; the first where none has its name."""
        found = self.containers or [Container({})]
        return next((one for one in found if one.name == TRAINER), found[0])


class Pod(ApiObject):
    """A pod."""

    @cached_property
    def of(self) -> PodSpec:
        """What it is to be."""
        return PodSpec(mapping(self.json.get("spec")))

    @property
    def phase(self) -> str:
        """``Pending``, ``Running``, ``Succeeded`` or ``Failed``."""
        return self.status.text("phase")

    @property
    def address(self) -> str:
        """Its IP address."""
        return self.status.text("podIP")

    @property
    def reason(self) -> str:
        """Why it is so, in one word: ``Evicted``."""
        return self.status.text("reason")

    @property
    def message(self) -> str:
        """Why it is so, in a sentence."""
        return self.status.text("message")

    def clock_ahead(self, now: float) -> float:
        """Return by how much its node's clock is ahead of the cluster's; negative if it is behind.

        A kubelet takes no pod before it is scheduled, and none in the future.

        Parameters
        ----------
        now
            The time here.

        Returns
        -------
        float
            In seconds. 0 unless the clock is off by more than a minute for certain: a kubelet may
            be late.
        """
        taken = seconds(self.status.json.get("startTime"))
        scheduled = self.any_condition("PodScheduled").since
        if taken is None or scheduled is None:
            return 0.0
        return taken - scheduled if taken < scheduled - _SKEW or taken > now + _SKEW else 0.0

    @property
    def role(self) -> str:
        """The replicated Job that it belongs to."""
        return self.labels.get(ROLE) or "pod"

    @cached_property
    def trains(self) -> bool:
        """Whether it may be a rank: it is of no other replicated Job."""
        return self.labels.get(ROLE, "") in ("", TRAINER)

    @cached_property
    def rank(self) -> int | None:
        """Its rank; None for other pods."""
        number = self.labels.get(RANK) or self.annotations.get(RANK, "")
        return int(number) if self.trains and number.isdecimal() else None

    @cached_property
    def states(self) -> list[ContainerState]:
        """The states of its containers, the training one first."""
        kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        found = [
            ContainerState(one) for kind in kinds for one in mappings(self.status.json.get(kind))
        ]
        return sorted(found, key=lambda one: one.name != TRAINER)

    @property
    def init_states(self) -> list[ContainerState]:
        """The states of its init containers."""
        return [
            ContainerState(one) for one in mappings(self.status.json.get("initContainerStatuses"))
        ]

    @property
    def image(self) -> str:
        """The image of the training container, with its digest; empty as long as none is there."""
        return next((one.text("imageID") for one in self.states[:1]), "")

    @property
    def runs(self) -> bool:
        """Whether the training container runs."""
        return any(one.runs for one in self.states[:1])

    @property
    def waiting(self) -> Waiting | None:
        """Why the first container waits that is not just starting; None where none does."""
        found = (one.waiting for one in self.states)
        return next((one for one in found if one and one.reason not in ("", *_STARTING)), None)

    def log_of(self, container: str) -> int | str:
        """Return whose log a container writes: a rank, or the name of the container's own.

        ``dataset-initializer``, ``rank-0.istio-init``; of several pods each has its numbers, and a
        container that is not called like its replicated Job has its name.
        """
        rank = self.rank
        if rank is not None:
            return rank if container == TRAINER else f"rank-{rank}.{container}"
        role = self.role
        labels = self.labels
        numbers = labels.get("jobset.sigs.k8s.io/job-index") or "0", labels.get(RANK) or "0"
        name = role if numbers == ("0", "0") else "_".join((role, *numbers))
        return name if container == role and not role.startswith("rank-") else f"{name}.{container}"


class Job(ApiObject):
    """A Job."""

    @property
    def started(self) -> float | None:
        """When it was started, or resumed."""
        return seconds(self.status.json.get("startTime"))

    @property
    def pods(self) -> PodTemplate:
        """The template of its pods."""
        return PodTemplate(self.spec.within("template"))


class JobSet(ApiObject):
    """A JobSet."""

    @property
    def restarts(self) -> int:
        """How often all its Jobs have started again."""
        return self.status.number("restarts")

    @property
    def max_restarts(self) -> int:
        """How often they may."""
        return Part(self.spec.within("failurePolicy")).number("maxRestarts")


class Secret(ApiObject):
    """A Secret."""

    @property
    def data(self) -> dict[str, str]:
        """What it holds, each in base64."""
        return texts(self.json.get("data"))


class TrainJob(ApiObject):
    """A TrainJob."""

    @property
    def suspended(self) -> bool:
        """Whether it is to be suspended."""
        return bool(self.spec.json.get("suspend"))

    @property
    def runtime(self) -> OwnerRef:
        """The runtime that it refers to."""
        return OwnerRef(self.spec.within("runtimeRef"))

    @property
    def nodes(self) -> int:
        """How many nodes it trains on."""
        return Part(self.spec.within("trainer")).number("numNodes") or 1

    @property
    def deadline(self) -> int:
        """Seconds that it may take; 0 where there is no bound."""
        return self.spec.number("activeDeadlineSeconds")

    @property
    def has_jobs(self) -> bool:
        """Whether its status tells of Jobs."""
        return bool(self.status.json.get("jobsStatus"))

    @property
    def env(self) -> list[EnvVar]:
        """The variables that it sets."""
        return [EnvVar(one) for one in mappings(self.spec.within("trainer").get("env"))]

    @property
    def own_secret(self) -> str | None:
        """The name of the Secret that this package sends with a job."""
        found = (one.secret for one in self.env if one.name == "JAXTRAIN_FRAME_KEY")
        return next(found, None)

    @property
    def mounts_bundle(self) -> bool:
        """Whether its pods get their bundle as files, from a volume that is patched in."""
        return any(one.name == "JAXTRAIN_BUNDLE_FILES" for one in self.env)


class Workload(ApiObject):
    """A Workload: a job, as Kueue sees it."""

    @property
    def queue(self) -> str:
        """Its queue."""
        return self.spec.text("queueName")

    @property
    def is_active(self) -> bool:
        """Whether Kueue may let it in: nobody has stopped it."""
        return self.spec.json.get("active") is not False

    @property
    def priority(self) -> int:
        """Its priority."""
        return self.spec.number("priority")


class FlavorResource(Named):
    """A resource of a flavor: its quota, or how much of it is taken."""

    @property
    def nominal(self) -> str:
        """The queue's own quota."""
        return self.text("nominalQuota") or "0"

    @property
    def borrowing_limit(self) -> str | None:
        """How much of it the queue can borrow; None where there is no bound."""
        return None if self.json.get("borrowingLimit") is None else self.text("borrowingLimit")

    @property
    def total(self) -> str:
        """How much of it is taken."""
        return self.text("total") or "0"


class Flavor(Named):
    """A flavor of resources, in a queue of Kueue."""

    @property
    def resources(self) -> list[FlavorResource]:
        """Its resources."""
        return [FlavorResource(one) for one in mappings(self.json.get("resources"))]


class Queue(ApiObject):
    """A queue of Kueue."""

    @property
    def reserved(self) -> list[Flavor]:
        """What its Workloads have taken."""
        return [Flavor(one) for one in mappings(self.status.json.get("flavorsReservation"))]


class LocalQueue(Queue):
    """A LocalQueue: a queue of Kueue, as its namespace sees it."""

    @property
    def cluster_queue(self) -> str:
        """The ClusterQueue behind it; empty where it names none."""
        return self.spec.text("clusterQueue")

    @property
    def pending(self) -> int:
        """How many Workloads wait in it."""
        return self.status.number("pendingWorkloads")

    @property
    def admitted(self) -> int:
        """How many of its Workloads are admitted."""
        return self.status.number("admittedWorkloads")


class ClusterQueue(Queue):
    """A ClusterQueue: a queue of Kueue, with its quotas."""

    @property
    def flavors(self) -> list[Flavor]:
        """Its quotas."""
        groups = mappings(self.spec.json.get("resourceGroups"))
        return [Flavor(one) for group in groups for one in mappings(group.get("flavors"))]

    @property
    def cohort(self) -> str:
        """Whom it borrows from; empty where it has its own quotas alone."""
        # Kueue 0.15 and older have another name for it.
        return self.spec.text("cohortName") or self.spec.text("cohort")


class PriorityClass(ApiObject):
    """A WorkloadPriorityClass."""

    @property
    def value(self) -> int | None:
        """The priority; None where it has none."""
        return None if self.json.get("value") is None else self.number("value")

    @property
    def description(self) -> str:
        """What it is for."""
        return self.text("description")


class PodTemplate(Part):
    """A template of pods."""

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the pods."""
        return texts(self.within("metadata").get("labels"))

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the pods."""
        return texts(self.within("metadata").get("annotations"))

    @property
    def spec(self) -> PodSpec:
        """What the pods are to be."""
        return PodSpec(self.within("spec"))


class ReplicatedJob(Named):
    """A replicated Job of a JobSet, or of a runtime."""

    @property
    def labels(self) -> dict[str, str]:
        """Labels of its Jobs."""
        return texts(self.within("template", "metadata").get("labels"))

    @property
    def job(self) -> Part:
        """The spec of its Jobs."""
        return Part(self.within("template", "spec"))

    @property
    def backoff_limit(self) -> int | None:
        """How often its pods are tried again; None where that is left to Kubernetes."""
        known = self.job.json.get("backoffLimit") is not None
        return self.job.number("backoffLimit") if known else None

    @property
    def pods(self) -> PodTemplate:
        """The template of its pods."""
        return PodTemplate(self.within("template", "spec", "template"))


class TrainingRuntime(ApiObject):
    """A TrainingRuntime or a ClusterTrainingRuntime."""

    @property
    def has_jax_policy(self) -> bool:
        """Whether Trainer sets up JAX in its pods."""
        return self.spec.within("mlPolicy").get("jax") is not None

    @property
    def job_set(self) -> Part:
        """The spec of the JobSets that are made from it."""
        return Part(self.spec.within("template", "spec"))

    @property
    def replicated_jobs(self) -> list[ReplicatedJob]:
        """Its replicated Jobs."""
        return [ReplicatedJob(one) for one in mappings(self.job_set.json.get("replicatedJobs"))]

    @property
    def max_restarts(self) -> int:
        """How often all its Jobs start again."""
        return Part(self.job_set.within("failurePolicy")).number("maxRestarts")

    @property
    def pods(self) -> PodTemplate:
        """The template of the pods in which the training runs; empty where there is none."""
        found = (one.pods for one in self.replicated_jobs if one.name == TRAINER)
        return next(found, PodTemplate({}))

    @property
    def container(self) -> Container:
        """The container in which the training runs; an empty one where there is none."""
        return self.pods.spec.container(TRAINER)


class ResourceQuota(ApiObject):
    """A quota of a namespace."""

    @property
    def bounds(self) -> dict[str, str]:
        """The most that there may be, as it was asked for."""
        return texts(self.spec.json.get("hard"))

    @property
    def hard(self) -> dict[str, str]:
        """The most that there may be, as it is enforced."""
        return texts(self.status.json.get("hard"))

    @property
    def used(self) -> dict[str, str]:
        """How much of that there is."""
        return texts(self.status.json.get("used"))


class Limit(Part):
    """What a LimitRange says of one kind of thing."""

    @property
    def type(self) -> str:
        """``Container``, ``Pod``."""
        return self.text("type")

    @property
    def max(self) -> dict[str, str]:
        """The most that it may ask for."""
        return texts(self.json.get("max"))

    @property
    def default(self) -> dict[str, str]:
        """Its limits where it has none of its own."""
        return texts(self.json.get("default"))

    @property
    def default_request(self) -> dict[str, str]:
        """Its requests where it has none of its own."""
        return texts(self.json.get("defaultRequest"))


class LimitRange(ApiObject):
    """Limits of a namespace."""

    @property
    def limits(self) -> list[Limit]:
        """Its limits."""
        return [Limit(one) for one in mappings(self.spec.json.get("limits"))]
