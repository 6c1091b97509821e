"""Look at a cluster for what jobs need there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api import rights
from jupyter_jax_trainer.backends.kubernetes.api.client import (
    ApiError,
    Client,
    Unreachable,
    has_kubeconfig,
    in_cluster,
)
from jupyter_jax_trainer.backends.kubernetes.api.rights import Right
from jupyter_jax_trainer.backends.kubernetes.connection import get_client, said_plainly
from jupyter_jax_trainer.backends.kubernetes.doctor import readiness
from jupyter_jax_trainer.backends.kubernetes.submit import queues, runtimes
from jupyter_jax_trainer.doctor.finding import FAIL, OK, WARN, Finding
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.installation import EXTRAS, install_command
from jupyter_jax_trainer.messages import Message
from jupyter_jax_trainer.messages import cluster as of_cluster
from jupyter_jax_trainer.messages import doctor as say
from jupyter_jax_trainer.runtime import installed

_LEAST, _MOST = (35, 38)


def examine(context: str | None, namespace: str | None, *, asked: bool) -> Iterator[Finding]:
    """Make all checks, each only where the one before found what it needs.

    Parameters
    ----------
    asked
        Somebody asked for the cluster, so that it is an error if there is none.
    """
    version = installed("kubernetes")
    configured = has_kubeconfig() or in_cluster()
    if version is None or not configured:
        if not asked and not configured:
            yield Finding(OK, say.KUBERNETES(), say.NO_CLUSTER())
        elif version is None:
            advice = install_command("kubernetes")
            yield Finding(FAIL if asked else WARN, say.KUBERNETES(), say.NO_PACKAGE(), advice)
        else:
            yield Finding(FAIL, say.KUBERNETES(), say.NO_KUBECONFIG())
        return
    major = int(version.split(".")[0])
    if not _LEAST <= major < _MOST or major == 36:
        advice = say.INSTALL_PACKAGE(requirement=EXTRAS["kubernetes"][0])
        yield Finding(WARN, say.PACKAGE(), version, advice)
    else:
        yield Finding(OK, say.PACKAGE(), version)
    bad = FAIL if asked else WARN
    try:
        client = get_client(context, namespace)
        with said_plainly(client):
            client.request("GET", "/version", timeout=timeouts.DOCTOR.seconds)
            known = _has_namespace(client)
    except JaxTrainError as error:
        yield Finding(bad, say.CLUSTER(), error.message, error.hint)
        return
    where = {"server": client.server, "namespace": client.namespace}
    context = client.context
    at = say.AT_CONTEXT(**where, context=context) if context else say.AT(**where)
    yield Finding(OK, say.CLUSTER(), at)
    if not client.verified:
        yield Finding(WARN, say.CERTIFICATE(), say.UNVERIFIED())
    if not known:
        yield Finding(bad, say.NAMESPACE(), say.NO_NAMESPACE(namespace=client.namespace))
        return
    yield from _trainer(client, bad)
    yield from _queues(client)
    yield from _rights(client, bad)
    yield from _forwards(client)


def _has_namespace(client: Client) -> bool:
    """Return whether the namespace is there; those who may not look are believed."""
    try:
        path = f"/api/v1/namespaces/{client.namespace}"
        client.request("GET", path, timeout=timeouts.DOCTOR.seconds)
    except ApiError as error:
        if error.status != 403:
            return error.status != 404
    return True


def _trainer(client: Client, bad: str) -> Iterator[Finding]:
    try:
        with said_plainly(client):
            version = runtimes.check_trainer(client)
    except JaxTrainError as error:
        yield Finding(bad, say.TRAINER(), error.message, error.hint)
        return
    yield Finding(OK, say.TRAINER(), version)
    try:
        with said_plainly(client):
            found = runtimes.list_runtimes(client)
    except JaxTrainError as error:
        yield Finding(bad, say.RUNTIMES(), error.message, error.hint)
        return
    names = ", ".join(item.name for item in found)
    if not names:
        advice = say.INSTALL_OURS(command=runtimes.INSTALL)
        yield Finding(bad, say.RUNTIMES(), say.NONE(), advice)
    elif all(map(runtimes.is_converted, found)):
        said = say.CONVERTED_RUNTIMES(names=names, command=runtimes.INSTALL)
        yield Finding(bad, say.RUNTIMES(), said)
    elif not any(runtimes.runs_once(item) for item in found):
        said = say.RERUNNING_RUNTIMES(names=names, command=runtimes.INSTALL)
        yield Finding(WARN, say.RUNTIMES(), said)
    else:
        yield Finding(OK, say.RUNTIMES(), names)
    yield from readiness.examine(client, found, bad)


def _queues(client: Client) -> Iterator[Finding]:
    """Look at Kueue, where there is one: nobody needs it."""
    try:
        with said_plainly(client):
            kueue = queues.find(client)
            if kueue is None:
                return
            found = queues.listed(client, kueue.of_namespace(client, "localqueues"))
            missing = rights.missing(client, rights.QUEUE_RIGHTS)
    except JaxTrainError as error:
        yield Finding(WARN, say.KUEUE(), error.message, error.hint)
        return
    yield _version(kueue, missing)
    names = ", ".join(item.name for item in found)
    if names or not any(right.resource == "localqueues" for right in missing):
        yield Finding(OK, say.QUEUES(), names or say.NO_QUEUES(namespace=client.namespace))
    if missing:
        yield _missing(WARN, say.QUEUE_RIGHTS(), missing, say.LOST_IN_QUEUES)


def _version(kueue: queues.Kueue, missing: Sequence[Right]) -> Finding:
    """Return what Kueue's version means for jobs."""
    if kueue.keeps_patches:
        return Finding(OK, say.KUEUE(), kueue.version or say.NO_VERSION())
    if kueue.version:
        return Finding(WARN, say.KUEUE(), kueue.version, say.DROPS_PATCHES(kueue=kueue.words))
    right = rights.VERSION
    why = say.NO_DEPLOYMENT(name=right.name, namespace=right.namespace)
    if right in missing:
        why = say.NO_VERSION_RIGHT(right=right.words)
    return Finding(WARN, say.KUEUE(), say.NO_VERSION(), say.ASSUMED_VERSION(reason=why))


