"""Who may ask: from where a page has to come, and what its user may do."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from jupyter_server.base.handlers import JupyterHandler

RESOURCE = "jaxtrain"  # as Jupyter's authorizers know it
_PORTS = {"http": 80, "https": 443}


def is_from_here(headers: Mapping[str, str], allowed: Sequence[str]) -> bool:
    """Return whether a request comes from a page of this server, or from no page.

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
