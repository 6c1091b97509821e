"""Which clusters the pages of a server may ask about."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import queries as say
from jupyter_jax_trainer.options import checks


class Allowed(NamedTuple):
    """What pages may ask of clusters: names, or patterns as a shell has them.

    Attributes
    ----------
    contexts
        Of the kubeconfig.
    namespaces
        Of all clusters.
    """

    contexts: Sequence[str] = ("*",)
    namespaces: Sequence[str] = ("*",)

    def has_context(self, name: str | None) -> bool:
        """Return whether a context is among them; None, the cluster of this pod, always is."""
        return name is None or _is_among(name, self.contexts)

    def check(self, context: str | None, namespace: str | None) -> None:
        """Refuse other contexts and namespaces.

        Raises
        ------
        UsageError
            Pages may not ask about this one.
        """
        if not self.has_context(context):
            raise UsageError(say.CONTEXT_FORBIDDEN(name=checks.shown(context)))
        if namespace is not None and not _is_among(namespace, self.namespaces):
            raise UsageError(say.NAMESPACE_FORBIDDEN(name=checks.shown(namespace)))


def _is_among(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
