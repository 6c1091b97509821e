"""``runtimes install``: our runtimes into a cluster."""

from __future__ import annotations

from typing import Any

from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.options.table import DEVICES
from jupyter_jax_trainer.text import plain

_ELSEWHERE = "With --namespace they are installed for that namespace only."


def install(context: Context, values: dict[str, Any]) -> None:
    """Apply our runtimes, all of them or none, and say what changed."""
    from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError
    from jupyter_jax_trainer.backends.kubernetes.connection import get_client, said_plainly
    from jupyter_jax_trainer.backends.kubernetes.submit import manifests
    from jupyter_jax_trainer.backends.kubernetes.submit.runtimes import check_trainer
    from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import to_yaml

    devices = values.get("device") or DEVICES
    image, namespace = values.get("image"), values.get("namespace")
    if image and len(devices) > 1:
        raise UsageError(
            "--image is one image, and each device needs its own.",
            "Add --device, or give --registry: the images there have our names.",
        )
    if image and (values.get("registry") or values.get("python")):
        raise UsageError("--image says it all: --registry and --python can't go with it.")
    if values.get("volume") and not namespace:
        raise UsageError("--volume names a claim, which is in one --namespace: say which.")
    options = {name: values.get(name) for name in ("python", "registry", "volume")}
    items = [manifests.manifest(d, namespace=namespace, image=image, **options) for d in devices]
    force, only_show = values.get("force", False), values.get("dry_run", False)
    # The namespace of `use` is for jobs: nobody means that one for runtimes of a whole cluster.
    client = get_client(context.place(values)["context"], namespace)
    forbidden = False
    try:
        with said_plainly(client):
            try:
                check_trainer(client)
                # The cluster looks at all of them first, so that nothing is done by halves.
                done = [manifests.apply(client, item, force=force, dry_run=True) for item in items]
                if not only_show:
                    done = [manifests.apply(client, item, force=force) for item in items]
            except ApiError as error:
                forbidden = error.status == 403
                raise
    except BackendError as error:
        if not forbidden or namespace:
            raise
        raise BackendError(error.message, f"{error.hint or ''} {_ELSEWHERE}".strip()) from None
    would = "would be " if only_show else ""
    mark = "# " if only_show else ""
    for item, one in zip(items, done, strict=True):
        context.print(f"{mark}{one.kind} {one.name}: {would}{one.what}, {manifests.image_of(item)}")
        for change in one.changes:
            context.print(f"{mark}  {_one_line(change)}")
    if only_show:
        context.print(to_yaml(items))
    elif not image and any("/" not in manifests.image_of(item) for item in items):
        context.print("The nodes have to find these images; --registry says where they are.")


def _one_line(text: str) -> str:
    """Make text of the cluster harmless, also behind a `#` in YAML."""
    return plain(text).replace("\n", "\\n")
