"""Kueue on the test cluster, for the tests that need it: installed for them, and removed after.

`python kueue.py build | up | down`. With Kueue in the cluster each TrainJob, Job and pod passes its
webhooks, so that tests of other things run without it. `build` touches only the cache.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import archives
import build
import layout
import up
from layout import CACHE, STATE, ClusterError, Stopwatch, digest, run, say

GO = layout.HERE / "go-kueue"
MODULE = "sigs.k8s.io/kueue"
NAMESPACE = "kueue-system"
WEBHOOKS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
EDITS = (
    ("kustomization.yaml", r"newTag: \S+", f"newTag: {layout.KUEUE}"),
    ("manager.yaml", "imagePullPolicy: Always", "imagePullPolicy: IfNotPresent"),
)
# Our API server passes nothing on to others, and one that does not answer keeps each namespace that
# is deleted from going.
UNSERVED = "\nkind: APIService\n"
# Those with finalizers that only a running Kueue takes away; what uses others comes first.
KINDS = ("workloads", "localqueues", "clusterqueues", "resourceflavors")


class Built(NamedTuple):
    """Where Kueue's manifest and image are."""

    manifest: Path
    archive: Path


def everything() -> Built:
    """Build Kueue, unless the cache has it.

    Nobody but those who want Kueue waits for this: the lock is not the cluster's.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock-kueue").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        version = layout.KUEUE
        key = digest(GO / "go.mod", GO / "go.sum", repr(EDITS), UNSERVED, Path(archives.__file__))
        target = CACHE / f"kueue-{version}-{key}"
        built = Built(target / "kueue.yaml", target / f"{target.name}.tar")
        if target.exists():
            return built
        build.require_go()
        say(f"building Kueue {version} (4 to 8 minutes on two cores)")
        part = target.with_name(f"{target.name}.part{os.getpid()}")
        part.mkdir()
        try:
            _manifest(part / built.manifest.name)
            _archive(part / built.archive.name, build.image_in(part / built.manifest.name))
            part.replace(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return built


_go = partial(build.go, module=GO)


def _manifest(target: Path) -> None:
    """Render the official manifest, with our image's tag, and without what can't be served here."""
    _go("mod", "download", MODULE)
    module = Path(_go("list", "-m", "-f", "{{.Dir}}", MODULE).strip())
    source = target.with_name("source")
    shutil.copytree(module / "config", source)
    run("chmod", "-R", "u+w", source)
    manager = source / "components" / "manager"
    for name, before, after in EDITS:
        path = manager / name
        path.write_text(re.sub(before, after, path.read_text()))
    rendered = run(build.binaries() / "kube", "kubectl", "kustomize", source / "default")
    shutil.rmtree(source)
    kept = [one for one in rendered.split("\n---\n") if UNSERVED not in one]
    target.write_text("\n---\n".join(kept))


def _archive(target: Path, name: str) -> None:
    program = target.with_name("kueue")
    flags = f"-s -w -X {MODULE}/pkg/version.GitVersion={layout.KUEUE}"
    _go("build", "-trimpath", "-ldflags", flags, "-o", program, f"{MODULE}/cmd/kueue")
    archives.of_binary(target, name, program, "manager")
    program.unlink()


def _kubectl(*arguments: str | Path) -> str:
    return run(layout.KUBECTL, *arguments)


def install(built: Built) -> None:
    """Install Kueue, and wait until it lets TrainJobs in."""
    watch = Stopwatch()
    up.import_images(built.archive)
    _kubectl("apply", "--server-side", "--force-conflicts", "-f", built.manifest)
    available = ("deployment", "--all", "--for=condition=Available", "--timeout=5s")
    wait = partial(_kubectl, "--namespace", NAMESPACE, "wait", *available)
    up.until("Kueue", wait, "kubelet")
    up.until("Kueue", up.try_job, "kube-apiserver", every=0.3)  # its webhooks
    watch.step("Kueue is ready")


def remove(built: Built) -> None:
    """Remove Kueue: first what would stand in the way of others, last its definitions."""
    if NAMESPACE not in _kubectl("get", "namespaces", "--output=name"):
        return
    watch = Stopwatch()
    for kind in KINDS:
        found = _kubectl(
            "get",
            f"{kind}.kueue.x-k8s.io",
            "--all-namespaces",
            "--ignore-not-found",
            "--output=name",
        )
        if found.strip():
            scope = ("--all-namespaces",) if kind in ("workloads", "localqueues") else ()
            _kubectl("delete", f"{kind}.kueue.x-k8s.io", "--all", *scope, "--timeout=60s")
    for kind in WEBHOOKS:
        _kubectl("delete", kind, "--selector=app.kubernetes.io/name=kueue")
    _kubectl("--namespace", NAMESPACE, "delete", "deployments,pods", "--all", "--grace-period=1")
    _kubectl("delete", "--ignore-not-found", "--wait=false", "-f", built.manifest)
    _kubectl("wait", "--for=delete", "--timeout=100s", "-f", built.manifest)
    watch.step("Kueue is gone")


def main(action: str) -> None:
    """Build, install or remove Kueue."""
    layout.require_root()
    if action == "build":
        print(everything().manifest.parent)
        return
    if not STATE.exists():
        raise ClusterError("There is no cluster: `make cluster` starts one.")
    built = everything()
    with layout.only_one():
        if action == "up":
            install(built)
        elif action == "down":
            remove(built)
        else:
            raise ClusterError("Say build, up or down.")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ClusterError as error:
        sys.exit(f"cluster: {error}")
