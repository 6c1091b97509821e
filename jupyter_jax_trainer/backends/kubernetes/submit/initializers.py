"""Trainer's initializers: what fetches a data set or a model before the training begins."""

from __future__ import annotations

from collections.abc import Callable

from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    Container,
    ContainerState,
    Pod,
    TrainingRuntime,
)
from jupyter_jax_trainer.backends.kubernetes.api.observed import Seen
from jupyter_jax_trainer.backends.kubernetes.submit.runtimes import (
    initializers,
    is_converted,
    replicated_jobs,
)
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir.state import InitializerState
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.states import Phase
from jupyter_jax_trainer.text import joined

NAMES = {"dataset": "dataset-initializer", "model": "model-initializer"}
_URI = "STORAGE_URI"


def suits(runtime: TrainingRuntime, spec: JobSpec) -> bool:
    """Return whether a runtime has the initializers that a job asks for, and none would fail."""
    return _lacking(runtime, spec) is None and not _failing(runtime, spec)


def rank(runtime: TrainingRuntime, spec: JobSpec) -> tuple[bool, bool, bool]:
    """Order runtimes: first those that have exactly what the job asks for, last what lacks it."""
    jobs = replicated_jobs(runtime)
    more = any(name in jobs and not getattr(spec, option) for option, name in NAMES.items())
    return _lacking(runtime, spec) is not None, bool(_failing(runtime, spec)), more


def check(
    runtime: TrainingRuntime, spec: JobSpec, known: Callable[[], list[TrainingRuntime]]
) -> None:
    """Refuse what the runtime has no initializer for, and initializers that would fail.

    Parameters
    ----------
    runtime, spec
        The runtime, and what was asked for.
    known
        Gives all runtimes, to name those that would do.

    Raises
    ------
    UsageError
        The runtime lacks one, or has one that the job doesn't ask for.
    """
    name = runtime.name
    option, failing = _lacking(runtime, spec), _failing(runtime, spec)
    if option is None and not failing:
        return
    others = ", ".join(
        item.name for item in known() if suits(item, spec) and not is_converted(item)
    )
    if option is not None:
        raise UsageError(
            say.NO_INITIALIZER(option=option, initializer=NAMES[option], runtime=name),
            say.OTHER_RUNTIMES(names=others) if others else say.INSTALL_INITIALIZER(),
        )
    options = joined(f"--{one}" for one in failing)
    starts = joined(NAMES[one] for one in failing)
    raise UsageError(
        say.INITIALIZER_FAILS(runtime=name, initializers=starts, options=options),
        say.ADD_OR_CHOOSE(options=options, names=others)
        if others
        else say.ADD_OR_INSTALL(options=options),
    )


def look(seen: Seen) -> list[InitializerState]:
    """Say how the initializers are: the newest pod of each, in the order in which they came.

    Returns
    -------
    list
        ``name``, ``state``, ``exit``, ``restarts``, ``host`` and ``pod``, as of a rank.
    """
    newest: dict[str, Pod] = {}
    count: dict[str, int] = {}
    for pod in seen.initializers:
        name = pod.role
        newest[name] = pod
        count[name] = count.get(name, 0) + 1
    return [_step(name, pod, count[name] - 1) for name, pod in newest.items()]


def _lacking(runtime: TrainingRuntime, spec: JobSpec) -> str | None:
    jobs = replicated_jobs(runtime)
    asked = (option for option in NAMES if getattr(spec, option))
    return next((option for option in asked if NAMES[option] not in jobs), None)


def _failing(runtime: TrainingRuntime, spec: JobSpec) -> list[str]:
    """Return the options that a job would have to have for the runtime's initializers to end well.

    Trainer starts all of them, asked for or not, and says from where to fetch only to those that
    are asked for. Its images fail without that. A container with a STORAGE_URI of the runtime's,
    or with a command of its own, may do without; so may one that isn't labelled as Trainer's.
    """
    return [
        option
        for option, name in NAMES.items()
        if not getattr(spec, option) and any(map(_needs_uri, initializers(runtime, name)))
    ]


def _needs_uri(container: Container) -> bool:
    names = {one.name for one in container.env}
    # What a ConfigMap or a Secret has is not looked up: it gets the benefit of the doubt.
    return not (_URI in names or container.env_from or container.command)


def _step(name: str, pod: Pod, pods_before: int) -> InitializerState:
    found = next((state for state in pod.states if state.name == name), ContainerState({}))
    end = found.ended or found.ended_before
    doing = Phase.RUNNING if found.runs else Phase.STARTING
    ended = {"Succeeded": Phase.FINISHED, "Failed": Phase.FAILED}
    return {
        "name": name,
        "state": ended.get(pod.phase, doing),
        "exit": None if end is None else end.code,
        "restarts": found.restarts + pods_before,
        "host": pod.of.node or None,
        "pod": pod.name or None,
    }
