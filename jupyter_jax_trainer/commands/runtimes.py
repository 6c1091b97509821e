"""``runtimes``: list what jobs can run on; show, check and install the runtimes of a cluster."""

from __future__ import annotations

from typing import Any

from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.options import checks

_INSTALL_ONLY = ("device", "python", "registry", "image", "volume", "force", "dry_run")


def runtimes(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """List runtimes, or do what the first word says."""
    from jupyter_jax_trainer.commands.installing import install

    action, *names = words or ["list"]
    if action not in ("list", "show", "check", "install"):
        raise UsageError(
            f"runtimes doesn't know what to do with {checks.shown(action)}.",
            checks.did_you_mean(action, ("show", "check", "install")),
        )
    if action != "install" and (wrong := [name for name in _INSTALL_ONLY if name in values]):
        raise UsageError(f"--{wrong[0].replace('_', '-')} is for `runtimes install`.")
    if action == "install" and names:
        raise UsageError("`runtimes install` takes no names.", "--device says which.")
    if action == "show" and not names:
        raise UsageError("Show which runtime?", "`runtimes` lists them: runtimes show NAME")
    if action == "install":
        install(context, values)
    elif action == "show":
        _show(context, values, names[0])
    elif action == "check":
        _check(context, values, names)
    else:
        _list(context, values)


def _list(context: Context, values: dict[str, Any]) -> None:
    from jupyter_jax_trainer import api
    from jupyter_jax_trainer.commands.listing import runtimes_table

    place = context.place(values)
    backend = values.get("backend", "auto")
    try:
        found = api.runtimes(backend, **place)
    except BackendError as error:
        if backend != "auto" or any(place.values()):
            raise
        context.print(f"The cluster's runtimes can't be listed: {error}\n")
        found = api.runtimes("local")
    context.print(runtimes_table(found, context.width))


def _show(context: Context, values: dict[str, Any], name: str) -> None:
    from jupyter_jax_trainer.runtime import get_runtime, local_runtimes

    if name in (known := {runtime.name for runtime in local_runtimes()}):
        runtime = get_runtime(name)
        lines = [runtime.name, runtime.description, runtime.problem or ""]
        context.print("\n".join(line for line in lines if line))
        return
    from jupyter_jax_trainer.backends.kubernetes.api.client import is_configured
    from jupyter_jax_trainer.backends.kubernetes.connection import get_client, said_plainly
    from jupyter_jax_trainer.backends.kubernetes.doctor import checkup
    from jupyter_jax_trainer.backends.kubernetes.submit import podgroups
    from jupyter_jax_trainer.backends.kubernetes.submit.runtimes import (
        get_runtime as get_of_cluster,
    )
    from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import shown_yaml
    from jupyter_jax_trainer.doctor.report import report

    if not is_configured() and not any(context.place(values).values()):
        raise UsageError(
            f"There is no runtime {checks.shown(name)} on this machine, and no cluster is known.",
            checks.did_you_mean(name, known),
        )
    client = get_client(*context.place(values).values())
    with said_plainly(client):
        item = get_of_cluster(client, name)
        findings = [*checkup.examine(item), *podgroups.examine(client, item)]
    context.print(f"{item['kind']} {name}\n\n{report(findings, context.width)}\n")
    context.print(shown_yaml(item))


def _check(context: Context, values: dict[str, Any], names: list[str]) -> None:
    """Check runtimes of the cluster: those that are named, else all for JAX."""
    from jupyter_jax_trainer.backends.kubernetes.connection import get_client, said_plainly
    from jupyter_jax_trainer.backends.kubernetes.doctor import checkup
    from jupyter_jax_trainer.backends.kubernetes.submit import podgroups
    from jupyter_jax_trainer.backends.kubernetes.submit import runtimes as known
    from jupyter_jax_trainer.doctor.finding import FAIL
    from jupyter_jax_trainer.doctor.report import report

    client = get_client(*context.place(values).values())
    with said_plainly(client):
        items = (
            [known.get_runtime(client, name) for name in names]
            if names
            else known.list_runtimes(client)
        )
    if not items:
        context.print(f"Namespace {client.namespace} has no runtimes for JAX: {known.INSTALL}")
        context.failed = True
    for item in items:
        with said_plainly(client):
            findings = [*checkup.examine(item), *podgroups.examine(client, item)]
        context.failed |= any(finding.status == FAIL for finding in findings)
        context.print(f"{item['kind']} {item['metadata']['name']}")
        context.print(report(findings, context.width) + "\n")
