"""A job as a cell's output: one bundle, from which each front end draws what it can.

Our own type is drawn by the JupyterLab extension, and fed by the server; the widget by front ends
that lack it; static HTML is what a saved notebook shows elsewhere.
"""

from __future__ import annotations

import contextlib
from typing import Any, NotRequired, TypedDict, cast

from jupyter_jax_trainer.datatypes import JsonValue, MimeBundle
from jupyter_jax_trainer.errors import JobDirError
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.queries.protocol import JobSummary
from jupyter_jax_trainer.queries.summary import SummaryReader
from jupyter_jax_trainer.states import ENDED
from jupyter_jax_trainer.views import card
from jupyter_jax_trainer.views.card import Facts
from jupyter_jax_trainer.views.frontend import in_notebook

JOB = "application/vnd.jaxtrain.job+json"
WIDGET = "application/vnd.jupyter.widget-view+json"


class Reference(TypedDict):
    """Which job a cell's output shows.

    Attributes
    ----------
    key
        None while none has been submitted.
    last
        What a saved notebook is to show.
    printed, printing
        The lines of rank 0 stand below, or come there.
    """

    key: str | None
    backend: NotRequired[str]
    namespace: NotRequired[str | None]
    name: NotRequired[str]
    uid: NotRequired[str]
    last: NotRequired[JobSummary]
    printed: NotRequired[bool]
    printing: NotRequired[bool]


def reference(job: Job | None) -> Reference:
    """Say which job it is; none has been submitted yet where it is None."""
    if job is None:
        return {"key": None}
    manifest = job.manifest
    return {
        "key": job.name,
        "backend": manifest["backend"],
        "namespace": cast("str | None", manifest["plan"].get("namespace")),
        "name": job.name,
        "uid": manifest["uid"],
    }


def whole(job: Job) -> MimeBundle:
    """Return all of a job that is displayed as a value: ``job`` at the end of a cell.

    A job that goes on comes with a widget; that of one that has ended would be dead in the saved
    notebook.
    """
    from jupyter_jax_trainer.widget.built import available

    try:
        facts, snapshot = Facts.of(job), job.snapshot()
    except JobDirError:
        return {"text/plain": repr(job)}
    meant, spark = reference(job), None
    if snapshot["state"] in ENDED:
        meant["last"] = SummaryReader(job).read()
        spark = meant["last"]["spark"]
    found: MimeBundle = {
        JOB: as_json(meant),
        "text/plain": repr(job),
        "text/html": card.render(facts, snapshot, spark=spark),
    }
    if snapshot["state"] not in ENDED and in_notebook() and available():
        found[WIDGET] = widget_view(job.widget())
    return found


def as_json(meant: Reference) -> JsonValue:
    """Return it as a part of a bundle."""
    return cast(JsonValue, meant)


def show(job: Job) -> None:
    """Show a job in the output of the running cell, and go on."""
    from IPython.display import display

    display(whole(job), raw=True, display_id=True)


def widget_view(widget: Any) -> JsonValue:
    """Return what makes a front end draw a widget."""
    data, _ = widget._repr_mimebundle_()
    return dict(data[WIDGET])


def last_of(job: Job) -> JobSummary | None:
    """Return what a saved notebook is to show; None where the job's files are gone."""
    with contextlib.suppress(JobDirError, OSError):
        return SummaryReader(job).read()
    return None