def _rights(client: Client, bad: str) -> Iterator[Finding]:
    try:
        with said_plainly(client):
            missing = rights.missing(client)
            optional = rights.missing(client, rights.RESTARTS)
    except JaxTrainError as error:
        yield Finding(WARN, say.RIGHTS(), error.message, error.hint)
        return
    if not missing:
        yield Finding(OK, say.RIGHTS(), say.ALL_RIGHTS(namespace=client.namespace))
    else:
        status = bad if any(right.needed for right in missing) else WARN
        yield _missing(status, say.RIGHTS(), missing, say.LOST)
    if optional:
        yield _missing(OK, say.RESTART_RIGHTS(), optional, say.LOST_RESTARTS)


def _forwards(client: Client) -> Iterator[Finding]:
    """Look whether port-forwards get through: proxies may take nothing but plain requests."""
    try:
        client.try_upgrade()
    except ApiError as error:
        if error.status in (401, 403, 404):
            return  # it came there; what is missing is said among the rights
        said = say.NO_UPGRADE(reason=f"HTTP {error.status}")
    except Unreachable as error:
        said = say.NO_UPGRADE(reason=error)
    else:
        yield Finding(OK, say.FORWARDS(), say.UPGRADES())
        return
    yield Finding(
        WARN, say.FORWARDS(), said, say.LET_UPGRADES_THROUGH(lost=of_cluster.NO_FORWARD())
    )


def _missing(status: str, subject: str, missing: Sequence[Right], advice: Message) -> Finding:
    """Return which rights are missing; the advice says what is lost, and where to get them."""
    lost: dict[str, list[str]] = {}
    for right in missing:
        lost.setdefault(right.without, []).append(right.words)
    words = ", ".join(right.words for right in missing)
    what = "; ".join(f"{without} ({', '.join(wanted)})" for without, wanted in lost.items())
    return Finding(status, subject, say.MISSING_RIGHTS(rights=words), advice(lost=what))
