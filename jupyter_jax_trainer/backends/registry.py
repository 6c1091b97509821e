"""The backends there are. Another one is a folder and a line here.

A line is where its class is, so that nothing is imported before it is needed.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from jupyter_jax_trainer import byname
from jupyter_jax_trainer.errors import JobDirError
from jupyter_jax_trainer.messages import backends as say

if TYPE_CHECKING:
    from jupyter_jax_trainer.backends.base import Backend
    from jupyter_jax_trainer.options.spec import JobSpec

DEFAULT = "local"
BACKENDS = {
    "local": "jupyter_jax_trainer.backends.local.backend:LocalBackend",
    "kubernetes": "jupyter_jax_trainer.backends.kubernetes.backend:KubernetesBackend",
}


def get(name: str) -> Backend:
    """Return a backend by its name.

    Raises
    ------
    JobDirError
        There is none: a job directory names it that another version has written.
    """
    try:
        return _load(BACKENDS[name])
    except KeyError:
        known = ", ".join(BACKENDS)
        raise JobDirError(say.UNKNOWN(name=name, known=known)) from None


def choose(spec: JobSpec) -> Backend:
    """Return the backend of a spec: with ``auto`` this machine, save for a runtime of a cluster."""
    if spec.backend != "auto":
        return get(spec.backend)
    local = get(DEFAULT)
    if spec.runtime is None or local.has_runtime(spec.runtime):
        return local
    return cluster()


def all_backends() -> list[Backend]:
    """Return all backends, in their order."""
    return [get(name) for name in BACKENDS]


def of_clusters() -> list[Backend]:
    """Return the backends that have contexts and namespaces."""
    return [backend for backend in all_backends() if backend.capabilities.clusters]


def has_clusters() -> bool:
    """Return whether a cluster is known."""
    return any(backend.has_targets() for backend in of_clusters())


def cluster() -> Backend:
    """Return the backend that is meant where a cluster is, and none is named."""
    found = of_clusters()
    return next((backend for backend in found if backend.has_targets()), found[0])


@cache
def _load(place: str) -> Backend:
    backend: Backend = byname.load(place)()
    return backend
