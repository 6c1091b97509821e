"""Find the cluster and who we are: by a kubeconfig, or as the service account of a pod.

All of it is the official client's work, which is imported late: it takes from 0.3 to over a second.
"""

from __future__ import annotations

import contextlib
import functools
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
from jupyter_jax_trainer.messages import cluster as say

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
    return BackendError(say.NOT_INSTALLED(command=install_command("kubernetes")))


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
        raise UsageError(say.NO_KUBECONFIG(context=context))
    if not in_cluster():
        named = os.environ.get("KUBECONFIG")
        raise UsageError(say.NO_CLUSTER_NO_FILE(path=named) if named else say.NO_CLUSTER())
    try:
        config.load_incluster_config(client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise BackendError(say.BAD_SERVICE_ACCOUNT(error=error)) from None
    return Access(configuration, None, _read(_SERVICE_ACCOUNT / "namespace") or "default")


def _from_kubeconfig(config: Any, configuration: Any, context: str | None) -> Access:
    files = os.pathsep.join(map(str, _files()))
    known, current = contexts()
    name = context or current
    if not name:
        raise UsageError(
            say.NO_CURRENT_CONTEXT(contexts=", ".join(known)) if known else say.NO_CONTEXTS()
        )
    if name not in known:
        from jupyter_jax_trainer.options.checks import did_you_mean, shown

        raise UsageError(say.UNKNOWN_CONTEXT(context=shown(name)), did_you_mean(name, known))
    heard: list[str] = []
    keyfiles.write_one_at_a_time()
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
        raise BackendError(say.BAD_CONTEXT(context=name, error=_words(error))) from None
    program = known[name].program
    if program and not configuration.api_key and not configuration.cert_file:
        reason = "; ".join(heard) or say.NO_REASON()
        raise BackendError(say.NO_CREDENTIALS(program=program, reason=reason))
    return Access(configuration, name, known[name].namespace)


@dataclass(frozen=True)
class Context:
    """A context of the kubeconfig.

    Attributes
    ----------
    namespace
        The one that it names, or ``default``.
    program
        What its user runs to sign in; None without such a program.
    """

    namespace: str
    program: str | None


def contexts() -> tuple[dict[str, Context], str | None]:
    """Return the contexts of the kubeconfig by their names, and the name of the current one.

    Of several files the first that has something counts, as for kubectl; the official client, which
    takes its time to be imported, agrees except for the current context.

    Raises
    ------
    BackendError
        A file can't be read, or is not a kubeconfig.
    """
    return _contexts(stamp())


@functools.lru_cache(4)
def _contexts(files: tuple[tuple[str, int, int], ...]) -> tuple[dict[str, Context], str | None]:
    import yaml

    found: dict[str, dict[str, Any]] = {}
    users: dict[str, dict[str, Any]] = {}
    current: str | None = None
    for name, *_ in files:
        try:
            read = yaml.safe_load(Path(name).read_text()) or {}
            current = current or read.get("current-context")
            for item in read.get("contexts") or []:
                found.setdefault(str(item["name"]), dict(item.get("context") or {}))
            for item in read.get("users") or []:
                users.setdefault(str(item["name"]), dict(item.get("user") or {}))
        except OSError as error:
            said = say.UNREADABLE_KUBECONFIG(path=name, error=error.strerror)
            raise BackendError(said) from None
        except (yaml.YAMLError, ValueError, TypeError, AttributeError, KeyError) as error:
            # The error's own words would quote from the file: it has tokens.
            mark = getattr(error, "problem_mark", None)
            raise BackendError(
                say.BAD_KUBECONFIG_LINE(path=name, line=mark.line + 1)
                if mark
                else say.BAD_KUBECONFIG(path=name)
            ) from None
    known = {}
    for name, context in found.items():
        program = (users.get(str(context.get("user"))) or {}).get("exec") or {}
        known[name] = Context(str(context.get("namespace") or "default"), program.get("command"))
    return known, current


def _words(error: Exception) -> str:
    """Return an error's words without what stands in the file: it has tokens."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if problem and mark:
        return say.BAD_YAML(line=mark.line + 1, problem=problem)
    if isinstance(error, (TypeError, AttributeError, KeyError)):
        return say.NOT_A_KUBECONFIG()
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
    """Return KUBECONFIG as it may be handed to a process in another directory."""
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
    """Return whether there is a kubeconfig."""
    return bool(_files())


def in_cluster() -> bool:
    """Return whether this runs in a pod that may speak to its cluster."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and (_SERVICE_ACCOUNT / "token").is_file()


def is_configured() -> bool:
    """Return whether there is what it takes to speak to a cluster; nothing is imported or sent."""
    from importlib.util import find_spec

    return (has_kubeconfig() or in_cluster()) and find_spec("kubernetes") is not None


def _read(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_text().strip()
    return None
