"""One client for each cluster and namespace, and the API's errors as sentences."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from jupyter_jax_trainer.backends.kubernetes.api import kubeconfig
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, Unreachable
from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import explain_api_error
from jupyter_jax_trainer.errors import BackendError
from jupyter_jax_trainer.messages import kubernetes as say
from jupyter_jax_trainer.text import plain

_told_unverified: set[str] = set()
_clients: dict[tuple[str | None, str | None], tuple[object, Client]] = {}


def get_client(context: str | None = None, namespace: str | None = None) -> Client:
    """Return a client for a cluster, the same one again until the kubeconfig changes."""
    key, stamp = (context, namespace), kubeconfig.stamp()
    if key not in _clients or _clients[key][0] != stamp:
        client = Client(context, namespace)
        _clients[key] = (stamp, client)
        if client.warning is not None and client.server not in _told_unverified:
            _told_unverified.add(client.server)
            print(plain(client.warning), file=sys.stderr)
    return _clients[key][1]


@contextlib.contextmanager
def said_plainly(client: Client) -> Iterator[None]:
    """Turn the API's errors into sentences."""
    try:
        yield
    except ApiError as error:
        sentence, hint = explain_api_error(
            error.status, error.reason, error.message, error.verb, error.resource
        )
        raise BackendError(sentence, hint) from None
    except Unreachable as error:
        raise BackendError(say.UNREACHABLE(server=client.server, error=error)) from None
