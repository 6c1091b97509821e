"""Our marks on objects of the cluster: names of annotations and labels, and the id of a job."""

from __future__ import annotations

import re

from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainJob

PREFIX = "jupyter-jax-trainer"
UID = f"{PREFIX}/uid"  # an annotation; on what belongs to a job alone it is a label, too
UID_FORM = re.compile(r"[0-9a-f]{32}")
ABOUT = f"{PREFIX}/job"  # what another machine needs to know to show the job
ABOUT_FORMAT = 1
FAILED = f"{PREFIX}/failed"
JOB_LABEL = f"{PREFIX}/job"


def uid_of(job: TrainJob) -> str | None:
    """Return our own id that a TrainJob claims to have; None where it isn't one of ours.

    Others can copy it: which TrainJob is a job's is told by `identity`.
    """
    found = job.annotations.get(UID, "")
    return found if UID_FORM.fullmatch(found) else None
