"""What a job does whose pods have nothing in their way, and what may trouble it then."""

from __future__ import annotations

from jupyter_jax_trainer.backends.kubernetes.api.observed import (
    Json,
    Seen,
    any_condition,
    containers,
    event_time,
    image_of,
    runs,
)
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.cause import Cause, Facts, of_pods
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.ended import how_it_ended
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.endings import last_end
from jupyter_jax_trainer.states import Phase, State
from jupyter_jax_trainer.text import age, ranks_text

_BEGUN = (Phase.ARRIVED, Phase.JOINED, Phase.RUNNING, Phase.FINISHED)


def _silent_node(seen: Seen) -> Facts | None:
    """Find pods whose node has gone silent: the node's own report of them is left as it was.

    A pod whose node says itself that a container is not ready (a sidecar that is started again,
    say) has another trouble.
    """

    def look(pod: Json) -> Facts | None:
        ready = any_condition(pod, "Ready")
        stale = ready.get("status") in ("False", "Unknown") and runs(pod)
        said = any_condition(pod, "ContainersReady").get("status") == "False"
        if not stale or said or not all(state.get("ready") for state in containers(pod)[:1]):
            return None
        return {"node": (pod.get("spec") or {}).get("nodeName")}

    return of_pods(seen, look)


def _pulling(seen: Seen) -> Facts | None:
    def look(pod: Json) -> Facts | None:
        if runs(pod):
            return None
        event = seen.last_event([pod], "Pulling")
        done = seen.last_event([pod], "Pulled", "Failed", "Created", "Started")
        if event is None or (done is not None and event_time(done) >= event_time(event)):
            return None
        return {"image": image_of(pod), "since": event_time(event)}

    pulls = [facts for pod in seen.live.values() if (facts := look(pod)) is not None]
    if not pulls:
        return None
    first = min(float(str(facts["since"])) for facts in pulls)
    return {"image": pulls[0]["image"], "time": age(first, seen.now)}


def _creating(seen: Seen) -> Facts | None:
    return of_pods(seen, lambda pod: None if runs(pod) else {})


def _unmade(seen: Seen) -> Facts | None:
    lacking = sorted(set(range(seen.nodes)) - set(seen.made))
    return {"ranks": ranks_text(lacking)} if lacking else None


def _rendezvous(seen: Seen) -> Facts | None:
    states = list(seen.states[: seen.nodes])
    late = [rank for rank, state in enumerate(states) if state not in _BEGUN]
    if Phase.ARRIVED not in states or not late:
        return None
    return {"ranks": ranks_text(late)}


def _again(seen: Seen) -> Facts | None:
    """Find ranks whose container was started again and has not come to the cell yet."""
    for rank, pod in sorted(seen.live.items()):
        state = seen.states[rank] if rank < len(seen.states) else None
        if runs(pod) and last_end(pod) is not None and state not in (Phase.RUNNING, Phase.FINISHED):
            return {"ranks": ranks_text([rank]), "how": how_it_ended(seen, pod)}
    return None


def _python(seen: Seen) -> Facts | None:
    early = [state for state in seen.states if state in (Phase.WAITING, Phase.STARTING)]
    return {} if early or not seen.states else None


def _joining(seen: Seen) -> Facts | None:
    return {}


RUNNING = (
    Cause(
        id="node-silent",
        symptom="A node does not answer",
        where="pod condition `Ready=False` while its container is reported as running",
        sentence="the node {node} does not answer ({who})",
        hint="If it comes back within a few minutes, the job continues; otherwise its pods are "
        "evicted.",
        state=State.STARTING,
        find=_silent_node,
    ),
    Cause(
        id="pulling",
        symptom="The image is being pulled",
        where="event `Pulling` of the pod, without `Pulled`",
        sentence="the image {image} is being pulled ({time})",
        find=_pulling,
    ),
    Cause(
        id="creating",
        symptom="Containers are being created",
        where="container waits: `ContainerCreating`",
        sentence="the container of {who} is being created",
        find=_creating,
    ),
    Cause(
        id="pods-coming",
        symptom="Pods are not created yet",
        where="the Job has fewer pods than ranks",
        sentence="waits for the pods of {ranks}",
        find=_unmade,
    ),
    Cause(
        id="started-again",
        symptom="A rank was restarted",
        where="container `lastState`, `restartCount`",
        sentence="{ranks} was restarted: it {how}",
        state=State.STARTING,
        find=_again,
    ),
    Cause(
        id="rendezvous",
        symptom="Ranks wait for each other",
        where="messages of the workers",
        sentence="waits at the rendezvous for {ranks}",
        state=State.STARTING,
        find=_rendezvous,
    ),
    Cause(
        id="starting",
        symptom="Python and JAX are starting",
        where="messages of the workers",
        sentence="Python and JAX are starting",
        state=State.STARTING,
        find=_python,
    ),
    Cause(
        id="joining",
        symptom="The ranks are connecting",
        where="messages of the workers",
        sentence="the ranks are connecting to each other",
        state=State.STARTING,
        find=_joining,
    ),
)
