"""The table of all causes for which a job waits or fails: the status line and the docs read it."""

from __future__ import annotations

from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.cause import Cause, Refused, Words
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.ended import (
    DELETED,
    ENDS,
    FAILED,
    OTHER,
)
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.images import IMAGES
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.queued import QUEUED
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.refused import REFUSED
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.running import RUNNING
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.starting import STARTING
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.unschedulable import UNSCHEDULABLE

__all__ = ["SECTIONS", "Cause", "Refused", "Words"]

SECTIONS: dict[str, tuple[Cause, ...]] = {
    "The request is refused": REFUSED,
    "The job is queued, or waits for its pods": QUEUED,
    "Pods can't be scheduled": UNSCHEDULABLE,
    "The image can't be pulled": IMAGES,
    "Containers don't start": STARTING,
    "The job is starting": RUNNING,
    "A rank has ended": tuple(cause for cause, _ in ENDS),
    "The job has ended": (*FAILED, DELETED, *OTHER),
}
