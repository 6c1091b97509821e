"""The rights that are needed in a namespace, and what is lost with each that is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_jax_trainer.backends.kubernetes.api.client import Client

_TRAINER = "trainer.kubeflow.org"


@dataclass(frozen=True)
class Right:
    """A verb on a resource.

    Attributes
    ----------
    namespace, name
        Where it is needed, if not in the namespace of the jobs ("" is the whole cluster), and for
        which object, if not for all.
    without
        What is lost without it.
    needed
        Without it no job can be started.
    shown
        Without it a job's card would show less, and say nothing of it.
    """

    group: str
    resource: str
    verb: str
    without: str
    needed: bool = False
    shown: bool = False
    namespace: str | None = None
    name: str = ""

    @property
    def words(self) -> str:
        """The right as the API's messages name it."""
        of = f" {self.name} of {self.namespace}" if self.name else ""
        return f"{self.verb} {self.resource}{of}"

    @property
    def lack(self) -> str:
        """What is lost, and for want of which right."""
        return f"{self.without}: the right to {self.words} is missing"


_START = "no job can be started"
_LATE = "changes are seen every two seconds only"
_NO_RANKS = "ranks, logs and results can't be shown"
_NO_LOGS = "neither logs, progress nor results can be shown"
_NO_REASON = "why a job waits can often not be told"
_NO_PODS = "why pods are not created can't be told"
_NO_OWNERS = "pods can't be matched to jobs, so only logs and the state are shown"
_NO_FORWARD = "results over 4 MiB need a --store"
# Together they are runtimes/rights.yaml.
RIGHTS = (
    Right(_TRAINER, "trainjobs", "create", _START, needed=True),
    Right(_TRAINER, "trainjobs", "get", _START, needed=True),
    Right("", "secrets", "create", _START, needed=True),
    Right(_TRAINER, "trainjobs", "list", _LATE, shown=True),
    Right(_TRAINER, "trainjobs", "watch", _LATE, shown=True),
    Right(
        _TRAINER,
        "trainjobs",
        "patch",
        "jobs can't be suspended or resumed, and runtimes that "
        "run a failed cell again can't be stopped",
    ),
    Right(_TRAINER, "trainjobs", "delete", "jobs can't be cancelled"),
    Right(_TRAINER, "trainingruntimes", "get", "runtimes of the namespace can't be used"),
    Right(_TRAINER, "trainingruntimes", "list", "runtimes of the namespace are not found"),
    Right(
        _TRAINER,
        "clustertrainingruntimes",
        "get",
        "runtimes of the cluster can't be chosen by name",
        namespace="",
    ),
    Right(
        _TRAINER,
        "clustertrainingruntimes",
        "list",
        "runtimes of the cluster are found by their names (--runtime) only",
        namespace="",
    ),
    Right("", "pods", "get", "logs of containers that were started again may be mixed up"),
    Right("", "pods", "list", _NO_RANKS, shown=True),
    Right("", "pods", "watch", "ranks are seen every two seconds only", shown=True),
    Right("", "pods/log", "get", _NO_LOGS, shown=True),
    Right("", "pods/portforward", "get", _NO_FORWARD),
    Right("", "pods/portforward", "create", _NO_FORWARD),
    Right("", "events", "list", _NO_REASON),
    Right("", "events", "watch", _NO_REASON),
    Right("batch", "jobs", "list", f"{_NO_PODS}, {_NO_OWNERS}", shown=True),
    Right("batch", "jobs", "watch", _NO_PODS),
    Right("jobset.x-k8s.io", "jobsets", "get", _NO_OWNERS, shown=True),
    Right(
        "",
        "secrets",
        "get",
        "neither --env-from-secret nor attaching to a job from another machine works fully",
    ),
)
# For --max-restarts alone: the second Role of that file.
_ONCE = "jobs can't start again by themselves (--max-restarts)"
RESTARTS = tuple(
    Right(_TRAINER, "trainingruntimes", verb, _ONCE) for verb in ("create", "patch", "delete")
)

_KUEUE = "kueue.x-k8s.io"
_NO_ORDER = "why a job waits in its queue, and for how many others, can't be told"
_NO_CHECK = "a queue that doesn't exist is told only after the submission"
_NO_CLASS = "a class that doesn't exist is told only after the submission"
VERSION = Right(
    "apps",
    "deployments",
    "get",
    "the version can't be told, so that it is taken for 0.16",
    namespace="kueue-system",
    name="kueue-controller-manager",
)
# Together they are runtimes/queue-rights.yaml: for jobs in queues, which do without, too.
QUEUE_RIGHTS = (
    Right(_KUEUE, "localqueues", "get", _NO_CHECK),
    Right(_KUEUE, "localqueues", "list", _NO_CHECK),
    Right(_KUEUE, "workloads", "list", _NO_ORDER),
    Right(_KUEUE, "workloads", "watch", _NO_ORDER),
    Right(_KUEUE, "workloads", "patch", "jobs in a queue can't be suspended or resumed"),
    Right(_KUEUE, "workloadpriorityclasses", "get", _NO_CLASS, namespace=""),
    Right(_KUEUE, "workloadpriorityclasses", "list", _NO_CLASS, namespace=""),
    Right(
        _KUEUE, "clusterqueues", "get", "what is free can't be offered to choose from", namespace=""
    ),
    VERSION,
)


def find(verb: str, resource: str) -> Right:
    """Find a right; one that is not in the list is made up."""
    for right in (*RIGHTS, *QUEUE_RIGHTS):
        if (right.verb, right.resource) == (verb, resource):
            return right
    return Right("", resource, verb, "something can't be shown")


def missing(client: Client, wanted: Sequence[Right] = RIGHTS) -> list[Right]:
    """Ask the cluster which rights this user lacks for jobs in the client's namespace.

    Raises
    ------
    ApiError, Unreachable
        The cluster doesn't tell.
    """
    return [right for right in wanted if not _allowed(client, right)]


def _allowed(client: Client, right: Right) -> bool:
    resource, _, sub = right.resource.partition("/")
    asked = {
        "namespace": client.namespace if right.namespace is None else right.namespace,
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": sub,
        "name": right.name,
    }
    answer = client.request(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        body={
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        },
    )
    return bool((answer.get("status") or {}).get("allowed"))
