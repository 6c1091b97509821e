"""Where jobs can run: this machine, and the clusters of the kubeconfig; and what is there.

All of it is for pages: no token and no text of a kubeconfig is in an answer. What was found is kept
for some seconds, so that a page may ask as often as it likes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import asdict
from typing import Literal, cast

from jupyter_jax_trainer import masking
from jupyter_jax_trainer.backends import registry
from jupyter_jax_trainer.backends.base import Queues, Target
from jupyter_jax_trainer.doctor import report
from jupyter_jax_trainer.doctor.finding import FAIL, OK, WARN, Finding
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import doctor
from jupyter_jax_trainer.messages import queries as say
from jupyter_jax_trainer.options import checks
from jupyter_jax_trainer.queries.allowed import Allowed
from jupyter_jax_trainer.queries.asking import in_time, kept
from jupyter_jax_trainer.queries.protocol import FindingRecord, Place, RuntimeRecord

_LEVELS: dict[str, Literal["ok", "warning", "error"]] = {OK: "ok", WARN: "warning", FAIL: "error"}
_ALL = Allowed()


def places(allowed: Allowed = _ALL) -> list[Place]:
    """List the places: this machine first, then the contexts of the kubeconfig that are allowed.

    The cluster of a pod in which this server runs is listed where there is no kubeconfig: with one
    it can't be chosen.
    """
    return [_as_place(target) for target in _targets() if allowed.has_context(target.context)]


def _as_place(target: Target) -> Place:
    backend = registry.get(target.backend)
    return {
        "id": target.id,
        "backend": target.backend,
        "cluster": backend.capabilities.clusters,
        "runtime_prefix": backend.runtime_prefix,
        "label": target.label,
        "context": target.context,
        "namespace": target.namespace,
        "current": target.current,
        "problem": target.problem,
        "hint": target.hint,
    }


def find(name: str, namespace: str | None = None, allowed: Allowed = _ALL) -> Target:
    """Find a place by its id, in another namespace where one is given.

    Raises
    ------
    UsageError
        There is none, no such namespace can be, or it is not allowed.
    """
    for target in _targets():
        if target.id == name:
            break
    else:
        raise UsageError(say.UNKNOWN_PLACE(place=checks.shown(name)))
    if namespace is not None:
        namespace = checks.label(say.THE_NAMESPACE(), namespace)
        target = registry.get(target.backend).in_namespace(target, namespace)
    allowed.check(target.context, target.namespace)
    return target


def health(place: Target, fresh: bool = False) -> list[FindingRecord]:
    """Return what ``doctor`` says of a place, in the order in which it looks.

    Returns
    -------
    list of dict
        ``level`` (``ok``, ``warning`` or ``error``), ``title``, ``detail`` and ``hint``. Of this
        machine all that is not well, and a few figures.
    """

    def find_all() -> list[FindingRecord]:
        return [_as_json(finding) for finding in _examined(place)]

    return kept(("health", place, registry.get(place.backend).stamp()), find_all, fresh)


def runtimes(place: Target, fresh: bool = False) -> list[RuntimeRecord]:
    """List what jobs can run on in a place.

    Raises
    ------
    UsageError, BackendError
        There is no such cluster, it refuses, or does not answer.
    """
    backend = registry.get(place.backend)

    def find_all() -> list[RuntimeRecord]:
        listed = functools.partial(backend.runtimes, place.context, place.namespace)
        return [
            cast(RuntimeRecord, {**asdict(runtime), "nodes": list(runtime.nodes)})
            for runtime in in_time(listed)
        ]

    return kept(("runtimes", place, backend.stamp()), find_all, fresh)


def queues(place: Target, fresh: bool = False) -> Queues | None:
    """Return the queues of a place and what is free in them, for people to choose from.

    Returns
    -------
    Queues or None
        None where it has none.

    Raises
    ------
    UsageError, BackendError
        There is no such cluster, it refuses, or does not answer.
    """
    backend = registry.get(place.backend)

    def find_all() -> list[Queues | None]:
        return [backend.queues(place)]

    return kept(("queues", place, backend.stamp()), lambda: list(in_time(find_all)), fresh)[0]


def runtime_yaml(place: Target, name: str) -> str:
    """Return a runtime as the cluster has it.

    Raises
    ------
    UsageError, BackendError
        There is none of that name, or the cluster does not answer.
    """
    backend, name = registry.get(place.backend), checks.subdomain()(say.THE_RUNTIME(), name)

    def read() -> list[str]:
        return [backend.runtime_yaml(place, name)]

    return kept(("yaml", place, backend.stamp(), name), lambda: "".join(in_time(read)))


def job_yaml(job: Job) -> str:
    """Return a job as its cluster has it now.

    Raises
    ------
    JobNotFound
        It is no object of a cluster, or no more.
    UsageError, BackendError
        The cluster can't be found, or does not answer.
    """

    def read() -> list[str]:
        return [job.backend.job_yaml(JobDir(job.directory))]

    return "".join(in_time(read))


# -- the list --------------------------------------------------------------------------------------


def _targets() -> list[Target]:
    return [target for backend in registry.all_backends() for target in backend.targets()]


# -- asking ----------------------------------------------------------------------------------------


def _examined(place: Target) -> Iterator[Finding]:
    if not registry.get(place.backend).capabilities.clusters:
        for finding in report.examine(place.backend):
            if finding.status != OK or finding.notable:
                yield finding
        return
    try:
        yield from in_time(lambda: report.examine(place.backend, place.context, place.namespace))
    except BackendError as error:
        yield Finding(FAIL, doctor.CLUSTER(), error.message, error.hint)


def _as_json(finding: Finding) -> FindingRecord:
    return {
        "level": _LEVELS[finding.status],
        "title": finding.subject,
        "detail": masking.text(finding.detail),
        "hint": finding.advice and masking.text(finding.advice),
    }
