"""NetworkPolicies: whether the pods of a job reach each other.

A policy isolates the pods that it selects; what another allows these same pods adds up. It is
looked at from both sides, for two ranks of a job that stand for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.api.observed import RANK, ROLE, TRAINER
from jupyter_jax_trainer.backends.kubernetes.submit import runtimes
from jupyter_jax_trainer.doctor.finding import WARN, Finding
from jupyter_jax_trainer.messages import doctor as say

Items = Sequence[Mapping[str, Any]]
Labels = Mapping[str, str]

_COORDINATOR = 29500  # as Trainer 2.3 sets it
_NAME = "kubernetes.io/metadata.name"  # every namespace has it
# What others put on the pods of a job: whose key begins so may have any value, or be missing.
_OTHERS = (
    "jobset.sigs.k8s.io/",
    "batch.kubernetes.io/",
    "trainer.kubeflow.org/",
    "kueue.x-k8s.io/",
    "job-name",
    "controller-uid",
    "sidecar.istio.io/inject",
)
# Of these, what each pod of a job has, whatever the value.
_ALWAYS = (
    "jobset.sigs.k8s.io/jobset-name",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/controller-uid",
    "job-name",
    "controller-uid",
)


@dataclass(frozen=True)
class _Thing:
    """A pod or a namespace.

    Attributes
    ----------
    labels
        As far as they are known.
    others
        How keys begin that others may have put there, with any value.
    always
        Of these, the keys that surely are there.
    """

    labels: Labels
    others: tuple[str, ...] = ()
    always: tuple[str, ...] = ()

    def matches(self, selector: Any, *, unsure: bool) -> bool:
        """Return whether a selector takes it in; `unsure` is the answer in doubt."""
        wanted = [
            {"key": key, "operator": "In", "values": [value]}
            for key, value in ((selector or {}).get("matchLabels") or {}).items()
        ]
        wanted += (selector or {}).get("matchExpressions") or []
        return all(self._meets(one, unsure) for one in wanted)

    def _meets(self, one: Mapping[str, Any], unsure: bool) -> bool:
        key, operator, values = one.get("key", ""), one.get("operator"), one.get("values") or []
        there = key in self.labels or key in self.always
        if operator in ("Exists", "DoesNotExist") and there:
            return bool(operator == "Exists")
        if key not in self.labels and key.startswith(self.others):
            return unsure
        value = self.labels.get(key)
        answers = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": False,
            "DoesNotExist": True,
        }
        return answers.get(str(operator), unsure)


def examine(policies: Items, found: Items, namespace: str, labels: Labels) -> Iterator[Finding]:
    """Find policies that keep the ranks of a job from each other.

    Parameters
    ----------
    policies
        The NetworkPolicies of the namespace.
    found
        The runtimes, whose pods have labels of their own.
    labels
        Those of the namespace; none where they may not be read.
    """
    around = _Thing({**labels, _NAME: namespace}, () if labels else ("",))
    for kind, advice in (("Ingress", say.ALLOW_INGRESS), ("Egress", say.ALLOW_EGRESS)):
        cut: dict[str, list[str]] = {}
        items = found or [{}]
        for item in items:
            if names := _cutting(policies, _ranks(item), around, kind):
                cut.setdefault(names, []).append(item.get("metadata", {}).get("name", ""))
        for names, of in cut.items():
            rules = kind.lower()
            said = (
                say.CUT_OFF(policies=names, rules=rules)
                if len(of) == len(items)
                else say.CUT_OFF_OF(policies=names, rules=rules, runtimes=", ".join(of))
            )
            yield Finding(WARN, say.NETWORK_POLICY(), said, advice())


def _ranks(item: Mapping[str, Any]) -> list[_Thing]:
    """Return the pods of the first two ranks of a job."""
    own = runtimes.pod_labels(item) if item else {}
    return [_Thing({**own, ROLE: TRAINER, RANK: rank}, _OTHERS, _ALWAYS) for rank in ("0", "1")]


def _cutting(policies: Items, ranks: Sequence[_Thing], around: _Thing, kind: str) -> str:
    """Name the policies that cut two ranks off each other in one direction; mostly there is none.

    One is blamed only if it surely selects the ranks, and believed to let them through if it may.
    """
    of_kind = [
        policy["spec"] | {"name": policy["metadata"]["name"]}
        for policy in policies
        if kind in _types(policy["spec"])
    ]
    for subject, peer in (ranks, ranks[::-1]):
        isolating, allowing = (
            [spec for spec in of_kind if subject.matches(spec.get("podSelector"), unsure=unsure)]
            for unsure in (False, True)
        )
        if isolating and not any(
            _lets_through(rule, kind, peer, around)
            for spec in allowing
            for rule in spec.get(kind.lower()) or []
        ):
            return ", ".join(spec["name"] for spec in isolating)
    return ""


def _types(spec: Mapping[str, Any]) -> list[str]:
    return list(spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])])


def _lets_through(rule: Mapping[str, Any], kind: str, pod: _Thing, around: _Thing) -> bool:
    """Return whether a rule may let another rank of the same job through; in doubt it does."""
    peers = rule.get("from" if kind == "Ingress" else "to")
    ports = rule.get("ports")
    return (not peers or any(_is_meant(peer, pod, around) for peer in peers)) and (
        not ports or any(_is_coordinators(port) for port in ports)
    )


def _is_meant(peer: Mapping[str, Any], pod: _Thing, around: _Thing) -> bool:
    if "ipBlock" in peer:
        return True  # nobody knows yet which addresses the pods will have
    # Without a namespaceSelector it means pods of the policy's own namespace.
    return around.matches(peer.get("namespaceSelector"), unsure=True) and pod.matches(
        peer.get("podSelector"), unsure=True
    )


def _is_coordinators(port: Mapping[str, Any]) -> bool:
    first = port.get("port")
    if port.get("protocol", "TCP") != "TCP":
        return False
    if not isinstance(first, int):
        return True  # all, or one by its name
    return first <= _COORDINATOR <= int(port.get("endPort", first))
