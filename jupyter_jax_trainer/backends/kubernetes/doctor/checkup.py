"""Look at a runtime for what jobs need of it."""

from __future__ import annotations

from collections.abc import Iterator

from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.submit import runtimes
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import PREFIX
from jupyter_jax_trainer.doctor.finding import FAIL, OK, WARN, Finding
from jupyter_jax_trainer.messages import Label, Message, identify
from jupyter_jax_trainer.messages import doctor as say

SCRATCH = Label("Scratch space")
TAINTS = Label("Taints")
HAS_SCRATCH = Message("an emptyDir is mounted")
NO_SCRATCH = Message(
    "no emptyDir is mounted: jobs patch one in",
    "Mount one for HOME and TMPDIR; with --queue and Kueue up to 0.16 jobs can't be patched.",
)
OUTSIDE_MESH = Message("excluded")
INSIDE_MESH = Message(
    "may include the pods: jobs patch in the label",
    'Label the pods sidecar.istio.io/inject: "false"; with --queue and Kueue up to 0.16 jobs '
    "can't be patched.",
)
RESTRICTED = Message("meets restricted")
NOT_RESTRICTED = Message(
    "does not meet restricted: jobs patch in what is missing",
    "Copy our securityContext; with --queue and Kueue up to 0.16 jobs can't be patched.",
)
TOLERATED = Message("its devices' taint is tolerated")
NOT_TOLERATED = Message(
    "its devices' taint is not tolerated: jobs patch in a toleration",
    "Copy our toleration; with --queue and Kueue up to 0.16 jobs can't be patched.",
)

_LACKS = {
    "scratch": (SCRATCH, HAS_SCRATCH, NO_SCRATCH),
    "mesh": (say.MESH, OUTSIDE_MESH, INSIDE_MESH),
    "restricted": (say.POD_SECURITY, RESTRICTED, NOT_RESTRICTED),
    "tolerations": (TAINTS, TOLERATED, NOT_TOLERATED),
}

CONTAINER = Label("Container")
POLICY = Label("Policy")
DEVICE = Label("Device")
RESTARTS = Label("Restarts")
SHARED_FOLDER = Label("Shared folder")
SUPPORT = Label("Support")
NAME_AN_IMAGE = Message("Name one; without it, each job needs an --image.")
NO_ML_POLICY = Message(
    "no mlPolicy.jax, only the label",
    "Without it ranks don't find each other, and jobs have one node: add mlPolicy.jax: {{}}.",
)
RUNS_ONCE = Message("a failed cell is not rerun")
RERUNS = Message(
    "a failed cell is rerun until a follower stops it",
    "Set restartPolicy: Never, backoffLimit: 0 and no failurePolicy.maxRestarts.",
)
CHECKPOINTS_THERE = Message("checkpoints go to {folder}")
NOT_SHARED = Message(
    "no volume that outlives the pods contains {folder}",
    "Mount one there, or remove the annotation {annotation}.",
)
RUNTIME_DEPRECATED = Message("deprecated", "Users are told to choose another.")


def examine(item: TrainingRuntime) -> Iterator[Finding]:
    """Make all checks of one runtime."""
    node = item.container
    if not node.json:
        yield Finding(FAIL, CONTAINER(), say.NO_NODE())
        return
    if node.image:
        yield Finding(OK, say.IMAGE(), node.image)
    else:
        yield Finding(FAIL, say.IMAGE(), say.NONE(), NAME_AN_IMAGE())
    if item.has_jax_policy:
        yield Finding(OK, POLICY(), "mlPolicy.jax")
    else:
        yield Finding(WARN, POLICY(), NO_ML_POLICY())
    device = runtimes.device_of(item)
    yield Finding(OK, DEVICE(), device)
    yield _python(item.labels.get(f"{PREFIX}/python"))
    if runtimes.runs_once(item):
        yield Finding(OK, RESTARTS(), RUNS_ONCE())
    else:
        yield Finding(WARN, RESTARTS(), RERUNS())
    for name, lacking in runtimes.patches(item, restricted=True, device=device).items():
        subject, fine, wrong = _LACKS[name]
        yield Finding(WARN, subject(), wrong()) if lacking else Finding(OK, subject(), fine())
    if folder := runtimes.shared_folder(item):
        if runtimes.is_on_volume(item, folder):
            yield Finding(OK, SHARED_FOLDER(), CHECKPOINTS_THERE(folder=folder))
        else:
            said = NOT_SHARED(folder=folder, annotation=runtimes.SHARED)
            yield Finding(WARN, SHARED_FOLDER(), said)
    if runtimes.is_deprecated(item):
        yield Finding(WARN, SUPPORT(), RUNTIME_DEPRECATED())


NO_PYTHON_LABEL = Message(
    "no label states it",
    "Add the label {label}: cells that its Python can't load are then refused before they start.",
)
ANOTHER_PYTHON = Message(
    "{there}; this is {here}", "It can't read functions and classes of a notebook here."
)


def _python(version: str | None) -> Finding:
    if version is None:
        said = NO_PYTHON_LABEL(label=f"{PREFIX}/python")
        return Finding(WARN, say.PYTHON(), said)
    if version != runtimes.PYTHON:
        said = ANOTHER_PYTHON(there=version, here=runtimes.PYTHON)
        return Finding(WARN, say.PYTHON(), said)
    return Finding(OK, say.PYTHON(), version)


identify(globals(), "doctor")
