"""What every backend says: of a name that is none, and of what this backend can't do."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Message, identify

UNKNOWN = Message("Unknown backend {name!r}; this version has {known}.")

NO_NAMESPACES = Message("The backend {backend} has no namespaces.")
RUNTIMES_HAVE_NO_YAML = Message("Runtimes of the backend {backend} have no YAML.")
CHECKS_NO_RUNTIMES = Message("The backend {backend} can't check runtimes.")
INSTALLS_NO_RUNTIMES = Message("The backend {backend} can't install runtimes.")
CONVERTS_NOTHING = Message("The backend {backend} can't convert jobs of other tools.")
CANNOT_SUSPEND = Message(
    "Jobs of the backend {backend} can't be suspended.",
    "`cancel {job}` ends it; what it has saved in checkpoint_dir() is kept.",
)
JOB_HAS_NO_YAML = Message("Job {job} is not a cluster object and has no YAML.")
ONLY_JOBS_OF_THIS_MACHINE = Message("The backend {backend} only has the jobs of this machine.")

identify(globals())
