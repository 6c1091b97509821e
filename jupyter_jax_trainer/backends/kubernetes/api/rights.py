"""The rights that are needed in a namespace, and what is lost with each that is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_jax_trainer.backends.kubernetes.api.client import Client
from jupyter_jax_trainer.messages import cluster as say

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
        if not self.name:
            return f"{self.verb} {self.resource}"
        return say.RIGHT_ON_ONE(
            verb=self.verb, resource=self.resource, name=self.name, namespace=self.namespace
        )

    @property
    def lack(self) -> str:
        """What is lost, and for want of which right."""
        return say.NO_PERMISSION(right=self.words, lost=self.without)


# Together they are runtimes/rights.yaml.
RIGHTS = (
    Right(_TRAINER, "trainjobs", "create", say.NO_START(), needed=True),
    Right(_TRAINER, "trainjobs", "get", say.NO_START(), needed=True),
    Right("", "secrets", "create", say.NO_START(), needed=True),
    Right(_TRAINER, "trainjobs", "list", say.LATE_CHANGES(), shown=True),
    Right(_TRAINER, "trainjobs", "watch", say.LATE_CHANGES(), shown=True),
    Right(
        _TRAINER,
        "trainjobs",
        "patch",
        say.NO_PATCH(),
    ),
    Right(_TRAINER, "trainjobs", "delete", say.NO_CANCEL()),
    Right(_TRAINER, "trainingruntimes", "get", say.NO_OWN_RUNTIMES()),
    Right(_TRAINER, "trainingruntimes", "list", say.NO_LIST_OF_OWN_RUNTIMES()),
    Right(
        _TRAINER,
        "clustertrainingruntimes",
        "get",
        say.NO_RUNTIMES_BY_NAME(),
        namespace="",
    ),
    Right(
        _TRAINER,
        "clustertrainingruntimes",
        "list",
        say.NO_LIST_OF_RUNTIMES(),
        namespace="",
    ),
    Right("", "pods", "get", say.LOGS_MIXED()),
    Right("", "pods", "list", say.NO_RANKS(), shown=True),
    Right("", "pods", "watch", say.LATE_RANKS(), shown=True),
    Right("", "pods/log", "get", say.NO_LOGS(), shown=True),
    Right("", "pods/portforward", "get", say.NO_FORWARD()),
    Right("", "pods/portforward", "create", say.NO_FORWARD()),
    Right("", "events", "list", say.NO_WAIT_REASON()),
    Right("", "events", "watch", say.NO_WAIT_REASON()),
    Right("batch", "jobs", "list", say.NO_JOBS(), shown=True),
    Right("batch", "jobs", "watch", say.NO_POD_REASON()),
    Right("jobset.x-k8s.io", "jobsets", "get", say.NO_OWNERS(), shown=True),
    Right(
        "",
        "secrets",
        "get",
        say.NO_SECRETS(),
    ),
)
# What asks ranks, and sends them what is too large for Secrets.
CHANNEL = tuple(right for right in RIGHTS if right.resource == "pods/portforward")
# For --max-restarts alone: the second Role of that file.
RESTARTS = tuple(
    Right(_TRAINER, "trainingruntimes", verb, say.NO_RESTARTS())
    for verb in ("create", "patch", "delete")
)

_KUEUE = "kueue.x-k8s.io"
VERSION = Right(
    "apps",
    "deployments",
    "get",
    say.NO_KUEUE_VERSION(),
    namespace="kueue-system",
    name="kueue-controller-manager",
)
# Together they are runtimes/queue-rights.yaml: for jobs in queues, which do without, too.
QUEUE_RIGHTS = (
    Right(_KUEUE, "localqueues", "get", say.NO_QUEUE_CHECK()),
    Right(_KUEUE, "localqueues", "list", say.NO_QUEUE_CHECK()),
    Right(_KUEUE, "workloads", "list", say.NO_QUEUE_REASON()),
    Right(_KUEUE, "workloads", "watch", say.NO_QUEUE_REASON()),
    Right(_KUEUE, "workloads", "patch", say.NO_QUEUE_SUSPEND()),
    Right(_KUEUE, "workloadpriorityclasses", "get", say.NO_CLASS_CHECK(), namespace=""),
    Right(_KUEUE, "workloadpriorityclasses", "list", say.NO_CLASS_CHECK(), namespace=""),
    Right(_KUEUE, "clusterqueues", "get", say.NO_FREE_QUOTA(), namespace=""),
    VERSION,
)


def find(verb: str, resource: str) -> Right:
    """Find a right; one that is not in the list is made up."""
    for right in (*RIGHTS, *QUEUE_RIGHTS):
        if (right.verb, right.resource) == (verb, resource):
            return right
    return Right("", resource, verb, say.NOT_SHOWN())


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
