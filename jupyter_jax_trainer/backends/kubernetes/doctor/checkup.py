"""Look at a runtime for what jobs need of it."""

from __future__ import annotations

from collections.abc import Iterator

from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.submit import runtimes
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import PREFIX
from jupyter_jax_trainer.doctor.finding import FAIL, OK, WARN, Finding
from jupyter_jax_trainer.messages import doctor as say

_LACKS = {
    "scratch": (say.SCRATCH, say.HAS_SCRATCH, say.NO_SCRATCH),
    "mesh": (say.MESH, say.OUTSIDE_MESH, say.INSIDE_MESH),
    "restricted": (say.POD_SECURITY, say.RESTRICTED, say.NOT_RESTRICTED),
    "tolerations": (say.TAINTS, say.TOLERATED, say.NOT_TOLERATED),
}


def examine(item: TrainingRuntime) -> Iterator[Finding]:
    """Make all checks of one runtime."""
    node = item.container
    if not node.json:
        yield Finding(FAIL, say.CONTAINER(), say.NO_NODE())
        return
    if node.image:
        yield Finding(OK, say.IMAGE(), node.image)
    else:
        yield Finding(FAIL, say.IMAGE(), say.NONE(), say.NAME_AN_IMAGE())
    if item.has_jax_policy:
        yield Finding(OK, say.POLICY(), "mlPolicy.jax")
    else:
        yield Finding(WARN, say.POLICY(), say.NO_ML_POLICY())
    device = runtimes.device_of(item)
    yield Finding(OK, say.DEVICE(), device)
    yield _python(item.labels.get(f"{PREFIX}/python"))
    if runtimes.runs_once(item):
        yield Finding(OK, say.RESTARTS(), say.RUNS_ONCE())
    else:
        yield Finding(WARN, say.RESTARTS(), say.RERUNS())
    for name, lacking in runtimes.patches(item, restricted=True, device=device).items():
        subject, fine, wrong = _LACKS[name]
        yield Finding(WARN, subject(), wrong()) if lacking else Finding(OK, subject(), fine())
    if folder := runtimes.shared_folder(item):
        if runtimes.is_on_volume(item, folder):
            yield Finding(OK, say.SHARED_FOLDER(), say.CHECKPOINTS_THERE(folder=folder))
        else:
            said = say.NOT_SHARED(folder=folder, annotation=runtimes.SHARED)
            yield Finding(WARN, say.SHARED_FOLDER(), said)
    if runtimes.is_deprecated(item):
        yield Finding(WARN, say.SUPPORT(), say.RUNTIME_DEPRECATED())


def _python(version: str | None) -> Finding:
    if version is None:
        said = say.NO_PYTHON_LABEL(label=f"{PREFIX}/python")
        return Finding(WARN, say.PYTHON(), said)
    if version != runtimes.PYTHON:
        said = say.ANOTHER_PYTHON(there=version, here=runtimes.PYTHON)
        return Finding(WARN, say.PYTHON(), said)
    return Finding(OK, say.PYTHON(), version)
