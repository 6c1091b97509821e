"""NetworkPolicies: whether the pods of a job reach each other.

A policy isolates the pods that it selects; what another allows these same pods adds up. It is
looked at from both sides, for two ranks of a job that stand for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    RANK,
    ROLE,
    TRAINER,
    ApiObject,
    Part,
    TrainingRuntime,
    mappings,
    texts,
)
from jupyter_jax_trainer.doctor.finding import WARN, Finding
from jupyter_jax_trainer.messages import Label, Message, identify
from jupyter_jax_trainer.worker.pod.relay import PORT

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


class Requirement(Part):
    """What a selector demands of a label."""

    @property
    def key(self) -> str:
        """The label."""
        return self.text("key")

    @property
    def operator(self) -> str:
        """``In``, ``NotIn``, ``Exists``, ``DoesNotExist``."""
        return self.text("operator")

    @property
    def values(self) -> list[str]:
        """The values that it speaks of."""
        return [str(one) for one in self.json.get("values") or []]


class Selector(Part):
    """A selector of pods, or of namespaces; an empty one selects all."""

    @property
    def requirements(self) -> list[Requirement]:
        """All that has to be so."""
        labels = texts(self.json.get("matchLabels"))
        plain = [{"key": key, "operator": "In", "values": [labels[key]]} for key in labels]
        more = mappings(self.json.get("matchExpressions"))
        return [Requirement(one) for one in (*plain, *more)]


class Peer(Part):
    """Whom a rule lets through."""

    @property
    def is_addresses(self) -> bool:
        """Whether it is told by its addresses."""
        return "ipBlock" in self.json

    @property
    def namespaces(self) -> Selector:
        """Its namespaces; without them, that of the policy."""
        return Selector(self.within("namespaceSelector"))

    @property
    def pods(self) -> Selector:
        """Its pods."""
        return Selector(self.within("podSelector"))


class PolicyPort(Part):
    """A port that a rule opens."""

    def is_of(self, port: int) -> bool:
        """Return whether it may be a TCP port."""
        first = self.json.get("port")
        if self.json.get("protocol", "TCP") != "TCP":
            return False
        if not isinstance(first, int):
            return True  # all, or one by its name
        return first <= port <= int(self.json.get("endPort", first))


class Rule(Part):
    """A rule of a policy."""

    def peers(self, kind: str) -> list[Peer]:
        """Return whom it lets through; none where all are meant."""
        return [Peer(one) for one in mappings(self.json.get("from" if kind == "Ingress" else "to"))]

    @property
    def ports(self) -> list[PolicyPort]:
        """The ports that it opens; none where all are meant."""
        return [PolicyPort(one) for one in mappings(self.json.get("ports"))]


class NetworkPolicy(ApiObject):
    """A NetworkPolicy."""

    @property
    def types(self) -> list[str]:
        """What it is about: ``Ingress``, ``Egress``."""
        found = self.spec.json.get("policyTypes")
        more = ["Egress"] if self.spec.json.get("egress") else []
        return [str(one) for one in found or ["Ingress", *more]]

    @property
    def pods(self) -> Selector:
        """The pods that it isolates."""
        return Selector(self.spec.within("podSelector"))

    def rules(self, kind: str) -> list[Rule]:
        """Return the rules for one direction."""
        return [Rule(one) for one in mappings(self.spec.json.get(kind.lower()))]


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

    def matches(self, selector: Selector, *, unsure: bool) -> bool:
        """Return whether a selector takes it in; `unsure` is the answer in doubt."""
        return all(self._meets(one, unsure) for one in selector.requirements)

    def _meets(self, one: Requirement, unsure: bool) -> bool:
        key, operator, values = one.key, one.operator, one.values
        there = key in self.labels or key in self.always
        if operator in ("Exists", "DoesNotExist") and there:
            return operator == "Exists"
        if key not in self.labels and key.startswith(self.others):
            return unsure
        value = self.labels.get(key)
        answers = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": False,
            "DoesNotExist": True,
        }
        return answers.get(operator, unsure)


NETWORK_POLICY = Label("Network policy")
CUT_OFF = Message("pods of a job are cut off from each other by {policies} ({rules})")
CUT_OFF_OF = Message(
    "pods of a job of {runtimes} are cut off from each other by {policies} ({rules})"
)
CHANNEL_CLOSED = Message(
    "rank 0 can't ask the others where they are: {policies} ({rules}) close TCP port {port}"
)
CHANNEL_CLOSED_OF = Message(
    "rank 0 of jobs of {runtimes} can't ask the others where they are: {policies} ({rules}) close "
    "TCP port {port}"
)
OPEN_PORT = Message(
    "Jobs run without it, but `where` shows only what ranks last reported. To open it, allow "
    "{{protocol: TCP, port: {port}}} between the pods of a job."
)
ALLOW_INGRESS = Message(
    "Jobs of more than one node need that traffic: add a NetworkPolicy with "
    "ingress: [{{from: [{{podSelector: {{}}}}]}}]."
)
ALLOW_EGRESS = Message(
    "Jobs of more than one node need that traffic: add a NetworkPolicy with "
    "egress: [{{to: [{{podSelector: {{}}}}]}}], and one that allows DNS."
)


def examine(
    policies: Sequence[NetworkPolicy],
    found: Sequence[TrainingRuntime],
    namespace: str,
    labels: Labels,
) -> Iterator[Finding]:
    """Find policies that keep the ranks of a job from each other, or rank 0 from asking others.

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
    items = found or [TrainingRuntime({})]
    for kind, advice in (("Ingress", ALLOW_INGRESS), ("Egress", ALLOW_EGRESS)):
        cut: dict[str, list[str]] = {}
        closed: dict[str, list[str]] = {}
        for item in items:
            first, second = _ranks(item)
            asked = (second, first) if kind == "Ingress" else (first, second)
            both = ((first, second), (second, first))
            if names := _cutting(policies, both, around, kind, _COORDINATOR):
                cut.setdefault(names, []).append(item.name)
            elif names := _cutting(policies, [asked], around, kind, PORT):
                closed.setdefault(names, []).append(item.name)
        for names, of in cut.items():
            about = {"policies": names, "rules": kind.lower()}
            said = (
                CUT_OFF(**about)
                if len(of) == len(items)
                else CUT_OFF_OF(**about, runtimes=", ".join(of))
            )
            yield Finding(WARN, NETWORK_POLICY(), said, advice())
        for names, of in closed.items():
            about = {"policies": names, "rules": kind.lower(), "port": str(PORT)}
            said = (
                CHANNEL_CLOSED(**about)
                if len(of) == len(items)
                else CHANNEL_CLOSED_OF(**about, runtimes=", ".join(of))
            )
            yield Finding(WARN, NETWORK_POLICY(), said, OPEN_PORT(port=PORT))


