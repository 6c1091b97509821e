"""Our own runtimes: read from the package, and put into a cluster by server-side apply."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupyter_jax_trainer
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client
from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.submit import images
from jupyter_jax_trainer.backends.kubernetes.submit.runtimes import SHARED, path_of
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import PREFIX
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.messages import kubernetes as say

_APPLY = "application/apply-patch+yaml"
_PACKAGE = Path(jupyter_jax_trainer.__file__).parent
# In a wheel they are in the package; in a clone they stay where people look for them.
_PLACES = (_PACKAGE / "manifests", _PACKAGE.parent / "runtimes")
_TAG = re.compile(r":jax(?P<jax>[0-9.]+)-py(?P<python>3\.[0-9]+)(-slim)?$")


@dataclass(frozen=True)
class Applied:
    """What applying a runtime did, or would do.

    Attributes
    ----------
    what
        ``created``, ``configured`` or ``unchanged``.
    changes
        For one that was there: what changed, a line each.
    """

    kind: str
    name: str
    what: str
    changes: tuple[str, ...] = ()


def manifest(
    device: str,
    *,
    namespace: str | None = None,
    slim: bool = False,
    python: str | None = None,
    registry: str | None = None,
    image: str | None = None,
    volume: str | None = None,
) -> TrainingRuntime:
    """Return our runtime for a kind of device.

    Parameters
    ----------
    namespace
        Make it a TrainingRuntime of this namespace.
    slim
        The one for the slim image.
    python
        The image's Python; another than the usual one is in the name, too.
    registry
        Where the image is.
    image
        Another image. What its tag doesn't say of versions is left out. Without this and without a
        registry it is the one that a release has pushed, by its digest; a clone knows none.
    volume
        A claim and where to mount it (``CLAIM:/path``), for checkpoints.
    """
    import yaml

    folder = next(place for place in _PLACES if place.is_dir())
    own = f"slim/{device}/jax-{device}-slim.yaml" if slim else f"{device}/jax-{device}.yaml"
    path = folder / own
    item: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    metadata, node = item["metadata"], _node(item)
    labels, annotations = metadata["labels"], metadata["annotations"]
    if python and python != labels[f"{PREFIX}/python"]:
        metadata["name"] += f"-py{python}"
        node["image"] = re.sub(r"-py[0-9.]+", f"-py{python}", node["image"])
    if registry:
        node["image"] = f"{registry.rstrip('/')}/{node['image']}"
    if image:
        node["image"] = image
    told = _TAG.search(node["image"])
    for version in ("jax", "python"):
        labels.pop(f"{PREFIX}/{version}")
        if told:
            labels[f"{PREFIX}/{version}"] = told[version]
    if image:  # what it has nobody has said
        del annotations[images.PACKAGES], annotations[images.PACKAGES_OF]
    else:
        node["image"] = _pinned(folder).get(node["image"], node["image"])
        annotations[images.PACKAGES_OF] = node["image"]
    if volume:
        claim, _, place = volume.partition(":")
        if place.rstrip("/") in [mount["mountPath"] for mount in node["volumeMounts"]]:
            raise UsageError(say.PATH_IS_MOUNTED(path=place))
        annotations[SHARED] = place
        source = {"persistentVolumeClaim": {"claimName": claim}}
        _pod(item)["volumes"].append({"name": "shared", **source})
        node["volumeMounts"].append({"name": "shared", "mountPath": place})
    if not annotations:
        del metadata["annotations"]
    if namespace:
        item["kind"] = "TrainingRuntime"
        metadata["namespace"] = namespace
    return TrainingRuntime(item)


def apply(
    client: Client, item: TrainingRuntime, *, force: bool = False, dry_run: bool = False
) -> Applied:
    """Apply a runtime.

    Parameters
    ----------
    force
        Take over what others have set.
    dry_run
        Only say what would be done; the cluster looks at it all the same.

    Raises
    ------
    BackendError
        Others have set fields to something else.
    ApiError
        It is refused.
    """
    kind, name = item.kind, item.name
    path = f"{path_of(client, kind)}/{name}"
    before: TrainingRuntime | None = None
    try:
        before = TrainingRuntime(client.request("GET", path))
    except ApiError as error:
        if error.status != 404:
            raise
    query = {"fieldManager": PREFIX, "force": str(force).lower()}
    if dry_run:
        query["dryRun"] = "All"
    try:
        done = client.request("PATCH", path, query=query, body=item.json, content_type=_APPLY)
    except ApiError as error:
        if error.status != 409:
            raise
        raise BackendError(
            say.CHANGED_BY_OTHERS(kind=kind, name=name, error=error.message)
        ) from None
    if before is None:
        return Applied(kind, name, "created")
    changes = tuple(_changes(before, TrainingRuntime(done)))
    return Applied(kind, name, "configured" if changes else "unchanged", changes)


def _pinned(folder: Path) -> dict[str, str]:
    """Read which images have digests: images/pin.py writes that, for a release."""
    path = folder / "images.json"
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def _pod(item: dict[str, Any]) -> dict[str, Any]:
    (job,) = item["spec"]["template"]["spec"]["replicatedJobs"]
    found: dict[str, Any] = job["template"]["spec"]["template"]["spec"]
    return found


def _node(item: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = _pod(item)["containers"]
    return found


def _changes(before: TrainingRuntime, after: TrainingRuntime) -> Iterator[str]:
    """Say what people would call a change: labels, annotations, and the spec."""
    old, new = (
        dict(
            _leaves(
                {"labels": item.labels, "annotations": item.annotations, "spec": item.spec.json}
            )
        )
        for item in (before, after)
    )
    for path in sorted({*old, *new}):
        if old.get(path) != new.get(path):
            nothing = say.NOTHING()
            yield say.FIELD_CHANGED(
                path=path, old=old.get(path, nothing), new=new.get(path, nothing)
            )


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _leaves(part, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            named = part.get("name", number) if isinstance(part, Mapping) else number
            yield from _leaves(part, f"{path}[{named}]")
    elif value is not None:
        yield path, value
