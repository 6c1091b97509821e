"""Speak to the Kubernetes API: connection and identity from the official client, the rest raw JSON.

The official client is imported late, here and in `kubeconfig.py` only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from jupyter_jax_trainer import masking, timeouts
from jupyter_jax_trainer.backends.kubernetes.api.answers import (
    ApiError,
    SignInFailed,
    Unreachable,
    forward_refusal,
    is_page,
    plain_words,
    refusal,
)
from jupyter_jax_trainer.backends.kubernetes.api.kubeconfig import (
    find_access,
    has_kubeconfig,
    in_cluster,
    is_configured,
    overheard,
)
from jupyter_jax_trainer.backends.kubernetes.api.portforward import PortForward
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.messages import cluster as say

__all__ = [
    "MERGE_PATCH",
    "ApiError",
    "Client",
    "SignInFailed",
    "Unreachable",
    "cluster_path",
    "has_kubeconfig",
    "in_cluster",
    "is_configured",
]

Query = Mapping[str, str | int]
MERGE_PATCH = "application/merge-patch+json"
_CONNECTIONS = 300  # at once: a stream for each pod whose log is followed
_UNAUTHORIZED = 401
_FRESH = 10.0  # seconds for which a token is used without asking whether it is still good
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # between renewals of credentials that are refused


class Client:
    """A connection to one cluster as one user; safe to use from several threads.

    Parameters
    ----------
    context
        The context of the kubeconfig; None for its current one, or for the service account of the
        pod in which this runs.
    namespace
        The namespace; None for the context's.

    Attributes
    ----------
    server
        The address of the API.
    context, namespace
        Which are used; the context is None in a pod.
    verified
        Whether the API has to show a certificate that can be trusted.

    Raises
    ------
    UsageError
        There is no cluster to speak to, or no such context.
    BackendError
        ``kubernetes`` is not installed, or the kubeconfig can't be used.
    """

    server: str

    def __init__(self, context: str | None = None, namespace: str | None = None) -> None:
        self._lock = threading.Lock()
        self._generation = 0  # counts the times that credentials were read
        self._renew_after, self._pause = 0.0, _FIRST_PAUSE
        self._known: tuple[float, dict[str, str]] = (0.0, {})
        self.context = context
        self._connect()
        self.namespace = namespace or self._own_namespace

    @property
    def identity(self) -> str:
        """A short name for this cluster and namespace, the same in each process."""
        return hashlib.sha256(f"{self.server}\n{self.namespace}".encode()).hexdigest()[:16]

    @property
    def warning(self) -> str | None:
        """What to say of a cluster whose certificate is not checked; None where it is."""
        if self.verified:
            return None
        return say.UNVERIFIED(server=masking.text(self.server))

    def _connect(self) -> None:
        """Load the configuration, and make the pool of connections."""
        found = find_access(self.context, _CONNECTIONS)
        from kubernetes.client.rest import RESTClientObject

        server = str(found.configuration.host).rstrip("/")
        if server != getattr(self, "server", server):
            raise JaxTrainError(say.OTHER_CLUSTER(context=self.context, server=server))
        self.server, self.context = server, found.context
        self._own_namespace = found.namespace
        self._configuration = found.configuration
        self.verified = bool(found.configuration.verify_ssl)
        self._pool = RESTClientObject(found.configuration).pool_manager

    # -- requests ----------------------------------------------------------------------------

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Make a request and give the JSON object that comes back.

        Parameters
        ----------
        timeout
            Seconds for the answer; None for those of most requests.

        Raises
        ------
        ApiError
            It was refused.
        Unreachable
            There was no answer in time.
        """
        data = None if body is None else json.dumps(body).encode()
        patience = timeouts.REQUEST.seconds if timeout is None else timeout
        response = self._send(method, path, query, data, content_type, patience)
        try:
            text = response.read(decode_content=True)
        except Exception as error:
            raise Unreachable(plain_words(error)) from None
        finally:
            response.release_conn()
        try:
            found = json.loads(text)
        except ValueError:
            raise Unreachable(say.NOT_JSON()) from None
        if not isinstance(found, dict):
            raise Unreachable(say.NOT_AN_OBJECT())
        return found

    def open(self, path: str, query: Query | None, read_timeout: float) -> Any:
        """Open a stream: a watch, or a log.

        Parameters
        ----------
        read_timeout
            Seconds of silence after which reading raises urllib3's ``ReadTimeoutError``.

        Returns
        -------
        urllib3.HTTPResponse
            Not read yet. Close it.

        Raises
        ------
        ApiError, Unreachable
            As for `request`.
        """
        return self._send("GET", path, query, None, None, read_timeout)

    def _send(
        self,
        method: str,
        path: str,
        query: Query | None,
        data: bytes | None,
        content_type: str | None,
        timeout: float,
    ) -> Any:
        generation = self._generation
        try:
            return self._send_once(method, path, query, data, content_type, timeout)
        except (ApiError, Unreachable) as error:
            if not self._may_help(error) or not self._renew(generation):
                raise
        response = self._send_once(method, path, query, data, content_type, timeout)
        self._pause = _FIRST_PAUSE
        return response

    def _send_once(
        self,
        method: str,
        path: str,
        query: Query | None,
        data: bytes | None,
        content_type: str | None,
        timeout: float,
    ) -> Any:
        import urllib3

        url = self.server + path + (f"?{urlencode(query)}" if query else "")
        headers = {**self._headers(), "Accept": "application/json"}
        headers["User-Agent"] = "jupyter-jax-trainer"
        if data is not None and content_type:
            headers["Content-Type"] = content_type
        try:
            response = self._pool.request(
                method,
                url,
                body=data,
                headers=headers,
                preload_content=False,
                redirect=False,
                retries=False,
                timeout=urllib3.Timeout(connect=timeouts.CONNECT.seconds, read=timeout),
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:  # OSError: a certificate's file
            raise Unreachable(plain_words(error)) from None
        if response.status < 300 and not is_page(response):
            return response
        try:
            text = response.read(1 << 20, decode_content=True)
        except urllib3.exceptions.HTTPError:
            text = b""
        finally:
            response.release_conn()
        if response.status < 300:
            raise Unreachable(say.WEB_PAGE())
        raise refusal(response, text, method, path, bool(query and query.get("watch")))

    @contextlib.contextmanager
    def forward(self, pod: str, port: int) -> Iterator[PortForward]:
        """Open a connection to a port of a pod, by way of the API.

        Raises
        ------
        ApiError, Unreachable
            It can't be had.
        OSError
            The node could not connect to the port, and says why.
        """
        generation = self._generation
        try:
            end = self._forward(pod, port)
        except (ApiError, Unreachable) as error:
            if not self._may_help(error) or not self._renew(generation):
                raise
            end = self._forward(pod, port)
        try:
            yield end
        except OSError as error:
            if end.error:  # what the node says of it
                raise OSError(end.error.strip()) from error
            raise
        finally:
            end.close()

    def try_upgrade(self) -> None:
        """Open a WebSocket, as port-forwards do, and close it: a watch needs no pod.

        Raises
        ------
        ApiError, Unreachable
            Something on the way there does not let it through, or watching pods is not allowed.
        """
        path = f"{self.core('pods')}?watch=1&timeoutSeconds=1"
        self._websocket(path, [], timeouts.DOCTOR.seconds).close()

    def _forward(self, pod: str, port: int) -> PortForward:
        path = f"{self.core('pods', pod, 'portforward')}?ports={port}"
        protocols = ["v4.channel.k8s.io"]
        return PortForward(self._websocket(path, protocols, timeouts.FORWARD.seconds))

    def _websocket(self, path: str, protocols: list[str], timeout: float) -> Any:
        import ssl

        import certifi
        import websocket
        from kubernetes.stream.ws_client import websocket_proxycare

        # Not by the official client, which gives a silent server all the time there is.
        settings = self._configuration
        tls = {
            "cert_reqs": ssl.CERT_REQUIRED if settings.verify_ssl else ssl.CERT_NONE,
            "ca_certs": settings.ssl_ca_cert or certifi.where(),
            "check_hostname": settings.verify_ssl and settings.assert_hostname is not False,
            "certfile": settings.cert_file,
            "keyfile": settings.key_file,
            "server_hostname": settings.tls_server_name,
        }
        headers = {**self._headers(), "User-Agent": "jupyter-jax-trainer"}  # signs in where due
        url = f"ws{self.server.removeprefix('http')}{path}"
        given = [f"{name}: {value}" for name, value in headers.items()]
        options: dict[str, Any] = {"header": given}
        if settings.proxy or settings.proxy_headers:
            options = websocket_proxycare(options, settings, url, headers)
        try:
            return websocket.create_connection(
                url,
                timeout=timeout,
                subprotocols=protocols,
                sslopt={name: value for name, value in tls.items() if value is not None},
                **options,
            )
        except websocket.WebSocketBadStatusException as error:
            raise forward_refusal(str(error)) from None
        except Exception as error:
            raise Unreachable(plain_words(error)) from None

    # -- credentials ---------------------------------------------------------------------------

    def _headers(self) -> dict[str, str]:
        """Return the header with the token, where there is one.

        The official client renews what runs out: it reads files again, and runs programs.
        """
        until, headers = self._known
        if time.monotonic() < until:
            return headers
        with self._exclusively(), overheard([]):
            headers = {}
            try:
                for setting in self._configuration.auth_settings().values():
                    headers[setting["key"]] = setting["value"]
            except Exception as error:
                words = str(error) or type(error).__name__
                raise SignInFailed(say.NOT_RENEWED(error=words)) from None
            self._known = (time.monotonic() + _FRESH, headers)
        return headers

    def _may_help(self, error: ApiError | Unreachable) -> bool:
        """Return whether to read the credentials anew may help: they were refused, or are gone."""
        if isinstance(error, ApiError):
            return error.status == _UNAUTHORIZED
        found = self._configuration
        files = (found.ssl_ca_cert, found.cert_file, found.key_file)
        return any(file and not os.path.isfile(file) for file in files)

    def _renew(self, generation: int) -> bool:
        """Read the credentials anew; False where there is no use in that.

        Parameters
        ----------
        generation
            Which were refused, or are gone.
        """
        with self._exclusively():
            if self._generation != generation:
                return True  # another thread has done it
            now = time.monotonic()
            if now < self._renew_after:
                return False
            # A program that opens a browser must not do so again and again.
            self._renew_after, self._pause = now + self._pause, min(2 * self._pause, _LONGEST_PAUSE)
            try:
                self._connect()
            except JaxTrainError as error:
                said = say.NOT_RENEWED(error=error.message.rstrip("."))
                raise SignInFailed(said) from None
            self._known = (0.0, {})
            self._generation += 1
            return True

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Let one thread at a time sign in; the others don't wait for ever."""
        if not self._lock.acquire(timeout=timeouts.SIGN_IN.seconds):
            raise Unreachable(say.SIGN_IN_SLOW())
        try:
            yield
        finally:
            self._lock.release()

    # -- paths -------------------------------------------------------------------------------

    def core(self, resource: str, name: str = "", sub: str = "") -> str:
        """Return the path of core objects of the namespace."""
        return _path("/api/v1", self.namespace, resource, name, sub)

    def batch(self, resource: str, name: str = "") -> str:
        """Return the path of Jobs."""
        return _path("/apis/batch/v1", self.namespace, resource, name)

    def trainer(self, resource: str, name: str = "", sub: str = "") -> str:
        """Return the path of Kubeflow Trainer's objects."""
        return _path("/apis/trainer.kubeflow.org/v1alpha1", self.namespace, resource, name, sub)


def _path(base: str, namespace: str | None, *parts: str) -> str:
    words = ["namespaces", namespace] if namespace else []
    return "/".join([base, *(quote(word, safe="") for word in (*words, *parts) if word)])


def cluster_path(base: str, *parts: str) -> str:
    """Return the path of objects that belong to no namespace."""
    return _path(base, None, *parts)
