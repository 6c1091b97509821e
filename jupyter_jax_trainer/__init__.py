"""Turn a notebook cell into a distributed JAX training job.

``%load_ext jupyter_jax_trainer`` gives ``%%jaxtrain``; the same things are Python functions here.
Every name is imported when it is first used, so that loading the extension costs next to nothing
and a worker, which has only a part of this package, can import ``report`` and ``checkpoint_dir``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "train": "api",
    "jobs": "api",
    "job": "api",
    "compare": "jobdir.comparison",
    "metrics": "jobdir.comparison",
    "panel": "widget",
    "runtimes": "api",
    "export_job": "sharing.export",
    "save_report": "sharing.report",
    "session": "sessions",
    "Job": "jobdir.job",
    "report": "worker.reporting",
    "checkpoint_dir": "worker.reporting",
    "JaxTrainError": "errors",
    "JobFailed": "errors",
}

_GIVE_JOBS = ("train", "jobs", "job", "session", "Job")

__all__ = [
    "JaxTrainError",
    "Job",
    "JobFailed",
    "__version__",
    "checkpoint_dir",
    "compare",
    "export_job",
    "job",
    "jobs",
    "load_ipython_extension",
    "metrics",
    "panel",
    "report",
    "runtimes",
    "save_report",
    "session",
    "train",
    "unload_ipython_extension",
]

if TYPE_CHECKING:
    from jupyter_jax_trainer.api import job, jobs, runtimes, train
    from jupyter_jax_trainer.errors import JaxTrainError, JobFailed
    from jupyter_jax_trainer.jobdir.comparison import compare, metrics
    from jupyter_jax_trainer.jobdir.job import Job
    from jupyter_jax_trainer.sessions import session
    from jupyter_jax_trainer.sharing.export import export_job
    from jupyter_jax_trainer.sharing.report import save_report
    from jupyter_jax_trainer.widget import panel
    from jupyter_jax_trainer.worker.reporting import checkpoint_dir, report


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_HOME[name]}")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(__name__):
            raise
        from jupyter_jax_trainer.messages import worker as say

        raise ImportError(say.NOT_IN_A_JOB(name=name)) from None
    if name in _GIVE_JOBS and (shell := _running_shell()) is not None:
        _show_jobs(shell)
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """Register ``%%jaxtrain`` and ``%jaxtrain`` with an IPython shell (``%load_ext``)."""
    from jupyter_jax_trainer.magic import register

    register(shell)
    _show_jobs(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics out of an IPython shell again (``%unload_ext``)."""
    from jupyter_jax_trainer.magic import unregister

    unregister(shell)


def _running_shell() -> Any:
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def _show_jobs(shell: Any) -> None:
    """Let a shell show the view of a `Job` that is the last value of a cell.

    It is named, not imported: nothing is loaded before there is a job to show.
    """
    if shell.display_formatter is not None:
        formatter = shell.display_formatter.mimebundle_formatter
        formatter.for_type_by_name(f"{__name__}.jobdir.job", "Job", _view_of)


def _view_of(job: Any) -> dict[str, Any]:
    from jupyter_jax_trainer.views.bundle import whole

    return whole(job)
