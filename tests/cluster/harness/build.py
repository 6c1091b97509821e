"""Build what the test cluster is made of, into the cache; what is there already stays."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import archives
import layout
from layout import CACHE, GO, ClusterError, digest, run, say

JOBSET_MODULE = "sigs.k8s.io/jobset"
TRAINER_MODULE = "github.com/kubeflow/trainer/v2"
TRAINER_GATE = "\nfeatureGates:\n  TrainJobStatus: true\n"
IMAGES = layout.REPOSITORY / "images"
CONTAINERFILE = IMAGES / "Containerfile"
RUNTIMES = layout.REPOSITORY / "runtimes"
PAUSE_NAME = "jupyter-jax-trainer-pause:1"
COREDNS_NAME = "jupyter-jax-trainer-coredns:1"
GO_RELEASE = (1, 26)
KEPT = 2  # images of a kind: one for each Python that is tried. One for GPUs takes 5 GB


@dataclass(frozen=True)
class Built:
    """Where the built things are."""

    binaries: Path
    manifests: Path
    archives: tuple[Path, ...]
    workers: tuple[Path, ...]

    @property
    def kube(self) -> Path:
        """Return the program that is Kubernetes, etcd and kubectl."""
        return self.binaries / "kube"

    @property
    def kubectl(self) -> list[str]:
        """Return the start of a kubectl command."""
        return [str(self.kube), "kubectl"]


def go(*arguments: str | Path, module: Path = GO) -> str:
    """Run Go in a module of ours, and give what it prints; CI has tests to run meanwhile."""
    # Static, so that they run in images that hold nothing else.
    return run("nice", "go", *arguments, cwd=module, env={**os.environ, "CGO_ENABLED": "0"})


def require_go() -> None:
    wanted = ".".join(map(str, GO_RELEASE))
    if not shutil.which("go"):
        raise ClusterError(
            f"The cluster's programs are built from Go modules: install Go {wanted}."
        )
    release = re.match(r"go(\d+)\.(\d+)", run("go", "env", "GOVERSION"))
    if release and (int(release[1]), int(release[2])) < GO_RELEASE:
        raise ClusterError(f"Go {wanted} or newer is needed, and this is {release[0]}.")


def binaries() -> Path:
    """Build the Go programs."""
    sources = sorted(path for path in GO.rglob("*") if path.suffix in (".go", ".mod", ".sum"))
    target = CACHE / f"bin-{layout.KUBERNETES}-{digest(*sources)}"
    if target.exists():
        return target
    require_go()
    say("building Kubernetes, JobSet and Trainer (6 to 15 minutes on two cores)")
    part = target.with_name(f"{target.name}.part{os.getpid()}")
    major, minor = layout.KUBERNETES.lstrip("v").split(".")[:2]
    version = "k8s.io/component-base/version"
    flags = f"-s -w -X {version}.gitVersion={layout.KUBERNETES}"
    flags += f" -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    try:
        go(
            "build",
            "-trimpath",
            "-ldflags",
            flags,
            "-o",
            f"{part}/",
            "./...",
            JOBSET_MODULE,
            f"{TRAINER_MODULE}/cmd/trainer-controller-manager",
        )
        part.replace(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def _module(path: str) -> Path:
    go("mod", "download", path)
    return Path(go("list", "-m", "-f", "{{.Dir}}", path).strip())


def manifests(kube: Path) -> Path:
    """Render the official manifests of JobSet and Trainer."""
    key = digest(layout.JOBSET, layout.TRAINER, TRAINER_GATE)
    target = CACHE / f"manifests-jobset-{layout.JOBSET}-trainer-{layout.TRAINER}-{key}"
    if target.exists():
        return target
    part = target.with_name(f"{target.name}.part{os.getpid()}")
    try:
        shutil.copytree(_module(TRAINER_MODULE) / "manifests", part / "source")
        run("chmod", "-R", "u+w", part)
        overlay = part / "source" / "overlays" / "manager" / "kustomization.yaml"
        # JobSet is installed from its own manifests; this line would fetch them from elsewhere.
        overlay.write_text(re.sub(r"(?m)^ *- \S*third-party/jobset.*\n", "", overlay.read_text()))
        settings = part / "source" / "base" / "manager" / "controller_manager_config.yaml"
        settings.write_text(settings.read_text() + TRAINER_GATE)
        rendered = {
            "jobset": _module(JOBSET_MODULE) / "config" / "default",
            "trainer": overlay.parent,
            "trainer-runtimes": part / "source" / "overlays" / "runtimes",
        }
        for name, folder in rendered.items():
            (part / f"{name}.yaml").write_text(run(kube, "kubectl", "kustomize", folder))
        shutil.rmtree(part / "source")
        part.replace(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def image_in(manifest: Path) -> str:
    """Return the name of the one image that a manifest uses."""
    found = re.finditer(r"(?m)^\s*(?:- )?image: (\S+)$", manifest.read_text())
    names = {match[1] for match in found}
    if len(names) != 1:
        raise ClusterError(f"{manifest} should use one image, and names {sorted(names) or 'none'}.")
    return names.pop()


def images(programs: Path, rendered: Path) -> tuple[Path, ...]:
    """Make the archives of the images of the cluster's components."""
    folder = CACHE / "images"
    folder.mkdir(parents=True, exist_ok=True)
    code = Path(archives.__file__)
    result = []
    for name, program, inside in (
        (PAUSE_NAME, "pause", "pause"),
        (COREDNS_NAME, "coredns", "coredns"),
        (image_in(rendered / "jobset.yaml"), "jobset", "manager"),
        (image_in(rendered / "trainer.yaml"), "trainer-controller-manager", "manager"),
    ):
        archive = folder / f"{program}-{digest(name, programs.name, code)}.tar"
        if not archive.exists():
            archives.of_binary(archive, name, programs / program, inside)
        result.append(archive)
    return tuple(result)


