"""Write into the runtimes which packages their images have: jobs take along what these lack.

``make requirements`` runs it, after a change to the versions in ``images/``. It also writes the
runtimes for slim images, which differ from the others in that and a label.
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


def packages(kind: str, *, slim: bool = False) -> dict[str, str]:
    """Return the packages of an image, with their versions."""
    files = [f"{kind}/requirements.txt", *([] if slim else ["standard.txt"])]
    lines = "".join((ROOT / "images" / file).read_text() for file in files).splitlines()
    pinned = [
        line.removesuffix(" \\").split("==") for line in lines if re.match(r"[\w.-]+==", line)
    ]
    return dict(sorted((name, version) for name, version in pinned))


def annotated(text: str, packages: dict[str, str]) -> str:
    """Return a runtime's YAML with the annotations for its image."""
    (image,) = re.findall(r"(?m)^ +image: (\S+)$", text)
    said = json.dumps({"glibc": GLIBC, "distributions": packages})
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


def slimmed(text: str) -> str:
    """Return the YAML of a runtime for the slim image, from that for the standard one."""
    text = re.sub(r"(?m)^  name: (jax-\w+)$", r"  name: \1-slim", text, count=1)
    text = re.sub(
        r"(?m)^    jupyter-jax-trainer/device: .*\n",
        r'\g<0>    jupyter-jax-trainer/slim: "true"\n',
        text,
    )
    text = re.sub(r"(?m)^( +image: \S+)$", r"\1-slim", text)
    return (
        f"# `make requirements` writes this file, from the runtime for the standard image.\n{text}"
    )


def main() -> None:
    """Write the annotations of all runtimes, and the runtimes for slim images."""
    for kind, device in DEVICES.items():
        runtimes = ROOT / "runtimes"
        file = runtimes / device / f"jax-{device}.yaml"
        text = file.read_text()
        file.write_text(annotated(text, packages(kind)))
        slim = annotated(slimmed(text), packages(kind, slim=True))
        (runtimes / "slim" / device / f"jax-{device}-slim.yaml").write_text(slim)


if __name__ == "__main__":
    main()
