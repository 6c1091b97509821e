"""The images: written as archives that containerd imports, so that no registry is needed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import layout
from layout import run, say

NOBODY = "65532:65532"
CERTIFICATES = Path("/etc/ssl/certs")
PIP_SETTINGS = Path("/etc/pip.conf")
# buildah counts by it the layers that it builds upon.
HISTORY = [{"created_by": "jupyter-jax-trainer"}]
UNWANTED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


@contextlib.contextmanager
def written(path: Path) -> Iterator[Path]:
    """Return a name to write to, which becomes ``path`` when all went well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part{os.getpid()}")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _sum(path: Path) -> str:
    total = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def pack(target: Path, name: str, layer: Path, config: dict[str, Any]) -> None:
    """Write an image of one layer, in the format of `docker save`."""
    layer_sum = _sum(layer)
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    description = json.dumps(
        {
            "os": "linux",
            "architecture": architecture,
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_sum}"]},
            "history": HISTORY,
        }
    ).encode()
    description_name = f"{sha256(description).hexdigest()}.json"
    layer_name = f"{layer_sum}/layer.tar"
    index = [{"Config": description_name, "RepoTags": [name], "Layers": [layer_name]}]
    with written(target) as part, tarfile.open(part, "w") as archive:
        archive.add(layer, layer_name)
        _add(archive, description_name, description)
        _add(archive, "manifest.json", json.dumps(index).encode())


def of_binary(target: Path, name: str, binary: Path, inside: str) -> None:
    """Make an image that holds one static program."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        entry.mode = 0o755
        return entry

    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        layer = Path(folder, "layer.tar")
        with tarfile.open(layer, "w") as archive:
            archive.add(binary, inside, filter=plain)
        pack(target, name, layer, {"Entrypoint": [f"/{inside}"], "User": NOBODY})


def of_debian(target: Path, name: str, debian: str) -> None:
    """Make a base image: Debian with Python, from its packages."""
    say(f"making the base image from packages of Debian {debian} (2 minutes)")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        layer = Path(folder, "layer.tar")
        excluded = [f"--dpkgopt=path-exclude={pattern}" for pattern in UNWANTED]
        run(
            "mmdebstrap",
            "--quiet",
            "--mode=root",
            "--variant=minbase",
            *excluded,
            f"--include={','.join(layout.BASE_PACKAGES)}",
            debian,
            layer,
        )
        path = "PATH=/usr/local/bin:/usr/bin:/bin"
        pack(target, name, layer, {"Cmd": ["/bin/bash"], "Env": [path]})


def of_containerfile(
    containerfile: Path,
    stages: Mapping[str, tuple[str, Path]],
    arguments: Mapping[str, str],
    base: Path,
) -> None:
    """Build stages of a Containerfile of the project on our base image.

    Parameters
    ----------
    stages
        What to build: by stage the name of the image and its archive. Images that have layers in
        common share them in the cluster, too.
    arguments
        The build's arguments; ``BASE`` names the base image.
    base
        The archive of that.
    """
    folder = Path(tempfile.mkdtemp(dir=base.parent))
    # A mount namespace of its own takes buildah's mounts away with it.
    buildah: list[str | Path] = ["unshare", "--mount", "buildah", "--root", folder / "root"]
    buildah += ["--runroot", folder / "run", "--storage-driver", "overlay"]
    options = [word for pair in arguments.items() for word in ("--build-arg", "=".join(pair))]
    options += ["--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro"]
    if PIP_SETTINGS.exists():  # which index to use, where a site has its own
        options += ["--volume", f"{PIP_SETTINGS}:{PIP_SETTINGS}:ro"]
    try:
        pulled = run(*buildah, "pull", "--quiet", f"docker-archive:{base}")
        run(*buildah, "tag", pulled.split()[-1], arguments["BASE"])
        for stage, (name, target) in stages.items():
            say(f"building {name} (2 minutes)")
            run(
                *buildah,
                "bud",
                "--isolation",
                "chroot",
                "--pull-never",
                "--layers",  # else a stage is built anew for each image, and no layer is shared
                *options,
                "--file",
                containerfile,
                "--target",
                stage,
                "--tag",
                name,
                containerfile.parent,
            )
            with written(target) as part:
                run(*buildah, "push", name, f"docker-archive:{part}:{name}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
