"""What a rank says: errors of the worker, and notices in its log. It travels with the worker."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Message, identify

ANOTHER_PYTHON = Message(
    "{names} came from Python {sent}, but this job runs Python {here}, and functions and classes "
    "can't be moved between the two. Choose a runtime with the same Python, or define them inside "
    "the cell."
)
NOT_IN_A_JOB = Message(
    "Inside a job, jupyter_jax_trainer.{name} is not available: only report() and checkpoint_dir() "
    "are."
)

identify(globals())
