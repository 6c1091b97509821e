"""Look at a cluster for what jobs need there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api import rights
from jupyter_jax_trainer.backends.kubernetes.api.client import (
    UNVERIFIED,
    ApiError,
    Client,
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
            yield Finding(OK, "Kubernetes", "no kubeconfig; jobs run on this machine")
        elif version is None:
            advice = install_command("kubernetes")
            yield Finding(FAIL if asked else WARN, "Kubernetes", "package not installed", advice)
        else:
            advice = "Set KUBECONFIG, or put it into ~/.kube/config."
            yield Finding(FAIL, "Kubernetes", "no kubeconfig, and this is not a pod", advice)
        return
    major = int(version.split(".")[0])
    if not _LEAST <= major < _MOST or major == 36:
        advice = f"pip install '{EXTRAS['kubernetes'][0]}' (version 36 corrupts logs)"
        yield Finding(WARN, "Package kubernetes", version, advice)
    else:
        yield Finding(OK, "Package kubernetes", version)
    bad = FAIL if asked else WARN
    try:
        client = get_client(context, namespace)
        with said_plainly(client):
            client.request("GET", "/version", timeout=timeouts.DOCTOR.seconds)
            known = _has_namespace(client)
    except JaxTrainError as error:
        yield Finding(bad, "Cluster", error.message, error.hint)
        return
    where = f"{client.server}, namespace {client.namespace}"
    yield Finding(OK, "Cluster", where + (f", context {client.context}" if client.context else ""))
    if not client.verified:
        advice = (
            "Add the cluster's certificate-authority to the kubeconfig; without it, anyone who "
            "intercepts the connection gets your token and jobs."
        )
        yield Finding(WARN, "Certificate", UNVERIFIED, advice)
    if not known:
        advice = "Choose another with --namespace, or have it created."
        yield Finding(bad, "Namespace", f"there is no namespace {client.namespace}", advice)
        return
    yield from _trainer(client, bad)
    yield from _queues(client)
    yield from _rights(client, bad)


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
        yield Finding(bad, "Kubeflow Trainer", error.message, error.hint)
        return
    yield Finding(OK, "Kubeflow Trainer", version)
    try:
        with said_plainly(client):
            found = runtimes.list_runtimes(client)
    except JaxTrainError as error:
        yield Finding(bad, "JAX runtimes", error.message, error.hint)
        return
    names = ", ".join(item["metadata"]["name"] for item in found)
    if not names:
        advice = f"Install ours: {runtimes.INSTALL}"
        yield Finding(bad, "JAX runtimes", "none", advice)
    elif all(map(runtimes.is_converted, found)):
        advice = f"Only jobs that name one (--runtime) get it. Install ours: {runtimes.INSTALL}"
        yield Finding(bad, "JAX runtimes", f"only of converted JAXJobs: {names}", advice)
    elif not any(runtimes.runs_once(item) for item in found):
        advice = (
            "They run a cell that fails again, until a follower stops them; ours don't: "
            f"{runtimes.INSTALL}"
        )
        yield Finding(WARN, "JAX runtimes", names, advice)
    else:
        yield Finding(OK, "JAX runtimes", names)
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
        yield Finding(WARN, "Kueue", error.message, error.hint)
        return
    yield _version(kueue, missing)
    names = ", ".join(item["metadata"]["name"] for item in found)
    if names or not any(right.resource == "localqueues" for right in missing):
        yield Finding(OK, "Queues", names or f"none in namespace {client.namespace}")
    if missing:
        yield _missing(WARN, "Rights for queues", missing, "runtimes/queue-rights.yaml has all.")


def _version(kueue: queues.Kueue, missing: Sequence[Right]) -> Finding:
    """Return what Kueue's version means for jobs."""
    version = kueue.version or "of unknown version"
    if kueue.keeps_patches:
        return Finding(OK, "Kueue", version)
    lost = (
        "drops what a job adds to its runtime: with --queue, --volume, --service-account, "
        "--accelerator and --topology are refused. Put them into a runtime"
    )
    if kueue.version:
        return Finding(WARN, "Kueue", version, f"{kueue.words} {lost}, or install Kueue 0.17.")
    words = rights.VERSION
    why = f"no Deployment {words.name} of {words.namespace} has it"
    if words in missing:
        why = f"the right to {words.words} is missing"
    advice = f"Its version can't be read ({why}), so it is taken for 0.16, which {lost}."
    return Finding(WARN, "Kueue", version, advice)


def _rights(client: Client, bad: str) -> Iterator[Finding]:
    try:
        with said_plainly(client):
            missing = rights.missing(client)
            optional = rights.missing(client, rights.RESTARTS)
    except JaxTrainError as error:
        yield Finding(WARN, "Rights", error.message, error.hint)
        return
    if not missing:
        yield Finding(OK, "Rights", f"all that are needed in namespace {client.namespace}")
    else:
        status = bad if any(right.needed for right in missing) else WARN
        yield _missing(status, "Rights", missing, "The Role in runtimes/rights.yaml has all.")
    if optional:
        role = "The Role jupyter-jax-trainer-restarts in runtimes/rights.yaml has them."
        yield _missing(OK, "Rights for restarts", optional, role)


def _missing(status: str, subject: str, missing: Sequence[Right], role: str) -> Finding:
    """Return which rights are missing, what is lost without each, and where they are granted."""
    lost: dict[str, list[str]] = {}
    for right in missing:
        lost.setdefault(right.without, []).append(right.words)
    words = ", ".join(right.words for right in missing)
    what = "; ".join(f"{without} ({', '.join(wanted)})" for without, wanted in lost.items())
    return Finding(status, subject, f"missing: {words}", f"Without them: {what}. {role}")
