"""Where pods keep packages for later jobs (`worker.pod.packagecache`), and what they have there.

This machine does not see that volume. What a job says of it counts for the next one, which then
goes without its packages; its pods get what is missing all the same.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from jupyter_jax_trainer.backends.kubernetes.api.plan import KubernetesPlan
from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.jobdir.files import read_json, write_json
from jupyter_jax_trainer.jobdir.formats import Shape
from jupyter_jax_trainer.jobdir.store import check, home, private_directory
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.trust import signing
from jupyter_jax_trainer.worker.pod.packagecache import BYTES_VARIABLE, FOLDER_VARIABLE, bound
from jupyter_jax_trainer.worker.serialization.archive import Archive

_FOLDER = ".jaxtrain-packages"
_MOST = 2000  # packages of a cache that are remembered
_SEEN: dict[str, Shape] = {"packages": list}


def environment(spec: JobSpec, plan: KubernetesPlan) -> dict[str, str]:
    """Return the variables of the pods: the user's folder on a volume that they share, if any.

    Raises
    ------
    UsageError
        The setting of its size makes no sense.
    """
    shared = _shared(spec, plan)
    if shared is None:
        return {}
    found = {FOLDER_VARIABLE: f"{shared}/{_FOLDER}/{user()}"}
    if most := os.environ.get(BYTES_VARIABLE):  # else the runtime may say it
        found[BYTES_VARIABLE] = most
    return found


def has(bundle: Path, spec: JobSpec, plan: KubernetesPlan) -> bool:
    """Return whether pods are known to have all packages of a bundle."""
    path = _file_of(spec, plan)
    return path is not None and _packages(bundle) <= {*_read(path)}


def note(bundle: Path, spec: JobSpec, plan: KubernetesPlan, *, there: bool) -> None:
    """Note whether pods have the packages of a bundle.

    Raises
    ------
    BackendError, OSError
        It can't be written.
    """
    path = _file_of(spec, plan)
    if path is None:
        return
    private_directory(path.parent)
    packages = _packages(bundle)
    others = [one for one in _read(path) if one not in packages]
    known: list[JsonValue] = [*(packages if there else ()), *others]
    write_json(path, {"packages": known[:_MOST]})


def _shared(spec: JobSpec, plan: KubernetesPlan) -> str | None:
    """Return a folder that all pods see and that outlives them; None where there is none."""
    return volume(spec, plan) if bound({**os.environ, **dict(spec.env)}) else None


def volume(spec: JobSpec, plan: KubernetesPlan) -> str | None:
    """Return the folder of the volume where pods keep what later ones may use; None without one."""
    if spec.volume:
        return spec.volume[0].partition(":")[2].rstrip("/")
    return plan.get("shared")


def user() -> str:
    """Return the name of a user's folder there.

    Of the user's key: it is the same on all machines of a user, and no name that others choose.
    """
    return signing.key_id(signing.ensure_key())


def _file_of(spec: JobSpec, plan: KubernetesPlan) -> Path | None:
    """Return the file that has what is known of the cache of a job's pods."""
    found = environment(spec, plan).get(FOLDER_VARIABLE)
    if found is None:
        return None
    of = [spec.volume[0]] if spec.volume else [plan["runtime_kind"], plan["runtime"]]
    place = json.dumps([plan["cluster"], *of, found])
    folder = check(home() / "package-caches")
    return folder / f"{hashlib.sha256(place.encode()).hexdigest()}.json"


def _read(path: Path) -> list[str]:
    """Return the packages that are known to be there, those of the last job first."""
    found: JsonValue = []
    with suppress(JaxTrainError):
        found = read_json(path, _SEEN)["packages"]
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _packages(bundle: Path) -> set[str]:
    return {one["sha256"] for one in Archive(bundle).packages.values()}
