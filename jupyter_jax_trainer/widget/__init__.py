"""The views as widgets, for front ends without our extension (docs/reference/server.md).

`static/` has the same TypeScript as the extension, built as one module each. A clone in which it
was not built has no widgets; everything else works without them.
"""

from __future__ import annotations

from typing import Any

from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.widget.built import require


def of_job(job: Job) -> Any:
    """Return a live view of a job, for `Job.widget`.

    Returns
    -------
    anywidget.AnyWidget
        The state, progress, last log lines and buttons.
    """
    require()
    from jupyter_jax_trainer.widget.job import JobWidget

    return JobWidget(job)


def panel() -> Any:
    """Return a widget with JupyterLab's two side bars: runtimes and jobs.

    Returns
    -------
    anywidget.AnyWidget
        To be shown as the last value of a cell.
    """
    require()
    from jupyter_jax_trainer.widget.lists import Panel

    return Panel()
