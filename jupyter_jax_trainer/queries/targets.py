"""Where jobs can run: this machine, and the clusters of the kubeconfig; and what is there.

All of it is for pages: no token and no text of a kubeconfig is in an answer. What was found is kept
for some seconds, so that a page may ask as often as it likes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import Any

from jupyter_jax_trainer import api, masking
from jupyter_jax_trainer.backends.kubernetes.api import kubeconfig
from jupyter_jax_trainer.doctor import local
from jupyter_jax_trainer.doctor.finding import FAIL, OK, WARN, Finding
from jupyter_jax_trainer.errors import BackendError, JaxTrainError, JobNotFound, UsageError
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.options import checks
from jupyter_jax_trainer.queries.allowed import Allowed
from jupyter_jax_trainer.queries.asking import in_time, kept

_LEVELS = {OK: "ok", WARN: "warning", FAIL: "error"}
# What is well here and worth a line all the same.
_WORTH_A_LINE = ("Python", "jax", "Cores", "Memory", "GPUs", "Disk")


@dataclass(frozen=True)
class Place:
    """Where jobs can run.

    Attributes
    ----------
    id
        Names it, always the same.
    backend
        ``local`` or ``kubernetes``.
    context, namespace
        Which cluster and namespace; the context is None for the cluster of the pod in which this
        server runs.
    label
        What people call it.
    current
        It is the cluster that is meant where none is named.
    problem, hint
        Why it can't be used, and what to do; None where nothing is known to be wrong.
    """

    id: str
    backend: str
    label: str
    context: str | None = None
    namespace: str | None = None
    current: bool = False
    problem: str | None = None
    hint: str | None = None


_HERE = Place("local", "local", "this machine")
_ALL = Allowed()


def places(allowed: Allowed = _ALL) -> list[dict[str, Any]]:
    """List the places: this machine first, then the contexts of the kubeconfig that are allowed.

    The cluster of a pod in which this server runs is listed where there is no kubeconfig: with one
    it can't be chosen.
    """
    return [asdict(place) for place in _places() if allowed.has_context(place.context)]


def find(name: str, namespace: str | None = None, allowed: Allowed = _ALL) -> Place:
    """Find a place by its id, in another namespace where one is given.

    Raises
    ------
    UsageError
        There is none, no such namespace can be, or it is not allowed.
    """
    for place in _places():
        if place.id == name:
            break
    else:
        raise UsageError(f"There is no place {checks.shown(name)} (any more).")
    if namespace is not None:
        if place.backend == "local":
            raise UsageError("This machine has no namespaces.")
        place = _in_namespace(place, checks.label("The namespace", namespace))
    allowed.check(place.context, place.namespace)
    return place


def health(place: Place, fresh: bool = False) -> list[dict[str, Any]]:
    """Give what ``doctor`` says of a place, in the order in which it looks.

    Returns
    -------
    list of dict
        ``level`` (``ok``, ``warning`` or ``error``), ``title``, ``detail`` and ``hint``. Of this
        machine all that is not well, and a few figures.
    """

    def find_all() -> list[dict[str, Any]]:
        return [_as_json(finding) for finding in _examined(place)]

    return kept(("health", place, kubeconfig.stamp()), find_all, fresh)


def runtimes(place: Place, fresh: bool = False) -> list[dict[str, Any]]:
    """List what jobs can run on in a place.

    Raises
    ------
    UsageError, BackendError
        There is no such cluster, it refuses, or does not answer.
    """

    def find_all() -> list[dict[str, Any]]:
        listed = functools.partial(
            api.runtimes, place.backend, context=place.context, namespace=place.namespace
        )
        found = [asdict(runtime) for runtime in in_time(listed)]
        return [{**runtime, "nodes": list(runtime["nodes"])} for runtime in found]

    return kept(("runtimes", place, kubeconfig.stamp()), find_all, fresh)


def queues(place: Place, fresh: bool = False) -> dict[str, Any] | None:
    """Give the queues of a place and what is free in them, for people to choose from.

    Returns
    -------
    dict or None
        As `backends.kubernetes.quota.describe` gives it; None where there is no Kueue.

    Raises
    ------
    UsageError, BackendError
        There is no such cluster, it refuses, or does not answer.
    """
    if place.backend == "local":
        return None

    def find_all() -> list[dict[str, Any] | None]:
        from jupyter_jax_trainer.backends.kubernetes import backend
        from jupyter_jax_trainer.backends.kubernetes.submit import quota

        client = backend.get_client(place.context, place.namespace)
        with backend.said_plainly(client):
            return [quota.describe(client)]

    return kept(("queues", place, kubeconfig.stamp()), lambda: list(in_time(find_all)), fresh)[0]


def runtime_yaml(place: Place, name: str) -> str:
    """Give a runtime as the cluster has it.

    Raises
    ------
    UsageError, BackendError
        There is none of that name, or the cluster does not answer.
    """
    if place.backend == "local":
        raise UsageError("A runtime of this machine has no YAML: it is no object of a cluster.")
    name = checks.subdomain()("The runtime", name)

    def read() -> list[str]:
        from jupyter_jax_trainer.backends.kubernetes import backend
        from jupyter_jax_trainer.backends.kubernetes.submit import runtimes
        from jupyter_jax_trainer.queries.yamls import shown_yaml

        client = backend.get_client(place.context, place.namespace)
        with backend.said_plainly(client):
            return [shown_yaml(runtimes.get_runtime(client, name))]

    return kept(("yaml", place, kubeconfig.stamp(), name), lambda: "".join(in_time(read)))


def trainjob_yaml(job: Job) -> str:
    """Give the TrainJob of a job as the cluster has it now.

    Raises
    ------
    JobNotFound
        There is none: it ran on this machine, or the TrainJob is deleted.
    UsageError, BackendError
        The cluster can't be found, or does not answer.
    """
    manifest = job.manifest
    if manifest["backend"] != "kubernetes":
        raise JobNotFound(f"{job.name} is a job of this machine: there is no TrainJob.")
    plan = manifest["plan"]

    def read() -> list[str]:
        from jupyter_jax_trainer.backends.kubernetes import backend
        from jupyter_jax_trainer.backends.kubernetes.api import identity
        from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError
        from jupyter_jax_trainer.queries.yamls import shown_yaml

        client = backend.get_client(plan["context"], plan["namespace"])
        path = client.trainer("trainjobs", manifest.get("trainjob") or manifest["name"])
        with backend.said_plainly(client):
            try:
                found = client.request("GET", path)
            except ApiError as error:
                if error.status != 404:
                    raise
                return []
        # Another cluster may have a TrainJob of this name, and so may this one by now.
        ours = identity.is_jobs(JobDir(job.directory), manifest, found)
        return [shown_yaml(found)] if ours else []

    found = list(in_time(read))
    if not found:
        where = f"The context {plan['context']}" if plan["context"] else "The cluster"
        raise JobNotFound(f"{where} has no TrainJob of {job.name} (any more).")
    return found[0]


# -- the list --------------------------------------------------------------------------------------


def _places() -> list[Place]:
    try:
        return [_HERE, *_clusters()]
    except JaxTrainError as error:
        return [
            _HERE,
            Place("kubernetes", "kubernetes", "Kubernetes", problem=error.message, hint=error.hint),
        ]


def _clusters() -> list[Place]:
    stamp, in_pod = kubeconfig.stamp(), kubeconfig.in_cluster()
    named = os.environ.get("KUBECONFIG")
    if not stamp and not in_pod:
        if named:
            raise BackendError(
                f"KUBECONFIG names {named}, which is not there.", "Set it to another file."
            )
        return []
    if find_spec("kubernetes") is None:
        raise kubeconfig.not_installed()
    if not stamp:
        from jupyter_jax_trainer.backends.kubernetes.backend import get_client

        place = Place("pod", "kubernetes", "", current=True)
        return [_in_namespace(place, get_client().namespace)]
    contexts, current = kubeconfig.contexts()
    return [
        _in_namespace(
            Place(f"context:{name}", "kubernetes", "", context=name, current=name == current),
            context.namespace,
        )
        for name, context in contexts.items()
    ]


def _in_namespace(place: Place, namespace: str) -> Place:
    label = f"{namespace} · {place.context or 'the cluster of this pod'}"
    return replace(place, namespace=namespace, label=label)


# -- asking ----------------------------------------------------------------------------------------


def _examined(place: Place) -> Iterator[Finding]:
    if place.backend == "local":
        for finding in local.examine("local"):
            if finding.status != OK or finding.subject in _WORTH_A_LINE:
                yield finding
        return
    try:
        yield from in_time(lambda: local.examine("kubernetes", place.context, place.namespace))
    except BackendError as error:
        yield Finding(FAIL, "Cluster", error.message, error.hint)


def _as_json(finding: Finding) -> dict[str, Any]:
    return {
        "level": _LEVELS[finding.status],
        "title": finding.subject,
        "detail": masking.text(finding.detail),
        "hint": finding.advice and masking.text(finding.advice),
    }
