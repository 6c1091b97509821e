"""Speak to the Kubernetes API: connection and identity from the official client, the rest raw JSON.

Only this module imports ``kubernetes``, and late: it takes from 0.3 to over a second.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jupyter_jax_trainer.errors import BackendError, UsageError

INSTALL = "Install it: pip install 'jupyter-jax-trainer[kubernetes]'"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_CONNECT = 5.0  # seconds
_CONNECTIONS = 300  # at once: a stream for each pod whose log is followed
_UNAUTHORIZED = 401


class ApiError(Exception):
    """The API refused a request.

    Attributes
    ----------
    status
        The HTTP status code.
    reason
        Kubernetes' word for it (``NotFound``, ``Forbidden``, ...), or HTTP's.
    message
        The sentence of the server.
    verb, resource
        What was asked for, in the words of rights: ``create``, ``trainjobs``.
    """

    def __init__(
        self, status: int, reason: str, message: str, verb: str = "", resource: str = ""
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.verb = verb
        self.resource = resource


class Unreachable(Exception):  # noqa: N818
    """The API did not answer: no connection, a broken one, or silence."""


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

    Raises
    ------
    UsageError
        There is no cluster to speak to, or no such context.
    BackendError
        ``kubernetes`` is not installed, or the kubeconfig can't be used.
    """

    def __init__(self, context: str | None = None, namespace: str | None = None) -> None:
        self._lock = threading.Lock()
        self.context = context
        self._connect()
        self.namespace = namespace or self._own_namespace

    @property
    def identity(self) -> str:
        """A short name for this cluster and namespace, the same in each process."""
        return hashlib.sha256(f"{self.server}\n{self.namespace}".encode()).hexdigest()[:16]

    def _connect(self) -> None:
        """Load the configuration, and make the pool of connections."""
        try:
            from kubernetes import client, config
            from kubernetes.client.rest import RESTClientObject
        except ImportError:
            raise BackendError("The package kubernetes is not installed.", INSTALL) from None
        configuration = client.Configuration()
        configuration.connection_pool_maxsize = _CONNECTIONS
        configuration.retries = False
        if self.context is None and not has_kubeconfig() and in_cluster():
            config.load_incluster_config(client_configuration=configuration)
            self._own_namespace = _read(_SERVICE_ACCOUNT / "namespace") or "default"
        else:
            self._load_kubeconfig(config, configuration)
        self._configuration = configuration
        self._pool = RESTClientObject(configuration).pool_manager
        self.server = str(configuration.host).rstrip("/")

    def _load_kubeconfig(self, config: Any, configuration: Any) -> None:
        if not has_kubeconfig():
            raise UsageError(
                "There is no cluster to speak to: no kubeconfig, and this is not a pod.",
                "Set KUBECONFIG, or leave --backend out to train on this machine.",
            )
        try:
            contexts, active = config.list_kube_config_contexts()
        except config.ConfigException as error:
            raise BackendError(f"The kubeconfig can't be used: {error}") from None
        known = {item["name"]: item for item in contexts or []}
        name = self.context or (active or {}).get("name")
        if name not in known:
            from jupyter_jax_trainer.checks import did_you_mean, shown

            raise UsageError(
                f"The kubeconfig has no context {shown(name)}.", did_you_mean(str(name), known)
            )
        self.context = name
        self._own_namespace = known[name].get("context", {}).get("namespace") or "default"
        try:
            config.load_kube_config(context=name, client_configuration=configuration)
        except config.ConfigException as error:
            raise BackendError(f"The context {name} can't be used: {error}") from None

    # -- requests ----------------------------------------------------------------------------

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        timeout: float = 30.0,
    ) -> dict[str, Any]:
        """Make a request and give the JSON object that comes back.

        Raises
        ------
        ApiError
            It was refused.
        Unreachable
            There was no answer within `timeout` seconds.
        """
        data = None if body is None else json.dumps(body).encode()
        response = self._send(method, path, query, data, content_type, timeout)
        try:
            text = response.read(decode_content=True)
        except Exception as error:
            raise Unreachable(_words(error)) from None
        finally:
            response.release_conn()
        try:
            found = json.loads(text)
        except ValueError:
            raise Unreachable(f"{self.server} answers with something else than JSON") from None
        if not isinstance(found, dict):
            raise Unreachable(f"{self.server} answers with something else than an object")
        return found

    def open(
        self, path: str, query: Mapping[str, Any] | None = None, read_timeout: float = 60.0
    ) -> Any:
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
        self, method: str, path: str, query: Mapping[str, Any] | None, data: bytes | None,
        content_type: str | None, timeout: float,
    ) -> Any:  # fmt: skip
        try:
            return self._send_once(method, path, query, data, content_type, timeout)
        except ApiError as error:
            if error.status != _UNAUTHORIZED:
                raise
        with self._lock:
            self._connect()  # a token that has expired, an exec plugin with a new one
        return self._send_once(method, path, query, data, content_type, timeout)

    def _send_once(
        self, method: str, path: str, query: Mapping[str, Any] | None, data: bytes | None,
        content_type: str | None, timeout: float,
    ) -> Any:  # fmt: skip
        import urllib3

        url = self.server + path + (f"?{urlencode(query)}" if query else "")
        headers = self._headers()
        if data is not None and content_type:
            headers["Content-Type"] = content_type
        try:
            response = self._pool.request(
                method, url, body=data, headers=headers, preload_content=False, redirect=False,
                retries=False, timeout=urllib3.Timeout(connect=_CONNECT, read=timeout),
            )  # fmt: skip
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(_words(error)) from None
        if response.status < 300:
            return response
        try:
            text = response.read(1 << 20, decode_content=True)
        except urllib3.exceptions.HTTPError:
            text = b""
        finally:
            response.release_conn()
        raise _refusal(response.status, text, method, path, bool(query and query.get("watch")))

    @contextlib.contextmanager
    def forward(self, pod: str, port: int) -> Iterator[Any]:
        """Open a connection to a port of a pod, by way of the API.

        Raises
        ------
        ApiError, Unreachable
            It can't be had.
        """
        from kubernetes import client
        from kubernetes.client.exceptions import ApiException
        from kubernetes.stream import portforward

        core = client.CoreV1Api(client.ApiClient(self._configuration))
        try:
            forwarded = portforward(
                core.connect_get_namespaced_pod_portforward, pod, self.namespace, ports=str(port)
            )
        except ApiException as error:
            raise ApiError(
                error.status or 0, "", str(error.reason), "create", "pods/portforward"
            ) from None
        except Exception as error:
            raise Unreachable(_words(error)) from None
        end = forwarded.socket(port)
        try:
            yield end
        finally:
            end.close()
            forwarded.close()

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "jupyter-jax-trainer"}
        with self._lock:  # refreshing a token is not safe in several threads
            for setting in self._configuration.auth_settings().values():
                headers[setting["key"]] = setting["value"]
        return headers

    # -- paths -------------------------------------------------------------------------------

    def core(self, resource: str, name: str = "", sub: str = "") -> str:
        """Give the path of core objects of the namespace."""
        return _path("/api/v1", self.namespace, resource, name, sub)

    def batch(self, resource: str, name: str = "") -> str:
        """Give the path of Jobs."""
        return _path("/apis/batch/v1", self.namespace, resource, name)

    def trainer(self, resource: str, name: str = "", sub: str = "") -> str:
        """Give the path of Kubeflow Trainer's objects."""
        return _path("/apis/trainer.kubeflow.org/v1alpha1", self.namespace, resource, name, sub)


