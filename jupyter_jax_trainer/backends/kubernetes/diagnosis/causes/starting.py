"""Causes for which a pod that has its node does not start its container."""

from __future__ import annotations

import re
from collections.abc import Callable

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api.objects import Event, Pod
from jupyter_jax_trainer.backends.kubernetes.api.observed import Seen
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.cause import Cause, Words, of_pods
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.ended import how_it_ended
from jupyter_jax_trainer.text import duration

_CONFIG = "container waits: `CreateContainerConfigError`"
_START = "container waits: `RunContainerError`, `CreateContainerError`, or ended: `StartError`"
_MOUNT = "event `FailedMount` or `FailedAttachVolume` of the pod"
_NOT_STARTED = ("StartError", "RunContainerError", "CreateContainerError")
_SECRET = r'(?i)\bsecrets? "(?P<name>[^"]+)" not found|non-existent secret key: (?P<key>\S+)'


def _config(pod: Pod) -> str | None:
    waits = pod.waiting
    return waits.message if waits and waits.reason == "CreateContainerConfigError" else None


def _start(pod: Pod) -> str | None:
    """Return why the container could not be started, whether it is tried again or not."""
    for one in pod.states:
        for found in (one.waiting or one.ended, one.waited or one.ended_before):
            if found is not None and found.reason in _NOT_STARTED:
                return found.message
        if one.runs:
            return None
    return None


def _unmounted(seen: Seen, pod: Pod) -> str | None:
    """Return why a volume can't be mounted; None once the pod has come further."""
    failed = seen.last_event([pod], "FailedMount", "FailedAttachVolume")
    return None if failed is None or _further(seen, pod, failed) else failed.message


def _further(seen: Seen, pod: Pod, event: Event) -> bool:
    """Return whether a pod has got past the problem that an event reports."""
    if any(state.runs for state in pod.states):
        return True
    later = seen.last_event([pod], "Pulling", "Pulled", "Created", "Started")
    return later is not None and later.time >= event.time


def _finder(
    source: Callable[[Seen, Pod], str | None], pattern: str = "", own: bool | None = None
) -> Callable[[Seen], Words | None]:
    """Find pods of which a source says something that fits.

    Parameters
    ----------
    own
        Whether the name found has to be that of the job's own Secret; None where it may be both.
    """
    compiled = re.compile(pattern, re.DOTALL)

    def find(seen: Seen) -> Words | None:
        secret = seen.trainjob.own_secret if seen.trainjob else None

        def look(pod: Pod) -> Words | None:
            message = source(seen, pod)
            found = compiled.search(message) if message is not None else None
            if found is None or message is None:
                return None
            groups = {name: value for name, value in found.groupdict().items() if value}
            if own is not None and own != _is_own(groups.get("name"), secret):
                return None
            return {"image": pod.of.trainer.image, "what": _tail(message), **groups}

        return of_pods(seen, look)

    return find


def _is_own(name: str | None, secret: str | None) -> bool:
    """Return whether this is one of the Secrets of the job: ``job``, ``job-1``, ..."""
    return (
        bool(name and secret)
        and re.fullmatch(rf"{re.escape(str(secret))}(-\d+)?", str(name)) is not None
    )


def _tail(message: str) -> str:
    """Leave out through whose hands a message went."""
    hands = "desc = |unable to start container process: |SetUp failed for "
    tail = re.sub(f"^.*?(?:{hands})", "", message)
    return tail.removesuffix(": unknown")


def _sending(late: bool) -> Callable[[Seen], Words | None]:
    """Find pods that wait for the job's own Secret, since a short or since a long time."""
    sources = (
        _finder(lambda seen, pod: _config(pod), _SECRET, own=True),
        _finder(_unmounted, _SECRET, own=True),
    )

    def find(seen: Seen) -> Words | None:
        facts = sources[0](seen) or sources[1](seen)
        created = seen.trainjob.created if seen.trainjob else 0.0
        waited = seen.now - (created or seen.now)
        if facts is None or late != (waited > timeouts.SECRET.seconds):
            return None
        return {**facts, "time": duration(waited)}

    return find


def _from_config(pattern: str) -> Callable[[Seen], Words | None]:
    return _finder(lambda seen, pod: _config(pod), pattern)


def _from_start(pattern: str) -> Callable[[Seen], Words | None]:
    return _finder(lambda seen, pod: _start(pod), pattern)


def _any_secret(seen: Seen) -> Words | None:
    return _finder(lambda seen, pod: _config(pod), _SECRET, own=False)(seen) or _finder(
        _unmounted, _SECRET, own=False
    )(seen)


def _any_map(seen: Seen) -> Words | None:
    pattern = r'configmap "(?P<name>[^"]+)" not found'
    return _from_config(pattern)(seen) or _finder(_unmounted, pattern)(seen)


def _sandbox(seen: Seen) -> Words | None:
    def look(pod: Pod) -> Words | None:
        event = seen.last_event([pod], "FailedCreatePodSandBox")
        if event is None or _further(seen, pod, event):
            return None
        if pod.any_condition("PodReadyToStartContainers").status == "True":
            return None
        return {"what": _tail(event.message)}

    return of_pods(seen, look)


