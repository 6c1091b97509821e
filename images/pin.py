"""Make the runtimes name pushed images by their digests.

``python images/pin.py REGISTRY/jupyter-jax-trainer-cpu:TAG@sha256:… …`` writes them into the
kustomizations of ``runtimes/``, one for each kind of device.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

RUNTIMES = Path(__file__).resolve().parent.parent / "runtimes"
DEVICES = {"jupyter-jax-trainer-cpu": "cpu", "jupyter-jax-trainer-cuda": "gpu",
           "jupyter-jax-trainer-tpu": "tpu"}  # fmt: skip
IMAGE = re.compile(
    r"(?P<place>[\w.:/-]+/(?P<name>[\w-]+))(?::(?P<tag>[\w.-]+))?@(?P<digest>sha256:[0-9a-f]{64})"
)
OWN = re.compile(r"(?m)^images:\n(?:[ -].*\n)*")


def pin(*images: str) -> None:
    """Write each image into the kustomization of its device; all are checked first."""
    texts: dict[Path, str] = {}
    for image in images:
        found = IMAGE.fullmatch(image)
        if not found or found["name"] not in DEVICES:
            raise SystemExit(
                f"{image} is not REGISTRY/NAME:TAG@sha256:… of one of {', '.join(DEVICES)}."
            )
        file = RUNTIMES / DEVICES[found["name"]] / "kustomization.yaml"
        text = OWN.sub("", texts.get(file, file.read_text()))
        texts[file] = (
            f"{text}images:\n  - name: {found['name']}\n"
            f"    newName: {found['place']}\n    digest: {found['digest']}\n"
        )
    for file, text in texts.items():
        file.write_text(text)


if __name__ == "__main__":
    pin(*sys.argv[1:])
