"""Install our runtimes into a cluster."""

from __future__ import annotations

from collections.abc import Iterator

from jupyter_jax_trainer.backends.base import InstallRequest
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError
from jupyter_jax_trainer.backends.kubernetes.submit import manifests, runtimes
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import to_yaml
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.messages import kubernetes as say
from jupyter_jax_trainer.text import plain


def install(asked: InstallRequest) -> Iterator[str]:
    """Apply our runtimes, all of them or none, and yield lines that say what changed.

    Raises
    ------
    UsageError, BackendError
        The options don't go together, or the cluster refuses it.
    """
    image, namespace = asked.image, asked.namespace
    if image and len(asked.devices) > 1:
        raise UsageError(say.ONE_IMAGE())
    if image and (asked.registry or asked.python or asked.slim):
        raise UsageError(say.IMAGE_ALONE())
    if asked.volume and not namespace:
        raise UsageError(say.VOLUME_NEEDS_NAMESPACE())
    items = [
        manifests.manifest(
            device,
            namespace=namespace,
            image=image,
            slim=asked.slim,
            python=asked.python,
            registry=asked.registry,
            volume=asked.volume,
        )
        for device in asked.devices
    ]
    client = connection.get_client(asked.context, namespace)
    forbidden = False
    try:
        with connection.said_plainly(client):
            try:
                runtimes.check_trainer(client)
                # The cluster looks at all of them first, so that nothing is done by halves.
                done = [
                    manifests.apply(client, item, force=asked.force, dry_run=True) for item in items
                ]
                if not asked.dry_run:
                    done = [manifests.apply(client, item, force=asked.force) for item in items]
            except ApiError as error:
                forbidden = error.status == 403
                raise
    except BackendError as error:
        if forbidden and not namespace:
            error.hint = f"{error.hint or ''} {say.FOR_ONE_NAMESPACE()}".strip()
        raise
    mark, applied = ("# ", say.WOULD_APPLY) if asked.dry_run else ("", say.APPLIED)
    for item, one in zip(items, done, strict=True):
        used = item.container.image
        yield mark + applied(kind=one.kind, name=one.name, what=one.what, image=used)
        for change in one.changes:
            yield f"{mark}  {_one_line(change)}"
    if asked.dry_run:
        yield to_yaml(items)
    elif not image and any("/" not in item.container.image for item in items):
        yield say.IMAGES_MUST_BE_FOUND()


def _one_line(text: str) -> str:
    """Make text of the cluster harmless, also behind a `#` in YAML."""
    return plain(text).replace("\n", "\\n")