def _path(base: str, namespace: str | None, *parts: str) -> str:
    words = ["namespaces", namespace] if namespace else []
    return "/".join([base, *(quote(word, safe="") for word in (*words, *parts) if word)])


def cluster_path(base: str, *parts: str) -> str:
    """Give the path of objects that belong to no namespace."""
    return _path(base, None, *parts)


def has_kubeconfig() -> bool:
    """Tell whether there is a kubeconfig."""
    given = os.environ.get("KUBECONFIG")
    files = given.split(os.pathsep) if given else [str(Path.home() / ".kube" / "config")]
    return any(name and Path(name).expanduser().is_file() for name in files)


def in_cluster() -> bool:
    """Tell whether this runs in a pod that may speak to its cluster."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and (_SERVICE_ACCOUNT / "token").is_file()


def is_configured() -> bool:
    """Tell whether there is what it takes to speak to a cluster; nothing is imported or sent."""
    from importlib.util import find_spec

    return (has_kubeconfig() or in_cluster()) and find_spec("kubernetes") is not None


def _refusal(status: int, text: bytes, method: str, path: str, watch: bool) -> ApiError:
    found: dict[str, Any] = {}
    with contextlib.suppress(ValueError):
        read = json.loads(text)
        found = read if isinstance(read, dict) else {}
    message = str(found.get("message") or text.decode(errors="replace").strip() or "no reason given")
    verb, resource = _rights(method, path, watch)
    return ApiError(status, str(found.get("reason") or ""), message, verb, resource)


def _rights(method: str, path: str, watch: bool) -> tuple[str, str]:
    """Say what a request needs in the words of rights: a verb and a resource."""
    words = path.strip("/").split("/")
    words = words[2:] if words[0] == "api" else words[3:]
    if words[:1] == ["namespaces"] and len(words) > 2:
        words = words[2:]
    named = len(words) > 1
    verb = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}.get(method)
    verb = verb or ("watch" if watch else "get" if named else "list")
    resource = words[0] if words else path
    return verb, f"{resource}/{words[2]}" if len(words) > 2 else resource


def _read(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_text().strip()
    return None


def _words(error: BaseException) -> str:
    """Give an urllib3 error without the names of its own objects."""
    import re

    text = str(error) or type(error).__name__
    return re.sub(r"^<[^>]*>: |^\w*ConnectionPool\([^)]*\): |<[^>]* object at [^>]*>[:,]? ?", "", text)
