"""Find the cluster and who we are: by a kubeconfig, or as the service account of a pod.

All of it is the official client's work, which is imported late: it takes from 0.3 to over a second.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.api import keyfiles
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.installation import install_command

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Access:
    """The way to a cluster.

    Attributes
    ----------
    configuration
        The official client's ``Configuration``.
    context
        The context of the kubeconfig; None in a pod.
    namespace
        The one that is meant where none is named.
    """

    configuration: Any
    context: str | None
    namespace: str


def not_installed() -> BackendError:
    """Return the error for a machine without the official client."""
    advice = f"Install it: {install_command('kubernetes')}"
    return BackendError("The package kubernetes is not installed.", advice)


def find_access(context: str | None, connections: int) -> Access:
    """Load a context of the kubeconfig, its current one, or the service account of this pod.

    Parameters
    ----------
    context
        The name of a context; None for the current one.
    connections
        How many there may be at once.

    Raises
    ------
    UsageError
        There is no cluster to speak to, or no such context.
    BackendError
        ``kubernetes`` is not installed, or the kubeconfig can't be used.
    """
    try:
        from kubernetes import client, config
    except ImportError:
        raise not_installed() from None
    configuration = client.Configuration()
    configuration.connection_pool_maxsize = connections
    configuration.retries = False
    if has_kubeconfig():
        return _from_kubeconfig(config, configuration, context)
    if context is not None:
        raise UsageError(
            f"There is no kubeconfig, and so no context {context}.", "Set KUBECONFIG to the file."
        )
    if not in_cluster():
        named = os.environ.get("KUBECONFIG")
        raise UsageError(
            "There is no cluster to speak to: "
            + (f"KUBECONFIG names {named}, which is not there" if named else "no kubeconfig")
            + ", and this is not a pod.",
            "Set KUBECONFIG to the file, or leave --backend out to train on this machine.",
        )
    try:
        config.load_incluster_config(client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise BackendError(f"This pod's service account can't be used: {error}") from None
    return Access(configuration, None, _read(_SERVICE_ACCOUNT / "namespace") or "default")


def _from_kubeconfig(config: Any, configuration: Any, context: str | None) -> Access:
    files = os.pathsep.join(map(str, _files()))
    known, current, users = _contexts(config, files)
    name = context or current
    if not name:
        raise UsageError(
            "The kubeconfig has no current context.",
            f"Choose one with --context: {', '.join(known)}." if known else "It has none at all.",
        )
    if name not in known:
        from jupyter_jax_trainer.options.checks import did_you_mean, shown

        raise UsageError(f"The kubeconfig has no context {shown(name)}.", did_you_mean(name, known))
    heard: list[str] = []
    keyfiles.forget_lost()
    place = keyfiles.folder()
    try:
        with overheard(heard):
            # The file is named: the client itself looks at KUBECONFIG only once, at its import.
            config.load_kube_config(
                files,
                name,
                client_configuration=configuration,
                temp_file_path=None if place is None else str(place),
            )
    except Exception as error:
        raise BackendError(f"The context {name} can't be used: {_words(error)}") from None
    program = (users.get(str(known[name].get("user"))) or {}).get("exec")
    if program and not configuration.api_key and not configuration.cert_file:
        raise BackendError(
            f"The program {program.get('command')}, which the kubeconfig names for signing in, "
            f"gave no credentials: {'; '.join(heard) or 'no reason given'}",
            "Sign in with it; `kubectl auth whoami` tells if it works.",
        )
    return Access(configuration, name, str(known[name].get("namespace") or "default"))


def _contexts(
    config: Any, files: str
) -> tuple[dict[str, dict[str, Any]], str | None, dict[str, dict[str, Any]]]:
    """Read contexts, the name of the current one, and users, out of one or several files."""
    try:
        merged = config.kube_config.KubeConfigMerger(files)
        read = _plain(merged.config) or {}
        # Of several files the first that names one counts, as for kubectl; here the client differs.
        current = [c.get("current-context") for c in merged.config_files.values() if c]
        contexts, users = (
            {str(v["name"]): v.get(kind) or {} for v in map(_plain, read.get(f"{kind}s") or [])}
            for kind in ("context", "user")
        )
        return contexts, next(filter(None, current), None), users
    except Exception as error:  # whatever a file can hold
        raise BackendError(f"The kubeconfig can't be used: {_words(error)}") from None


def _plain(node: Any) -> Any:
    return getattr(node, "value", node)


def _words(error: Exception) -> str:
    """Give an error's words without what stands in the file: it has tokens."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if problem and mark:
        return f"line {mark.line + 1}: {problem}"
    if isinstance(error, (TypeError, AttributeError, KeyError)):
        return "it is not a kubeconfig"
    return str(error) or type(error).__name__


@contextlib.contextmanager
def overheard(heard: list[str]) -> Iterator[None]:
    """Take what the official client would print: the root logger is the user's, not its own."""
    root, thread = logging.getLogger(), threading.get_ident()

    def take(record: logging.LogRecord) -> bool:
        if record.thread != thread or record.module != "kube_config":
            return True
        heard.append(record.getMessage())
        return False

    handler = logging.NullHandler()  # without any, logging would set one up for good
    root.addFilter(take)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.removeFilter(take)


def _files() -> list[Path]:
    given = os.environ.get("KUBECONFIG")
    names = given.split(os.pathsep) if given else [str(Path.home() / ".kube" / "config")]
    return [path for name in names if name and (path := Path(name).expanduser()).is_file()]


def paths() -> str | None:
    """Give KUBECONFIG as it may be handed to a process in another directory."""
    given = os.environ.get("KUBECONFIG")
    return given and os.pathsep.join(str(path.absolute()) for path in _files())


def stamp() -> tuple[tuple[str, int, int], ...]:
    """Tell one state of the kubeconfig from another."""
    found = []
    for path in _files():
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((str(path), status.st_mtime_ns, status.st_ino))
    return tuple(found)


def has_kubeconfig() -> bool:
    """Tell whether there is a kubeconfig."""
    return bool(_files())


def in_cluster() -> bool:
    """Tell whether this runs in a pod that may speak to its cluster."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and (_SERVICE_ACCOUNT / "token").is_file()


def is_configured() -> bool:
    """Tell whether there is what it takes to speak to a cluster; nothing is imported or sent."""
    from importlib.util import find_spec

    return (has_kubeconfig() or in_cluster()) and find_spec("kubernetes") is not None


def _read(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_text().strip()
    return None
