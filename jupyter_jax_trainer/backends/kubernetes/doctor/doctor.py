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
from jupyter_jax_trainer.messages import Label, Message, identify
from jupyter_jax_trainer.messages import cluster as of_cluster
from jupyter_jax_trainer.messages import doctor as say
from jupyter_jax_trainer.runtime import installed

_LEAST, _MOST = (35, 38)

KUBERNETES = Label("Kubernetes")
PACKAGE = Label("Package kubernetes")
CERTIFICATE = Label("Certificate")
NAMESPACE = Label("Namespace")
NO_CLUSTER = Message("no kubeconfig; jobs run on this machine")
NO_KUBECONFIG = Message(
    "no kubeconfig, and this is not a pod", "Set KUBECONFIG, or put it into ~/.kube/config."
)
NO_PACKAGE = Message("package not installed")
INSTALL_PACKAGE = Message("pip install '{requirement}' (version 36 corrupts logs)")
AT = Message("{server}, namespace {namespace}")
AT_CONTEXT = Message("{server}, namespace {namespace}, context {context}")
UNVERIFIED = Message(
    "the kubeconfig sets insecure-skip-tls-verify for this cluster",
    "Add the cluster's certificate-authority to the kubeconfig; without it, anyone who intercepts "
    "the connection gets your token and jobs.",
)
NO_NAMESPACE = Message(
    "there is no namespace {namespace}", "Choose another with --namespace, or have it created."
)


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
            yield Finding(OK, KUBERNETES(), NO_CLUSTER())
        elif version is None:
            advice = install_command("kubernetes")
            yield Finding(FAIL if asked else WARN, KUBERNETES(), NO_PACKAGE(), advice)
        else:
            yield Finding(FAIL, KUBERNETES(), NO_KUBECONFIG())
        return
    major = int(version.split(".")[0])
    if not _LEAST <= major < _MOST or major == 36:
        advice = INSTALL_PACKAGE(requirement=EXTRAS["kubernetes"][0])
        yield Finding(WARN, PACKAGE(), version, advice)
    else:
        yield Finding(OK, PACKAGE(), version)
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
    at = AT_CONTEXT(**where, context=context) if context else AT(**where)
    yield Finding(OK, say.CLUSTER(), at)
    if not client.verified:
        yield Finding(WARN, CERTIFICATE(), UNVERIFIED())
    if not known:
        yield Finding(bad, NAMESPACE(), NO_NAMESPACE(namespace=client.namespace))
        return
    yield from _trainer(client, bad)
    yield from _queues(client)
    yield from _rights(client, bad)
    yield from _forwards(client)


def _has_namespace(client: Client) -> bool:
    """Return whether the namespace exists; assume so if the user may not read it."""
    try:
        path = f"/api/v1/namespaces/{client.namespace}"
        client.request("GET", path, timeout=timeouts.DOCTOR.seconds)
    except ApiError as error:
        if error.status != 403:
            return error.status != 404
    return True


TRAINER = Label("Kubeflow Trainer")
RUNTIMES = Label("JAX runtimes")
INSTALL_OURS = Message("Install ours: {command}")
CONVERTED_RUNTIMES = Message(
    "only those of converted JAXJobs: {names}",
    "Only jobs that name one (--runtime) use it. Install ours: {command}",
)
RERUNNING_RUNTIMES = Message(
    "all rerun failed cells: {names}",
    "A follower has to stop such jobs. Ours run a cell once: {command}",
)


def _trainer(client: Client, bad: str) -> Iterator[Finding]:
    try:
        with said_plainly(client):
            version = runtimes.check_trainer(client)
    except JaxTrainError as error:
        yield Finding(bad, TRAINER(), error.message, error.hint)
        return
    yield Finding(OK, TRAINER(), version)
    try:
        with said_plainly(client):
            found = runtimes.list_runtimes(client)
    except JaxTrainError as error:
        yield Finding(bad, RUNTIMES(), error.message, error.hint)
        return
    # A runtime of the namespace may have the name of one of the cluster.
    names = ", ".join(dict.fromkeys(item.name for item in found))
    if not names:
        advice = INSTALL_OURS(command=runtimes.INSTALL)
        yield Finding(bad, RUNTIMES(), say.NONE(), advice)
    elif all(map(runtimes.is_converted, found)):
        said = CONVERTED_RUNTIMES(names=names, command=runtimes.INSTALL)
        yield Finding(bad, RUNTIMES(), said)
    elif not any(runtimes.runs_once(item) for item in found):
        said = RERUNNING_RUNTIMES(names=names, command=runtimes.INSTALL)
        yield Finding(WARN, RUNTIMES(), said)
    else:
        yield Finding(OK, RUNTIMES(), names)
    yield from readiness.examine(client, found, bad)


