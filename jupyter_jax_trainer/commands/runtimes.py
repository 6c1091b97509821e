"""``runtimes``: list what jobs can run on; show, check and install the runtimes of a cluster."""

from __future__ import annotations

from jupyter_jax_trainer.backends import registry
from jupyter_jax_trainer.backends.base import InstallRequest
from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.devices import DEVICES
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.options import checks
from jupyter_jax_trainer.options.table import Given

_INSTALL_ONLY = ("device", "slim", "python", "registry", "image", "volume", "force", "dry_run")


def runtimes(context: Context, values: Given, words: list[str]) -> None:
    """List runtimes, or do what the first word says."""
    action, *names = words or ["list"]
    if action not in ("list", "show", "check", "install"):
        raise UsageError(
            say.UNKNOWN_ACTION(command="runtimes", action=checks.shown(action)),
            checks.did_you_mean(action, ("show", "check", "install")),
        )
    if action != "install" and (wrong := [name for name in _INSTALL_ONLY if name in values]):
        raise UsageError(say.INSTALL_ONLY(option=f"--{wrong[0].replace('_', '-')}"))
    if action == "install" and names:
        raise UsageError(say.INSTALL_TAKES_NO_NAMES())
    if action == "show" and not names:
        raise UsageError(say.SHOW_WHICH_RUNTIME())
    if action == "install":
        _install(context, values)
    elif action == "show":
        _show(context, values, names[0])
    elif action == "check":
        _check(context, values, names)
    else:
        _list(context, values)


def _list(context: Context, values: Given) -> None:
    from jupyter_jax_trainer import api
    from jupyter_jax_trainer.commands.listing import runtimes_table

    place = context.place(values)
    backend = values.text("backend") or "auto"
    try:
        found = api.runtimes(backend, **place)
    except BackendError as error:
        if backend != "auto" or any(place.values()):
            raise
        context.print(f"{say.CANNOT_LIST_CLUSTER(error=error)}\n")
        found = api.runtimes(registry.DEFAULT)
    context.print(runtimes_table(found, context.width))


def _show(context: Context, values: Given, name: str) -> None:
    from jupyter_jax_trainer.doctor.report import report

    known = {one.name: one for one in registry.get(registry.DEFAULT).runtimes()}
    if runtime := known.get(name):
        lines = [runtime.name, runtime.description, runtime.problem or ""]
        context.print("\n".join(line for line in lines if line))
        return
    place = context.place(values)
    if not registry.has_clusters() and not any(place.values()):
        raise UsageError(say.NO_RUNTIME(name=checks.shown(name)), checks.did_you_mean(name, known))
    (found,) = registry.cluster().runtime_reports([name], **place)
    context.print(f"{found.title}\n\n{report(found.findings, context.width)}\n")
    context.print(found.yaml)


def _check(context: Context, values: Given, names: list[str]) -> None:
    """Check runtimes of the cluster: those that are named, else all for JAX."""
    from jupyter_jax_trainer.doctor.finding import FAIL
    from jupyter_jax_trainer.doctor.report import report

    for found in registry.cluster().runtime_reports(names, **context.place(values)):
        context.failed |= any(finding.status == FAIL for finding in found.findings)
        context.print(found.title)
        context.print(report(found.findings, context.width) + "\n")


def _install(context: Context, values: Given) -> None:
    """Install our runtimes, and say what changed."""
    asked = InstallRequest(
        devices=values.texts("device") or DEVICES,
        slim=values.flag("slim"),
        python=values.text("python"),
        registry=values.text("registry"),
        image=values.text("image"),
        volume=values.text("volume"),
        context=context.place(values)["context"],
        # Not that of `use`, which is for jobs: nobody means it for runtimes of a whole cluster.
        namespace=values.text("namespace"),
        force=values.flag("force"),
        dry_run=values.flag("dry_run"),
    )
    for line in registry.cluster().install_runtimes(asked):
        context.print(line)
