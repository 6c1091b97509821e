"""The project's images that the test cluster itself has no use for: other devices, another Python.

`python images.py build KIND PYTHON` makes one, `up` puts it into the cluster, and `down` takes it out. Those for GPUs and
TPUs take gigabytes.
"""

from __future__ import annotations

import fcntl
import re
import sys
from pathlib import Path

import build
import layout
import up
from layout import ClusterError

DEBIANS = {"3.11": "bookworm", "3.13": "trixie"}  # no Debian has Python 3.12
DEVICES = {"cpu": "cpu", "cuda": "gpu", "tpu": "tpu"}  # by kind of image


def name_of(kind: str, python: str) -> str:
    """Return the name of an image, as the runtime for its devices has it."""
    device = DEVICES[kind]
    usual = build.image_in(build.RUNTIMES / device / f"jax-{device}.yaml")
    return re.sub(r"-py[0-9.]+$", f"-py{python}", usual)


def built(kind: str, python: str) -> Path:
    """Return the archive of an image; it is built unless the cache has it.

    Nobody but those who want it waits for this: the lock is not the cluster's.
    """
    layout.require_packages()
    (layout.CACHE / "images").mkdir(parents=True, exist_ok=True)
    with (layout.CACHE / "lock-images").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (archive,) = build.workers(kind, {"standard": name_of(kind, python)}, DEBIANS[python])
        return archive


def main(action: str, kind: str = "cpu", python: str = "3.13") -> None:
    """Build an image, or put it into the cluster or take it out."""
    layout.require_root()
    archive, name = built(kind, python), name_of(kind, python)
    if action == "up":
        with layout.only_one():
            up.import_images(archive)
    elif action == "down":
        with layout.only_one():
            up.forget_image(archive, name)
    elif action != "build":
        raise ClusterError("Say build, up or down.")
    print(name)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ClusterError as error:
        sys.exit(f"images: {error}")
