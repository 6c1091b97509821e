"""Look at a runtime for what jobs need of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.submit import runtimes
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import PREFIX
from jupyter_jax_trainer.doctor.finding import FAIL, OK, WARN, Finding

_LACKS = {
    "scratch": (
        "Scratch space",
        "an emptyDir is mounted",
        "no emptyDir is mounted",
        "Mount one for HOME and TMPDIR",
    ),
    "mesh": (
        "Service mesh",
        "kept out",
        "may take the pods in",
        'Label the pods sidecar.istio.io/inject: "false"',
    ),
    "restricted": (
        "PodSecurity",
        "meets restricted",
        "does not meet restricted",
        "Take the securityContext of ours",
    ),
    "tolerations": (
        "Taints",
        "that of its devices is tolerated",
        "that of its devices is not tolerated",
        "Take the toleration of ours",
    ),
}


def examine(item: Mapping[str, Any]) -> Iterator[Finding]:
    """Make all checks of one runtime."""
    labels = item["metadata"].get("labels") or {}
    node = runtimes.container(item)
    if not node:
        yield Finding(
            FAIL,
            "Container",
            "there is no replicated job node with a container node",
            "Trainer puts the job's command there: name them so.",
        )
        return
    if image := node.get("image"):
        yield Finding(OK, "Image", str(image))
    else:
        yield Finding(FAIL, "Image", "none", "Name one; else each job needs an --image.")
    if (item["spec"].get("mlPolicy") or {}).get("jax") is not None:
        yield Finding(OK, "Policy", "mlPolicy.jax")
    else:
        yield Finding(
            WARN,
            "Policy",
            "no mlPolicy.jax, only the label",
            "Without it ranks don't find each other, and jobs have one node: add mlPolicy.jax: {}.",
        )
    device = runtimes.device_of(item)
    yield Finding(OK, "Device", device)
    yield _python(labels.get(f"{PREFIX}/python"))
    if runtimes.runs_once(item):
        yield Finding(OK, "Restarts", "a cell that fails is not run again")
    else:
        yield Finding(
            WARN,
            "Restarts",
            "a cell that fails is run again, until a follower stops it",
            "Set restartPolicy: Never, backoffLimit: 0 and no failurePolicy.maxRestarts.",
        )
    for name, lacking in runtimes.patches(item, restricted=True, device=device).items():
        subject, fine, wrong, advice = _LACKS[name]
        if lacking:
            yield Finding(
                WARN,
                subject,
                f"{wrong}: jobs patch it in",
                f"{advice}; with --queue and Kueue up to 0.16 jobs can't be patched.",
            )
        else:
            yield Finding(OK, subject, fine)
    if folder := runtimes.shared_folder(item):
        if runtimes.is_on_volume(item, folder):
            yield Finding(OK, "Shared folder", f"{folder}: checkpoints go there")
        else:
            yield Finding(
                WARN,
                "Shared folder",
                f"{folder} is on no volume that outlives the pods",
                f"Mount one there, or take the annotation {runtimes.SHARED} away.",
            )
    if runtimes.is_deprecated(item):
        yield Finding(WARN, "Support", "deprecated", "Users are told to choose another.")


def _python(version: str | None) -> Finding:
    if version is None:
        return Finding(
            WARN,
            "Python",
            "no label says which",
            f"Label it {PREFIX}/python: cells that can't be read there are refused before a start.",
        )
    if version != runtimes.PYTHON:
        return Finding(
            WARN,
            "Python",
            f"{version}, and here it is {runtimes.PYTHON}",
            "Functions and classes of a notebook here can't be read there.",
        )
    return Finding(OK, "Python", version)