def _ranks(item: TrainingRuntime) -> tuple[_Thing, _Thing]:
    """Return the pods of the first two ranks of a job."""
    own = item.pods.labels
    first, second = (
        _Thing({**own, ROLE: TRAINER, RANK: rank}, _OTHERS, _ALWAYS) for rank in ("0", "1")
    )
    return first, second


def _cutting(
    policies: Sequence[NetworkPolicy],
    pairs: Sequence[tuple[_Thing, _Thing]],
    around: _Thing,
    kind: str,
    port: int,
) -> str:
    """Name the policies that cut the first of two ranks off the second; mostly there is none.

    A policy counts as isolating only if it surely selects the ranks, and as allowing if it may.
    """
    of_kind = [policy for policy in policies if kind in policy.types]
    for subject, peer in pairs:
        isolating, allowing = (
            [policy for policy in of_kind if subject.matches(policy.pods, unsure=unsure)]
            for unsure in (False, True)
        )
        if isolating and not any(
            _lets_through(rule, kind, peer, around, port)
            for policy in allowing
            for rule in policy.rules(kind)
        ):
            return ", ".join(policy.name for policy in isolating)
    return ""


def _lets_through(rule: Rule, kind: str, pod: _Thing, around: _Thing, port: int) -> bool:
    """Return whether a rule may let another rank of the same job through; in doubt it does."""
    peers, ports = rule.peers(kind), rule.ports
    return (not peers or any(_is_meant(peer, pod, around) for peer in peers)) and (
        not ports or any(one.is_of(port) for one in ports)
    )


def _is_meant(peer: Peer, pod: _Thing, around: _Thing) -> bool:
    if peer.is_addresses:
        return True  # nobody knows yet which addresses the pods will have
    return around.matches(peer.namespaces, unsure=True) and pod.matches(peer.pods, unsure=True)


identify(globals(), "doctor")
