"""One client for each cluster and namespace, and the API's errors as sentences."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api import kubeconfig
from jupyter_jax_trainer.backends.kubernetes.api.client import (
    ApiError,
    Client,
    SignInFailed,
    Unreachable,
)
from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import explain_api_error
from jupyter_jax_trainer.errors import BackendError, BackendUnavailable, JaxTrainError
from jupyter_jax_trainer.messages import kubernetes as say
from jupyter_jax_trainer.text import plain

_told_unverified: set[str] = set()
_Key = tuple[str | None, str | None]  # context and namespace
_clients: dict[_Key, tuple[object, Client]] = {}


class _SignIn:
    """Signing in to a cluster: one thread does it, for all that ask meanwhile."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.failed = 0.0  # time.monotonic() of the error
        self.error: JaxTrainError | None = None


_sign_ins: dict[_Key, _SignIn] = {}


def get_client(context: str | None = None, namespace: str | None = None) -> Client:
    """Return a client for a cluster, the same one again until the kubeconfig changes.

    Of several threads one signs in, and the others have its client, or its error.

    Raises
    ------
    BackendUnavailable
        Another thread is still signing in.
    UsageError, BackendError
        As for `Client`.
    """
    key, stamp = (context, namespace), kubeconfig.stamp()
    if (known := _known(key, stamp)) is not None:
        return known
    began, one = time.monotonic(), _sign_ins.setdefault(key, _SignIn())
    if not one.lock.acquire(timeout=timeouts.SIGN_IN.seconds):
        raise BackendUnavailable(say.SIGNING_IN())
    try:
        if (known := _known(key, stamp)) is not None:
            return known
        if one.error is not None and one.failed > began:
            raise one.error.with_traceback(None)
        one.error = None
        try:
            client = Client(context, namespace)
        except JaxTrainError as error:
            one.failed, one.error = time.monotonic(), error
            raise
        _clients[key] = (stamp, client)
    finally:
        one.lock.release()
    if client.warning is not None and client.server not in _told_unverified:
        _told_unverified.add(client.server)
        print(plain(client.warning), file=sys.stderr)
    return client


def _known(key: _Key, stamp: object) -> Client | None:
    """Return the client that was made for this state of the kubeconfig."""
    found = _clients.get(key)
    return found[1] if found is not None and found[0] == stamp else None


@contextlib.contextmanager
def said_plainly(client: Client) -> Iterator[None]:
    """Turn the API's errors into sentences."""
    try:
        yield
    except ApiError as error:
        sentence, hint = explain_api_error(
            error.status, error.reason, error.message, error.verb, error.resource
        )
        kind = BackendUnavailable if error.is_transient else BackendError
        raise kind(sentence, hint) from None
    except Unreachable as error:
        kind = BackendError if isinstance(error, SignInFailed) else BackendUnavailable
        raise kind(say.UNREACHABLE(server=client.server, error=error)) from None
