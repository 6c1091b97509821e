"""What is known of an image: which packages it has, for those that go along with a job."""

from __future__ import annotations

import json
import platform
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import NoneType

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import PREFIX
from jupyter_jax_trainer.capture.environment import Image
from jupyter_jax_trainer.capture.packing import Platform
from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.jobdir.files import read_json, write_json
from jupyter_jax_trainer.jobdir.formats import Shape
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.store import check, home, private_directory

PACKAGES = f"{PREFIX}/packages"
PACKAGES_OF = f"{PREFIX}/packages-of"  # apart from them, so that kustomize can name the image anew
_MOST_CHARACTERS = 64 << 10
_MOST_PACKAGES = 2000
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")  # PEP 508
_PYTHON = re.compile(r"3\.[0-9]{1,2}")
_MOST_OF_VERSION = 64
_MOST_IMAGES = 100
_DIGITS = 64
_DIGEST = re.compile(rf"@sha256:([0-9a-f]{{{_DIGITS}}})$")
_SEEN: dict[str, Shape] = {
    "name": str,
    "reference": (str, NoneType),
    "python": str,
    "machine": str,
    "packages": dict,
}
_GLIBC = re.compile(r"2\.([0-9]{1,2})")


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What a job says of the image that it runs in.

    Attributes
    ----------
    python, glibc
        Versions, ``3.11`` and ``2.36``; empty for a C library that is none.
    machine
        The kind of processor.
    distributions
        Normalized name → version.
    """

    python: str
    glibc: str
    machine: str
    distributions: dict[str, str]


def machine() -> str:
    """Return the CPU architecture assumed for nodes: this machine's, if it runs Linux."""
    return platform.machine() if sys.platform == "linux" else "x86_64"


def known(item: TrainingRuntime, image: str | None) -> Image | None:
    """Return what is known of an image; None where nothing is, so that nothing can be sent for it.

    It is what the runtime says, if it says that of this very image.

    Parameters
    ----------
    item
        The runtime. Whoever may write runtimes has written what it says: all of it is checked, and
        none of it counts where a part is wrong.
    image
        The image that the job gets.
    """
    said = item.annotations
    if not image or said.get(PACKAGES_OF) != image:
        return None
    found = read(said.get(PACKAGES, ""))
    if found is None:
        return None
    distributions, glibc = found
    python = item.labels.get(f"{PREFIX}/python", "")
    return Image(
        distributions=distributions,
        platform=Platform(
            python=python if _PYTHON.fullmatch(python) else None, machine=machine(), glibc=glibc
        ),
    )


def unknown(python: str) -> Platform:
    """Return the platform assumed for an unknown image: any current glibc.

    The worker looks whether a wheel fits.
    """
    return Platform(python=python, machine=machine(), glibc=(2, 99))


def remembered(image: str | None) -> Image | None:
    """Return what a job has said of an image that is named by its digest.

    A tag may be another image's by now, so that for a tag nothing is remembered.
    """
    digest = _DIGEST.search(image or "")
    if digest is None:
        return None
    with suppress(JaxTrainError):
        return _read(_file_of(digest[1]))
    return None


def note(directory: JobDir, reference: str | None, said: Contents) -> None:
    """Note in the directory of a session what its image has, for its later cells.

    Raises
    ------
    OSError
        It can't be written.
    """
    write_json(directory.image, _record(reference or "", reference, said))


def noted(directory: JobDir) -> Image | None:
    """Return what the image of a session has; None where that is not known."""
    return _read(directory.image)


def contents(image: Image) -> Contents:
    """Return what is known of an image as a job would say it."""
    return Contents(
        python=image.platform.python or "",
        machine=image.platform.machine,
        glibc="{}.{}".format(*image.platform.glibc),
        distributions=dict(image.distributions),
    )


def _read(path: Path) -> Image | None:
    with suppress(JaxTrainError):
        said = read_json(path, _SEEN)
        found = read(json.dumps(said["packages"]))
        python = str(said["python"])
        if found is not None and said["machine"] == machine() and _PYTHON.fullmatch(python):
            return Image(
                distributions=found[0],
                platform=Platform(python=python, machine=machine(), glibc=found[1]),
            )
    return None


def digest_of(image: str) -> str | None:
    """Return the name with a digest that an image had when a job last ran in it."""
    try:
        records = sorted(_folder().glob("*.json"), key=lambda path: -path.stat().st_mtime)
    except OSError:
        return None
    for path in records:
        with suppress(JaxTrainError):
            said = read_json(path, _SEEN)
            if said["reference"] == image:
                return str(said["name"])
    return None


def remember(name: str, reference: str | None, said: Contents) -> None:
    """Note what a job has said of the image that it ran in.

    Parameters
    ----------
    name
        The image as the pod's status has it, with its digest if it is from a registry.
    reference
        What the job has asked for. Its digest may be another one, of a list of images for several
        kinds of processors.
    said
        What it has: what is no distribution's name or version is left out.

    Raises
    ------
    OSError
        It can't be written.
    """
    names = [one.rpartition("://")[2] for one in (name, reference or "") if _DIGEST.search(one)]
    if not names:
        return
    record = _record(names[0], reference, said)
    folder = private_directory(_folder())
    for one in names:
        write_json(_file_of(one[-_DIGITS:]), record)
    others = sorted(folder.glob("*.json"), key=lambda path: -path.stat().st_mtime)
    for path in others[_MOST_IMAGES:]:
        path.unlink(missing_ok=True)


def _record(name: str, reference: str | None, said: Contents) -> dict[str, JsonValue]:
    listed = {key: version for key, version in said.distributions.items() if _is_one(key, version)}
    return {
        "name": name,
        "reference": reference,
        "python": said.python,
        "machine": said.machine,
        "packages": {"glibc": said.glibc, "distributions": {**listed}},
    }


def _folder() -> Path:
    return home() / "images"


def _file_of(digest: str) -> Path:
    return check(_folder()) / f"{digest}.json"


def _is_one(name: str, version: str) -> bool:
    try:
        Version(version)
    except InvalidVersion:
        return False
    return bool(_NAME.fullmatch(name)) and len(version) <= _MOST_OF_VERSION


def read(text: str) -> tuple[dict[str, str], tuple[int, int]] | None:
    """Read an annotation: the distributions and the version of glibc; None where it is wrong."""
    if not 0 < len(text) <= _MOST_CHARACTERS:
        return None
    try:
        said = json.loads(text)
        listed, libc = said["distributions"], _GLIBC.fullmatch(said["glibc"])
        if libc is None or not isinstance(listed, dict) or not 0 < len(listed) <= _MOST_PACKAGES:
            return None
        found = {}
        for name, version in listed.items():
            if not _NAME.fullmatch(name) or len(version) > _MOST_OF_VERSION:
                return None
            found[str(canonicalize_name(name))] = str(Version(version))
        return found, (2, int(libc[1]))
    except (ValueError, TypeError, KeyError, RecursionError, InvalidVersion):
        return None
