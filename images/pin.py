"""Make the runtimes name pushed images by their digests.

``python images/pin.py REGISTRY/jupyter-jax-trainer-cpu:TAG@sha256:… …`` writes all of them into
``runtimes/images.json``, for `jaxtrain runtimes install`, and the ones that the runtimes name into
the kustomizations of ``runtimes/``, for kubectl.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

RUNTIMES = Path(__file__).resolve().parent.parent / "runtimes"
DEVICES = {
    "jupyter-jax-trainer-cpu": "cpu",
    "jupyter-jax-trainer-cuda": "gpu",
    "jupyter-jax-trainer-tpu": "tpu",
}
IMAGE = re.compile(
    r"(?P<place>[\w.:/-]+)/(?P<own>(?P<name>[\w-]+):(?P<tag>[\w.-]+))@(?P<digest>sha256:[0-9a-f]{64})"
)
OWN = re.compile(r"(?m)^images:\n(?:[ -].*\n)*")
PYTHON = re.compile(r"-py[0-9.]+")
SLIM = "-slim"


def pin(*images: str) -> None:
    """Write each image to where it belongs; all are checked first."""
    digests = RUNTIMES / "images.json"
    pinned: dict[str, str] = json.loads(digests.read_text()) if digests.exists() else {}
    texts: dict[Path, str] = {}
    for image in images:
        found = IMAGE.fullmatch(image)
        if not found or found["name"] not in DEVICES:
            raise SystemExit(
                f"{image} is not REGISTRY/NAME:TAG@sha256:… of one of {', '.join(DEVICES)}."
            )
        device = DEVICES[found["name"]]
        slim = SLIM if found["tag"].endswith(SLIM) else ""
        folder = RUNTIMES / slim.strip("-") / device
        usual = _image_in(folder / f"jax-{device}{slim}.yaml")
        if PYTHON.sub("", found["own"]) != PYTHON.sub("", usual):
            raise SystemExit(f"{image} is not {usual}, as {folder} has it.")
        pinned[found["own"]] = image
        if found["own"] == usual:
            file = folder / "kustomization.yaml"
            texts[file] = (
                f"{OWN.sub('', file.read_text())}images:\n  - name: {found['name']}\n"
                f"    newName: {found['place']}/{found['name']}\n    digest: {found['digest']}\n"
            )
    for file, text in texts.items():
        file.write_text(text)
    digests.write_text(json.dumps(pinned, indent=2, sort_keys=True) + "\n")


def _image_in(runtime: Path) -> str:
    """Return the image that a runtime names."""
    (image,) = re.findall(r"(?m)^ +image: (\S+)$", runtime.read_text())
    return str(image)


if __name__ == "__main__":
    pin(*sys.argv[1:])
