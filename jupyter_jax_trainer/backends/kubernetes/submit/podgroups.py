"""Runtimes whose pods start together or not at all (podGroupPolicy), and what that takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client
from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime
from jupyter_jax_trainer.doctor.finding import FAIL, OK, Finding
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import submit as say

# By the policy's name: what has the PodGroups that Trainer makes for it, and their API.
_NEEDED = {
    "coscheduling": ("the coscheduling plugin", "/apis/scheduling.x-k8s.io/v1alpha1"),
    "volcano": ("Volcano", "/apis/scheduling.volcano.sh/v1beta1"),
}
ADVICE = say.INSTALL_SCHEDULER()


class Gang(NamedTuple):
    """How the pods of a runtime start together.

    Attributes
    ----------
    policy
        The name in ``podGroupPolicy``.
    by
        What sees to it.
    installed
        Whether that is there.
    """

    policy: str
    by: str
    installed: bool


def of_runtime(client: Client, item: TrainingRuntime) -> Gang | None:
    """Return how the pods of a runtime start together; None where each starts by itself."""
    policies = item.spec.within("podGroupPolicy")
    for policy, (by, api) in _NEEDED.items():
        if policies.get(policy) is not None:
            try:
                client.request("GET", api)
            except ApiError as error:
                if error.status not in (403, 404):
                    raise
                return Gang(policy, by, installed=error.status == 403)
            return Gang(policy, by, installed=True)
    return None


def check(client: Client, item: TrainingRuntime) -> None:
    """Refuse a job that would wait for ever.

    Raises
    ------
    UsageError
        The cluster lacks what the runtime's policy needs.
    """
    gang = of_runtime(client, item)
    if gang and not gang.installed:
        raise UsageError(
            say.GANG_UNAVAILABLE(
                runtime=item.name, policy=gang.policy, scheduler=gang.by, advice=ADVICE
            )
        )


def examine(client: Client, item: TrainingRuntime) -> Iterator[Finding]:
    """Say what a check of the runtime finds; nothing where it has no such policy."""
    gang = of_runtime(client, item)
    if gang and gang.installed:
        yield Finding(OK, say.GANGS(), say.GANG_POLICY(policy=gang.policy))
    elif gang:
        unmet = say.GANG_POLICY_UNMET(policy=gang.policy, scheduler=gang.by)
        yield Finding(FAIL, say.GANGS(), unmet, ADVICE)
