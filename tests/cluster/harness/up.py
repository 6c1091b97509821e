"""Bring the test cluster up; the last line of output is the path of its kubeconfig.

What runs already stays: a second call starts what is missing, and says the same.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import build
import cgroups
import down
import layout
import parts
import space
from layout import KUBECONFIG, STATE, ClusterError, Stopwatch, run, say

READY_S = 120.0
IMPORTED = STATE / "imported.json"
IMAGES = ("ctr", "--namespace", "k8s.io", "images")
NAMESPACES = ("kube-system", "jobset-system", "kubeflow-system")


def until(what: str, tried: Callable[[], object], log: str, every: float = 0.1) -> None:
    """Call ``tried`` until it raises no error; in the end, say its last one."""
    deadline = time.monotonic() + READY_S
    while True:
        try:
            tried()
            return
        except ClusterError as error:
            if time.monotonic() > deadline:
                log_tail = space.tail(STATE / "logs" / f"{log}.log")
                raise ClusterError(
                    f"{what} did not get ready in {READY_S:.0f} s: {error}\n{log_tail}"
                ) from None
        time.sleep(every)


def imported() -> list[str]:
    """Return the names of the archives that the cluster has."""
    return list(json.loads(IMPORTED.read_text())) if IMPORTED.exists() else []


def import_images(*archives: Path) -> None:
    """Import the images that the cluster lacks."""
    there = imported()
    for archive in archives:
        if archive.name not in there:
            inside = layout.INSIDE_CACHE / archive.relative_to(layout.CACHE)
            space.inside(*IMAGES, "import", inside)
            there.append(archive.name)
            layout.write_json(IMPORTED, there)


def image_names() -> dict[str, str]:
    """Return the digests of all images in the cluster, by name."""
    lines = space.inside(*IMAGES, "ls").splitlines()[1:]
    return {words[0]: words[2] for words in map(str.split, lines)}


def forget_image(archive: Path, name: str) -> None:
    """Take an image out of the cluster, for the room that it takes."""
    layout.write_json(IMPORTED, [each for each in imported() if each != archive.name])
    digests = image_names()
    gone = {digest for each, digest in digests.items() if each.endswith(f"/{name}")}
    # Under each of its names, its id among them: what has a name keeps its room.
    names = [each for each, digest in digests.items() if digest in gone]
    if names:
        space.inside(*IMAGES, "rm", "--sync", *names)


def try_job() -> None:
    """Ask the cluster whether it would take a TrainJob: all webhooks have to answer."""
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "are-you-there", "namespace": "default"},
        "spec": {"runtimeRef": {"name": "jax-cpu"}, "trainer": {"command": ["true"]}},
    }
    kubectl = (layout.KUBECTL, "create", "--dry-run=server", "-f", "-")
    run(*kubectl, text=json.dumps(job))


class Cluster:
    """The running cluster, spoken to by its own kubectl."""

    def __init__(self, built: build.Built) -> None:
        self.built = built

    def kubectl(self, *arguments: str | Path, text: str | None = None) -> str:
        """Run kubectl and return its output."""
        return run(*self.built.kubectl, "--kubeconfig", KUBECONFIG, *arguments, text=text)

    def apply(self, *arguments: str | Path) -> str:
        """Apply manifests on the server, which takes large ones, too."""
        return self.kubectl("apply", "--server-side", "--force-conflicts", *arguments)

    def start(self) -> None:
        """Start the parts, from the store to the node."""
        watch = Stopwatch()
        fresh = not space.running()
        if fresh:
            down.clean()
            space.refuse_second()
        parts.configure()
        if fresh:
            space.make(self.built.binaries / "pause")
        kubectl = shlex.join([*self.built.kubectl, "--kubeconfig", str(KUBECONFIG)])
        layout.write(layout.KUBECTL, f'#!/bin/sh\nexec {kubectl} "$@"\n', 0o755)
        cgroups.make()
        watch.step("namespaces, certificates and settings")

        for name in ("etcd", "containerd", "kube-apiserver"):
            parts.start(name, self.built.kube)
        until("containerd", lambda: space.inside("ctr", "version"), "containerd")
        # Before there are pods: one that misses its image waits long.
        import_images(*self.built.archives)
        until("the API server", self._try_apiserver, "kube-apiserver")
        watch.step("API server")
        for name in ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"):
            parts.start(name, self.built.kube)
        self._apply_all()
        watch.step("node, and manifests applied")
        import_images(*self.built.workers)
        watch.step("worker images imported")
        self._wait_ready(watch)

    def _try_apiserver(self) -> None:
        parts.start("kube-apiserver", self.built.kube)  # one that was told to end may just do so
        self.kubectl("get", "--raw", "/readyz")

    def _apply_all(self) -> None:
        own = layout.HERE / "manifests"
        manifests = self.built.manifests
        self.apply("-f", own / "kubelet.yaml", "-f", own / "coredns.yaml")
        self.apply("-f", manifests / "jobset.yaml")
        self.apply("-f", manifests / "trainer.yaml")

    def _wait_ready(self, watch: Stopwatch) -> None:
        available = ("deployment", "--all", "--for=condition=Available", "--timeout=5s")
        for namespace in NAMESPACES:
            wait = partial(self.kubectl, "--namespace", namespace, "wait", *available)
            until(f"what runs in {namespace}", wait, "kubelet")
            watch.step(f"{namespace} is ready")
        # These pass webhooks, so they wait until those answer.
        stock = self.built.manifests / "trainer-runtimes.yaml"
        for attempt in (
            partial(self.apply, "-f", stock),
            partial(self.apply, "-k", build.RUNTIMES),
            partial(self.apply, "-k", build.RUNTIMES / "slim" / "cpu"),
            try_job,
        ):
            until("Trainer", attempt, "kube-apiserver", every=0.3)
        watch.step("runtimes and webhooks are ready")


def main() -> None:
    """Build what is missing, start what does not run, and wait until jobs can be submitted."""
    layout.require_root()
    os.umask(0o022)
    with layout.only_one():
        watch = Stopwatch()
        built = build.everything()
        watch.step("programs and images are there")
        Cluster(built).start()
        watch.step("the cluster is up")
    say(f"export KUBECONFIG={KUBECONFIG}")
    print(KUBECONFIG)


if __name__ == "__main__":
    try:
        main()
    except ClusterError as error:
        sys.exit(f"cluster: {error}")