def _gates(seen: Seen) -> Words | None:
    def look(pod: Pod) -> Words | None:
        gates = pod.of.gates
        if pod.any_condition("PodScheduled").reason != "SchedulingGated" and not gates:
            return None
        return {"gates": ", ".join(gates)}

    return of_pods(seen, look)


def _loop(seen: Seen) -> Words | None:
    def look(pod: Pod) -> Words | None:
        waits = pod.waiting
        if waits is None or waits.reason != "CrashLoopBackOff":
            return None
        return {"how": how_it_ended(seen, pod)}

    return of_pods(seen, look)


STARTING = (
    Cause(
        id="gated",
        where="pod condition `PodScheduled=False`, `SchedulingGated`",
        sentence="{who} can't be scheduled yet: scheduling gate {gates}",
        hint="The controller that set the gate must remove it; ask a cluster administrator.",
        find=_gates,
    ),
    Cause(
        id="payload",
        where=f"{_CONFIG} with the job's own Secret; {_MOUNT}",
        sentence="the job's code and data are being sent",
        find=_sending(late=False),
    ),
    Cause(
        id="payload-lost",
        where=f"{_CONFIG} with the job's own Secret; {_MOUNT}",
        sentence="the job's Secret {name} is missing after {time}: its submission was "
        "interrupted, or the Secret was deleted",
        hint="Cancel the job and run the cell again.",
        find=_sending(late=True),
    ),
    Cause(
        id="secret-missing",
        where=f"{_CONFIG}; {_MOUNT}",
        sentence="there is no Secret {name} in this namespace",
        hint="Create it (kubectl create secret generic {name} --from-literal=NAME=VALUE), and the "
        "job continues; or remove --env-from-secret {name}.",
        find=_any_secret,
    ),
    Cause(
        id="configmap-missing",
        where=f"{_CONFIG}; {_MOUNT}",
        sentence="there is no ConfigMap {name} in this namespace",
        hint="Create it, and the job continues; the runtime needs it.",
        find=_any_map,
    ),
    Cause(
        id="key-missing",
        where=_CONFIG,
        sentence="the {kind} {name} has no key {key}",
        hint="Add it, and the job continues.",
        find=_from_config(
            r"couldn't find key (?P<key>\S+) in (?P<kind>Secret|ConfigMap) "
            r"(?:[^/\s]+/)?(?P<name>\S+)"
        ),
    ),
    Cause(
        id="root-image",
        where=_CONFIG,
        sentence="the image {image} would run as root, which the runtime or the namespace forbids",
        hint="Use an image with a numeric USER of its own, such as that of jax-cpu.",
        find=_from_config(
            "non-root policy|image will run as root|image has non-numeric user|run as non-root"
        ),
    ),
    Cause(
        id="config",
        where=_CONFIG,
        sentence="the container can't be set up: {what}",
        hint="Show this to a cluster administrator.",
        find=_from_config(""),
    ),
    Cause(
        id="no-program",
        where=_START,
        sentence="the image {image} has no {program}",
        hint="Use an image with a shell, Python and JAX (--image).",
        find=_from_start(
            r'exec: "(?P<program>[^"]+)": (?:executable file not found|stat \S+: no such file)'
        ),
    ),
    Cause(
        id="other-processor",
        where=_START,
        sentence="the image {image} does not support the CPU architecture of the node",
        hint="Choose an image for the node's architecture, or nodes that fit the image.",
        find=_from_start("exec format error"),
    ),
    Cause(
        id="start",
        where=_START,
        sentence="the container can't be started: {what}",
        hint="Show this to a cluster administrator.",
        find=_from_start(""),
    ),
    Cause(
        id="crash-loop",
        where="container waits: `CrashLoopBackOff`; the exit is in `lastState`",
        sentence="crash loop in {who}: it {how}, and waits for its restart",
        hint="`%jaxtrain logs` shows its last output. A runtime that does not restart a failed "
        "cell, such as jax-cpu, gives more details.",
        find=_loop,
    ),
    Cause(
        id="volume-in-use",
        where=_MOUNT,
        sentence="{who} waits for a volume that is in use on another node",
        hint="A ReadWriteOnce claim serves one node at a time: end what uses it, use one node, or "
        "use a ReadWriteMany claim (--volume).",
        find=_finder(_unmounted, "Multi-Attach error"),
    ),
    Cause(
        id="mount",
        where=_MOUNT,
        sentence="{who} can't mount a volume: {what}",
        hint="Check --volume; if it is right, show this to a cluster administrator.",
        find=_finder(_unmounted),
    ),
    Cause(
        id="sandbox",
        where="event `FailedCreatePodSandBox` of the pod",
        sentence="the node can't set up {who}: {what}",
        hint="This is retried automatically. If it persists, the node's network or container "
        "runtime has a problem: tell a cluster administrator.",
        find=_sandbox,
    ),
)