KUEUE = Label("Kueue")
QUEUES = Label("Queues")
QUEUE_RIGHTS = Label("Rights for queues")
NO_QUEUES = Message("none in namespace {namespace}")
LOST_IN_QUEUES = Message("Without them: {lost}. runtimes/queue-rights.yaml has all.")


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
        yield Finding(WARN, KUEUE(), error.message, error.hint)
        return
    yield _version(kueue, missing)
    names = ", ".join(item.name for item in found)
    if names or not any(right.resource == "localqueues" for right in missing):
        yield Finding(OK, QUEUES(), names or NO_QUEUES(namespace=client.namespace))
    if missing:
        yield _missing(WARN, QUEUE_RIGHTS(), missing, LOST_IN_QUEUES)


DROPS_PATCHES = Message(
    "{kueue} drops what a job adds to its runtime, so --volume, --service-account, --accelerator "
    "and --topology are refused with --queue. Set them in a runtime, or install Kueue 0.17.",
)
NO_VERSION = Message("unknown version")
ASSUMED_VERSION = Message(
    "Its version can't be read ({reason}), so it is assumed to be 0.16, which drops what a job "
    "adds to its runtime: --volume, --service-account, --accelerator and --topology are refused "
    "with --queue. Set them in a runtime.",
)
NO_DEPLOYMENT = Message("no Deployment {name} in namespace {namespace}")
NO_VERSION_RIGHT = Message("no permission to {right}")


def _version(kueue: queues.Kueue, missing: Sequence[Right]) -> Finding:
    """Return what Kueue's version means for jobs."""
    if kueue.keeps_patches:
        return Finding(OK, KUEUE(), kueue.version or NO_VERSION())
    if kueue.version:
        return Finding(WARN, KUEUE(), kueue.version, DROPS_PATCHES(kueue=kueue.words))
    right = rights.VERSION
    why = NO_DEPLOYMENT(name=right.name, namespace=right.namespace)
    if right in missing:
        why = NO_VERSION_RIGHT(right=right.words)
    return Finding(WARN, KUEUE(), NO_VERSION(), ASSUMED_VERSION(reason=why))


RIGHTS = Label("Rights")
RESTART_RIGHTS = Label("Rights for restarts")
ALL_RIGHTS = Message("all that are needed in namespace {namespace}")
LOST = Message("Without them: {lost}. The Role in runtimes/rights.yaml has all.")
LOST_RESTARTS = Message(
    "Without them: {lost}. The Role jupyter-jax-trainer-restarts in runtimes/rights.yaml has them."
)


def _rights(client: Client, bad: str) -> Iterator[Finding]:
    try:
        with said_plainly(client):
            missing = rights.missing(client)
            optional = rights.missing(client, rights.RESTARTS)
    except JaxTrainError as error:
        yield Finding(WARN, RIGHTS(), error.message, error.hint)
        return
    if not missing:
        yield Finding(OK, RIGHTS(), ALL_RIGHTS(namespace=client.namespace))
    else:
        status = bad if any(right.needed for right in missing) else WARN
        yield _missing(status, RIGHTS(), missing, LOST)
    if optional:
        yield _missing(OK, RESTART_RIGHTS(), optional, LOST_RESTARTS)


FORWARDS = Label("Port-forwards")
UPGRADES = Message("the API can be reached by WebSockets")
NO_UPGRADE = Message("the API can't be reached by WebSockets ({reason})")
LET_UPGRADES_THROUGH = Message(
    "Without them: {lost}. Have the proxy in front of the API let `Upgrade: websocket` through."
)


def _forwards(client: Client) -> Iterator[Finding]:
    """Look whether port-forwards get through: proxies may take nothing but plain requests."""
    try:
        client.try_upgrade()
    except ApiError as error:
        if error.status in (401, 403, 404):
            return  # it came there; what is missing is said among the rights
        said = NO_UPGRADE(reason=f"HTTP {error.status}")
    except Unreachable as error:
        said = NO_UPGRADE(reason=error)
    else:
        yield Finding(OK, FORWARDS(), UPGRADES())
        return
    yield Finding(WARN, FORWARDS(), said, LET_UPGRADES_THROUGH(lost=of_cluster.NO_FORWARD()))


MISSING_RIGHTS = Message("missing: {rights}")


def _missing(status: str, subject: str, missing: Sequence[Right], advice: Message) -> Finding:
    """Return which rights are missing; the advice says what is lost, and where to get them."""
    lost: dict[str, list[str]] = {}
    for right in missing:
        lost.setdefault(right.without, []).append(right.words)
    words = ", ".join(right.words for right in missing)
    what = "; ".join(f"{without} ({', '.join(wanted)})" for without, wanted in lost.items())
    return Finding(status, subject, MISSING_RIGHTS(rights=words), advice(lost=what))


identify(globals(), "doctor")
