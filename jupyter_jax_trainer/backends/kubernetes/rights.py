"""The rights that are needed in a namespace, and what is lost with each that is missing."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_jax_trainer.backends.kubernetes.client import Client

_TRAINER = "trainer.kubeflow.org"


@dataclass(frozen=True)
class Right:
    """A verb on a resource.

    Attributes
    ----------
    without
        What is lost without it.
    needed
        Without it no job can be started.
    """

    group: str
    resource: str
    verb: str
    without: str
    needed: bool = False

    @property
    def words(self) -> str:
        """The right as the API's messages name it."""
        return f"{self.verb} {self.resource}" + (f" ({self.group})" if self.group else "")


_LATE = "changes are seen every two seconds only"
_NO_RANKS = "ranks and logs can't be shown"
_NO_REASON = "why a job waits can often not be told"
RIGHTS = (
    Right(_TRAINER, "trainjobs", "create", "no job can be started", needed=True),
    Right(_TRAINER, "trainjobs", "get", "no job can be followed", needed=True),
    Right("", "secrets", "create", "no job can be started", needed=True),
    Right(_TRAINER, "trainjobs", "list", _LATE),
    Right(_TRAINER, "trainjobs", "watch", _LATE),
    Right(_TRAINER, "trainjobs", "patch", "jobs can't be suspended or resumed, and runtimes that "
          "run a failed cell again can't be stopped"),
    Right(_TRAINER, "trainjobs", "delete", "jobs can't be cancelled"),
    Right(_TRAINER, "trainingruntimes", "get", "runtimes of the namespace can't be used"),
    Right(_TRAINER, "trainingruntimes", "list", "runtimes of the namespace are not found"),
    Right(_TRAINER, "clustertrainingruntimes", "get", "runtimes of the cluster can't be used"),
    Right(_TRAINER, "clustertrainingruntimes", "list", "runtimes of the cluster are not found"),
    Right("", "pods", "get", _NO_RANKS),
    Right("", "pods", "list", _NO_RANKS),
    Right("", "pods", "watch", "ranks are seen every two seconds only"),
    Right("", "pods/log", "get", "neither logs, progress nor results can be shown"),
    Right("", "pods/portforward", "create", "results over 4 MiB need a --store"),
    Right("", "events", "list", _NO_REASON),
    Right("", "events", "watch", _NO_REASON),
    Right("batch", "jobs", "list", "why pods are not created can't be told"),
    Right("batch", "jobs", "watch", "why pods are not created can't be told"),
    Right("", "secrets", "get", "--env-from-secret, and attaching to a job from another machine"),
)  # fmt: skip


def missing(client: Client) -> list[Right]:
    """Ask the cluster which of the rights this user lacks in the client's namespace.

    Raises
    ------
    ApiError, Unreachable
        The cluster doesn't tell.
    """
    return [right for right in RIGHTS if not _allowed(client, right)]


def _allowed(client: Client, right: Right) -> bool:
    resource, _, sub = right.resource.partition("/")
    asked = {
        "namespace": client.namespace, "verb": right.verb, "group": right.group,
        "resource": resource, "subresource": sub,
    }  # fmt: skip
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
