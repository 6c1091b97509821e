"""What is known of an image: which packages it has, for those that go along with a job."""

from __future__ import annotations

import json
import platform
import re
import sys

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import PREFIX
from jupyter_jax_trainer.capture.environment import Image
from jupyter_jax_trainer.capture.packing import Platform

PACKAGES = f"{PREFIX}/packages"
PACKAGES_OF = f"{PREFIX}/packages-of"  # apart from them, so that kustomize can name the image anew
_MOST_CHARACTERS = 64 << 10
_MOST_PACKAGES = 2000
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")  # PEP 508
_PYTHON = re.compile(r"3\.[0-9]{1,2}")
_GLIBC = re.compile(r"2\.([0-9]{1,2})")


def machine() -> str:
    """Return the kind of processor that nodes are taken to have: this machine's, if it is one."""
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
            if not _NAME.fullmatch(name) or len(version) > 64:
                return None
            found[str(canonicalize_name(name))] = str(Version(version))
        return found, (2, int(libc[1]))
    except (ValueError, TypeError, KeyError, RecursionError, InvalidVersion):
        return None
