"""Causes for which the scheduler leaves pods waiting, read from its sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api.objects import Pod
from jupyter_jax_trainer.backends.kubernetes.api.observed import Seen, line
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.cause import Cause, Words, of_pods
from jupyter_jax_trainer.text import joined

_WHERE = "pod condition `PodScheduled=False`, event `FailedScheduling`"
_LACKS = "Insufficient "
_SELECTOR = "didn't match Pod's node affinity"
_TAINT = "taint"
_FULL = "Too many pods"
_CORDONED = "were unschedulable"
_WORDS = {
    _SELECTOR: "without the required labels",
    _FULL: "at their maximum number of pods",
    _CORDONED: "cordoned",
}


@dataclass(frozen=True)
class Sentence:
    """What the scheduler says of one pod.

    Attributes
    ----------
    total
        How many nodes there are.
    reasons
        Why not there, with the number of nodes to which each applies.
    about_pod
        What stands there instead, where it has looked at no node.
    never
        No node could take the pod even if nothing else ran there.
    """

    total: int
    reasons: dict[str, int]
    about_pod: str = ""
    never: bool = False


def read(message: str) -> Sentence:
    """Read ``0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had ...``."""
    found = re.match(r"\d+/(\d+) nodes are available: (.*)", message, re.DOTALL)
    if found is None:
        return Sentence(0, {}, "" if message.startswith("no nodes available") else message)
    body, _, rest = found[2].partition(". ")
    reasons = re.findall(r"(?:^|, )(\d+) (.+?)(?=, \d+ |$)", body.rstrip("."))
    return Sentence(
        total=int(found[1]),
        reasons={reason: int(count) for count, reason in reasons},
        about_pod="" if reasons else body,
        never="Preemption is not helpful" in rest and "No preemption victims" not in rest,
    )


def why(sentence: Sentence, pod: Pod) -> str:
    """Say in plain words why no node takes a pod."""
    lacking = [name.removeprefix(_LACKS) for name in sentence.reasons if name.startswith(_LACKS)]
    everywhere = sum(sentence.reasons.values()) == sentence.total * len(sentence.reasons)
    if lacking and len(lacking) == len(sentence.reasons) and everywhere:
        what = joined(_amount(name, pod) for name in lacking)
        return f"0/{sentence.total} nodes have {what}{'' if sentence.never else ' free'}"
    # What is lacking comes first: taints are often those of nodes that are not for jobs at all.
    ordered = sorted(sentence.reasons.items(), key=lambda item: not item[0].startswith(_LACKS))
    parts = [f"{count} {_plainly(reason, pod)}" for reason, count in ordered]
    return f"0/{sentence.total} nodes fit: {', '.join(parts)}"


def _plainly(reason: str, pod: Pod) -> str:
    """Return what keeps a pod from some nodes, to stand after their number."""
    if reason.startswith(_LACKS):
        return f"without {_amount(reason.removeprefix(_LACKS), pod)} free"
    if _TAINT in reason:
        return f"tainted {_taint(reason, pod)['taint']}".strip()
    for part, words in _WORDS.items():
        if part in reason:
            return words
    return reason.removeprefix("node(s) ")


def _amount(resource: str, pod: Pod) -> str:
    resources = pod.of.trainer.resources
    asked = line(resources.requests.get(resource) or resources.limits.get(resource, ""), 20)
    if resource == "cpu":
        return f"{asked or 'enough'} CPU{'' if asked == '1' else 's'}"
    if "/" in resource:
        return resource if asked in ("", "1") else f"{asked} {resource}"
    return f"{asked or 'enough'} {resource}"


def _unscheduled(pod: Pod) -> Sentence | None:
    found = pod.any_condition("PodScheduled")
    if found.status != "False" or found.reason == "SchedulingGated":
        return None
    return read(found.message)


def _finder(
    fits: Callable[[str], bool], extra: Callable[[str, Pod], Words] = lambda reason, pod: {}
) -> Callable[[Seen], Words | None]:
    """Find pods of which the scheduler gives a reason that fits."""

    def look(pod: Pod) -> Words | None:
        sentence = _unscheduled(pod)
        if sentence is None:
            return None
        for reason in (*sentence.reasons, sentence.about_pod):
            if reason and fits(reason):
                return {"why": why(sentence, pod), "message": reason, **extra(reason, pod)}
        return None

    return lambda seen: of_pods(seen, look)


def _lacks(reason: str, device: bool) -> bool:
    return reason.startswith(_LACKS) and ("/" in reason) == device


def _wanted(_: str, pod: Pod) -> Words:
    listed = ", ".join(f"{name}={value}" for name, value in pod.of.node_selector.items())
    return {"labels": listed or "as the affinity of the pods requires"}


def _taint(reason: str, pod: Pod) -> Words:
    found = re.search(r"\{([^:}]+)", reason)
    return {"taint": f"({found[1]})" if found else ""}


def _claim(reason: str, pod: Pod) -> Words:
    found = re.search(r'persistentvolumeclaim "([^"]+)"', reason)
    claims = [volume.claim for volume in pod.of.volumes if volume.claim]
    return {"claim": found[1] if found else ", ".join(claims) or "of the pods"}


def _no_nodes(seen: Seen) -> Words | None:
    def look(pod: Pod) -> Words | None:
        sentence = _unscheduled(pod)
        return {} if sentence and not sentence.total and not sentence.about_pod else None

    return of_pods(seen, look)


def _scaling(seen: Seen) -> Words | None:
    """Find pods for which the autoscaler adds nodes."""

    def look(pod: Pod) -> Words | None:
        event = seen.last_event([pod], "TriggeredScaleUp", "NotTriggerScaleUp", "Nominated")
        if _unscheduled(pod) is None or event is None or event.reason == "NotTriggerScaleUp":
            return None
        return {} if seen.now - event.time < timeouts.SCALE_UP.seconds else None

    return of_pods(seen, look)


UNSCHEDULABLE = (
    Cause(
        id="nodes-are-added",
        where="event `TriggeredScaleUp` or `Nominated` of the pod",
        sentence="{who} can't be scheduled yet: the cluster is adding nodes",
        hint="This takes a few minutes if the provider has such machines.",
        find=_scaling,
    ),
    Cause(
        id="claim-missing",
        where=_WHERE,
        sentence="{who} can't be scheduled: there is no PersistentVolumeClaim {claim}",
        hint="Check --volume: the claim must be in the job's namespace.",
        find=_finder(
            lambda reason: "persistentvolumeclaim" in reason and "not found" in reason, _claim
        ),
    ),
    Cause(
        id="claim-unbound",
        where=_WHERE,
        sentence="{who} can't be scheduled: the PersistentVolumeClaim {claim} has no volume yet",
        hint="`kubectl describe pvc {claim}` shows why; often its storage class does not exist.",
        find=_finder(
            lambda reason: (
                "unbound immediate PersistentVolumeClaims" in reason
                or "persistentvolumeclaim" in reason
            ),
            _claim,
        ),
    ),
    Cause(
        id="no-accelerators",
        symptom="No node has that many free accelerators, such as GPUs or TPUs",
        where=_WHERE,
        sentence="{who} can't be scheduled: {why}",
        hint="Ask for fewer (--nodes, --devices-per-node), use --device cpu, or wait if other "
        "jobs use them.",
        find=_finder(lambda reason: _lacks(reason, True)),
    ),
    Cause(
        id="no-room",
        symptom="No node has that much free CPU or memory",
        where=_WHERE,
        sentence="{who} can't be scheduled: {why}",
        hint="Ask for less (--nodes, --cpu, --memory), or wait until other jobs end.",
        find=_finder(lambda reason: _lacks(reason, False)),
    ),
    Cause(
        id="no-such-nodes",
        where=_WHERE,
        sentence="{who} can't be scheduled: no suitable node is labelled {labels}",
        hint="Check --accelerator and --topology, or the runtime; `kubectl get nodes "
        "--show-labels` lists the labels.",
        find=_finder(lambda reason: _SELECTOR in reason, _wanted),
    ),
    Cause(
        id="tainted",
        where=_WHERE,
        sentence="{who} can't be scheduled: the nodes are tainted {taint}",
        hint="The nodes are not ready, or reserved. A cluster administrator can add a toleration "
        "to the runtime.",
        find=_finder(lambda reason: _TAINT in reason, _taint),
    ),
    Cause(
        id="nodes-are-full",
        symptom="The nodes run their maximum number of pods",
        where=_WHERE,
        sentence="{who} can't be scheduled: {why}",
        hint="Wait until other pods end, or use fewer --nodes.",
        find=_finder(lambda reason: _FULL in reason),
    ),
    Cause(
        id="nodes-are-cordoned",
        where=_WHERE,
        sentence="{who} can't be scheduled: nodes are cordoned",
        hint="They are probably in maintenance: ask a cluster administrator.",
        find=_finder(lambda reason: _CORDONED in reason),
    ),
    Cause(
        id="no-nodes",
        where=_WHERE,
        sentence="{who} can't be scheduled: the cluster has no nodes at the moment",
        hint="Tell a cluster administrator.",
        find=_no_nodes,
    ),
    Cause(
        id="unschedulable",
        where=_WHERE,
        sentence="{who} can't be scheduled: {message}",
        hint="Show this to a cluster administrator.",
        find=_finder(lambda reason: True),
    ),
)