def workers(kind: str, names: Mapping[str, str], debian: str = layout.DEBIAN) -> tuple[Path, ...]:
    """Make the archives of images of the project, on a Debian, whose Python they then have.

    Parameters
    ----------
    names
        The names of the images by stage of the Containerfile: ``slim``, ``standard``.
    """
    folder = CACHE / "images"
    base_name = f"localhost/jupyter-jax-trainer-base:{debian}"
    base_key = digest(debian, *layout.BASE_PACKAGES, *archives.UNWANTED, str(archives.HISTORY))
    base = folder / f"base-{debian}-{base_key}.tar"
    if not base.exists():
        archives.of_debian(base, base_name, debian)
    packages = (IMAGES / kind / "requirements.txt", IMAGES / "standard.txt")
    key = digest(base_key, CONTAINERFILE, *packages)
    made = {}
    for stage in names:
        prefix = f"worker-{kind}" if stage == "standard" else f"worker-{stage}-{kind}"
        made[stage] = folder / f"{prefix}-{key}.tar"
        layout.forget_but(KEPT, made[stage], folder.glob(f"{prefix}-*.tar"))
    if not all(target.exists() for target in made.values()):
        stages = {stage: (names[stage], target) for stage, target in made.items()}
        arguments = {"BASE": base_name, "KIND": kind}
        archives.of_containerfile(CONTAINERFILE, stages, arguments, base)
    return tuple(made.values())


def everything() -> Built:
    """Build all that is not in the cache yet."""
    layout.require_packages()
    CACHE.mkdir(parents=True, exist_ok=True)
    programs = binaries()
    rendered = manifests(programs / "kube")
    names = {
        "slim": image_in(RUNTIMES / "slim" / "cpu" / "jax-cpu-slim.yaml"),
        "standard": image_in(RUNTIMES / "cpu" / "jax-cpu.yaml"),
    }
    return Built(programs, rendered, images(programs, rendered), workers("cpu", names))


if __name__ == "__main__":
    try:
        layout.require_root()
        print(everything())
    except ClusterError as error:
        sys.exit(f"cluster: {error}")
