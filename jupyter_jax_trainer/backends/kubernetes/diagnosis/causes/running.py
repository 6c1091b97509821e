"""What a job with unblocked pods is doing, and what may still trouble it."""

from __future__ import annotations

from jupyter_jax_trainer.backends.kubernetes.api.objects import Pod
from jupyter_jax_trainer.backends.kubernetes.api.observed import Seen
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.cause import Cause, Words, of_pods
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.ended import how_it_ended
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.endings import last_end
from jupyter_jax_trainer.states import Phase, State
from jupyter_jax_trainer.text import age, ranks_text

_BEGUN = (Phase.ARRIVED, Phase.JOINED, Phase.RUNNING, Phase.FINISHED)


def _silent_node(seen: Seen) -> Words | None:
    """Find pods whose node has gone silent: the node's own report of them is left as it was.

    A pod whose node says itself that a container is not ready (a sidecar that is started again,
    say) has another trouble.
    """

    def look(pod: Pod) -> Words | None:
        stale = pod.any_condition("Ready").status in ("False", "Unknown") and pod.runs
        said = pod.any_condition("ContainersReady").status == "False"
        if not stale or said or not all(state.ready for state in pod.states[:1]):
            return None
        return {"node": pod.of.node}

    return of_pods(seen, look)


def _pulling(seen: Seen) -> Words | None:
    pulls = [
        (pod.of.trainer.image, since)
        for pod in seen.live.values()
        if (since := _pulled_since(seen, pod)) is not None
    ]
    if not pulls:
        return None
    first = min(since for _, since in pulls)
    return {"image": pulls[0][0], "time": age(first, seen.now)}


def _pulled_since(seen: Seen, pod: Pod) -> float | None:
    """Return since when a pod's image is being pulled; None where it is not."""
    event = None if pod.runs else seen.last_event([pod], "Pulling")
    done = seen.last_event([pod], "Pulled", "Failed", "Created", "Started")
    if event is None or (done is not None and done.time >= event.time):
        return None
    return event.time


def _creating(seen: Seen) -> Words | None:
    return of_pods(seen, lambda pod: None if pod.runs else {})


def _unmade(seen: Seen) -> Words | None:
    lacking = sorted(set(range(seen.nodes)) - set(seen.made))
    return {"ranks": ranks_text(lacking)} if lacking else None


def _rendezvous(seen: Seen) -> Words | None:
    states = list(seen.states[: seen.nodes])
    late = [rank for rank, state in enumerate(states) if state not in _BEGUN]
    if Phase.ARRIVED not in states or not late:
        return None
    return {"ranks": ranks_text(late)}


def _again(seen: Seen) -> Words | None:
    """Find ranks whose container was started again and has not come to the cell yet."""
    for rank, pod in sorted(seen.live.items()):
        state = seen.states[rank] if rank < len(seen.states) else None
        if pod.runs and last_end(pod) is not None and state not in (Phase.RUNNING, Phase.FINISHED):
            return {"ranks": ranks_text([rank]), "how": how_it_ended(seen, pod)}
    return None


def _python(seen: Seen) -> Words | None:
    early = [state for state in seen.states if state in (Phase.WAITING, Phase.STARTING)]
    return {} if early or not seen.states else None


def _joining(seen: Seen) -> Words | None:
    return {}


RUNNING = (
    Cause(
        id="node-silent",
        where="pod condition `Ready=False` while its container is reported as running",
        sentence="the node {node} does not answer ({who})",
        hint="If it comes back within a few minutes, the job continues; otherwise its pods are "
        "evicted.",
        state=State.STARTING,
        find=_silent_node,
    ),
    Cause(
        id="pulling",
        where="event `Pulling` of the pod, without `Pulled`",
        sentence="the image {image} is being pulled ({time})",
        find=_pulling,
    ),
    Cause(
        id="creating",
        where="container waits: `ContainerCreating`",
        sentence="the container of {who} is being created",
        find=_creating,
    ),
    Cause(
        id="pods-coming",
        where="the Job has fewer pods than ranks",
        sentence="waits for the pods of {ranks}",
        find=_unmade,
    ),
    Cause(
        id="started-again",
        where="container `lastState`, `restartCount`",
        sentence="{ranks} was restarted: it {how}",
        state=State.STARTING,
        find=_again,
    ),
    Cause(
        id="rendezvous",
        where="messages of the workers",
        sentence="waits at the rendezvous for {ranks}",
        state=State.STARTING,
        find=_rendezvous,
    ),
    Cause(
        id="starting",
        where="messages of the workers",
        sentence="Python and JAX are starting",
        state=State.STARTING,
        find=_python,
    ),
    Cause(
        id="joining",
        where="messages of the workers",
        sentence="the ranks are connecting to each other",
        state=State.STARTING,
        find=_joining,
    ),
)
