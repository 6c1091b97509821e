"""Who may ask: from where a page has to come, what its user may do, which clusters it may see."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.options import checks

if TYPE_CHECKING:
    from jupyter_server.base.handlers import JupyterHandler

RESOURCE = "jaxtrain"  # as Jupyter's authorizers know it
_PORTS = {"http": 80, "https": 443}


def is_from_here(headers: Mapping[str, str], allowed: Sequence[str]) -> bool:
    """Tell whether a request comes from a page of this server, or from no page.

    Jupyter servers are run with ``allow_origin="*"`` and without a token (in Kubeflow's notebook
    images, say), so its own checks are not enough.

    Parameters
    ----------
    headers
        The request's.
    allowed
        More origins that are welcome, in lower case.
    """
    origin = headers.get("Origin") or headers.get("Referer")
    if origin is None:
        return headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")
    try:
        parts = urlsplit(origin.lower())
    except ValueError:  # no address at all
        return False
    if f"{parts.scheme}://{parts.netloc}" in allowed:
        return True
    host = headers.get("Host", "").lower()
    usual = _PORTS.get(parts.scheme)
    return bool(parts.netloc) and _with_port(parts.netloc, usual) == _with_port(host, usual)


def _with_port(host: str, usual: int | None) -> str:
    _, colon, port = host.rpartition(":")
    return host if colon and port.isdecimal() else f"{host}:{usual}"


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
        """Tell whether a context is among them; None, the cluster of this pod, always is."""
        return name is None or _is_among(name, self.contexts)

    def check(self, context: str | None, namespace: str | None) -> None:
        """Refuse other contexts and namespaces.

        Raises
        ------
        UsageError
            Pages may not ask about this one.
        """
        if not self.has_context(context):
            self._refuse("context", context)
        if namespace is not None and not _is_among(namespace, self.namespaces):
            self._refuse("namespace", namespace)

    def _refuse(self, kind: str, name: str | None) -> None:
        raise UsageError(
            f"Pages of this server may not ask about the {kind} {checks.shown(name)}.",
            f"Who runs the server can allow it by c.JaxTrain.allowed_{kind}s.",
        )


def _is_among(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


async def check_right(handler: JupyterHandler, right: str) -> None:
    """Refuse those who are not known, or may not do this.

    Parameters
    ----------
    handler
        Of the request.
    right
        ``read``, ``write`` or ``execute``.

    Raises
    ------
    tornado.web.HTTPError
        403.
    """
    from tornado import web

    if not handler.current_user:
        raise web.HTTPError(403)
    allowed = handler.authorizer.is_authorized(handler, handler.current_user, right, RESOURCE)
    if inspect.isawaitable(allowed):
        allowed = await allowed
    if not allowed:
        raise web.HTTPError(403)
