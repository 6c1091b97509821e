"""Write into the runtimes which packages their images have: jobs take along what these lack.

``make requirements`` runs it, after a change to the versions in ``images/*/requirements.txt``.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEVICES = {"cpu": "cpu", "cuda": "gpu", "tpu": "tpu"}  # by folder of images/
GLIBC = "2.36"  # of Debian 12, on which the images are built; newer ones take what is built for it
_OWN = re.compile(
    r"(?m)^    (?:# `make requirements`.*|jupyter-jax-trainer/packages.*)\n(?:      .*\n)*"
)


def packages(kind: str) -> dict[str, str]:
    """Return the packages of an image, with their versions."""
    lines = (ROOT / "images" / kind / "requirements.txt").read_text().splitlines()
    pinned = [
        line.removesuffix(" \\").split("==") for line in lines if re.match(r"[\w.-]+==", line)
    ]
    return dict(sorted((name, version) for name, version in pinned))


def annotated(text: str, kind: str) -> str:
    """Return a runtime's YAML with the annotations for its image."""
    (image,) = re.findall(r"(?m)^ +image: (\S+)$", text)
    said = json.dumps({"glibc": GLIBC, "distributions": packages(kind)})
    lines = textwrap.wrap(said, 110, break_long_words=False, break_on_hyphens=False)
    own = (
        "    # `make requirements` writes these.\n"
        f"    jupyter-jax-trainer/packages-of: {image}\n"
        "    jupyter-jax-trainer/packages: >-\n"
        + textwrap.indent("\n".join(lines), "      ")
        + "\n"
    )
    text = _OWN.sub("", text)
    if "\n  annotations:\n" not in text:
        text = text.replace("\nspec:\n", "\n  annotations:\nspec:\n", 1)
    return text.replace("\n  annotations:\n", f"\n  annotations:\n{own}", 1)


def main() -> None:
    """Write the annotations of all runtimes."""
    for kind, device in DEVICES.items():
        file = ROOT / "runtimes" / device / f"jax-{device}.yaml"
        file.write_text(annotated(file.read_text(), kind))


if __name__ == "__main__":
    main()
