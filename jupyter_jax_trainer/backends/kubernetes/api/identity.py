"""Which object of the cluster is a job's: by uids that the API gave, never by what can be copied.

The uid of the TrainJob (``metadata.uid``) is noted in the job's directory when it was created, and
demanded from then on. Jobs of version 0.1 have no such note: theirs is made when a TrainJob with
our own id is first seen.
"""

from __future__ import annotations

import contextlib

from jupyter_jax_trainer.backends.kubernetes.api.marks import uid_of
from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainJob
from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest, attached_of


def note(directory: JobDir, uid: str) -> None:
    """Note which TrainJob is the job's: without it, a copy of its annotations would pass for it."""
    files.write_json(directory.trainjob, {"uid": uid}, durable=True)


def is_jobs(directory: JobDir, manifest: Manifest, found: TrainJob) -> bool:
    """Return whether a TrainJob is the job's; one with our own id is noted where none was.

    Raises
    ------
    JobDirError
        The note is damaged.
    """
    uid, known = found.uid, directory.read_trainjob_uid()
    if not uid:
        return False  # the API has not created it
    if known is None and uid_of(found) == manifest["uid"]:
        with contextlib.suppress(OSError):  # the directory may be gone, or the disk full
            note(directory, uid)
        return True
    return uid == known


def submitted_here(manifest: Manifest) -> bool:
    """Return whether this store submitted the job: paths and URLs in its options are the user's."""
    return attached_of(manifest) is None
