"""What is said about a job's state in one line, and the card that shows it in a notebook.

The card is static HTML: no scripts, everything that a job could have written escaped. It takes
JupyterLab's colours, so it fits light and dark.
"""

from __future__ import annotations

import html
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_jax_trainer.jobdir.describe import (
    Thing,
    elapsed,
    progress_text,
    pulse,
    remarks,
    renamed,
    results_text,
    sent_text,
    shape,
    time_left,
    used_text,
)
from jupyter_jax_trainer.jobdir.failure import CANCELLED
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Plan
from jupyter_jax_trainer.jobdir.state import ProgressState, Snapshot, about_restart
from jupyter_jax_trainer.messages import views as say
from jupyter_jax_trainer.queries.protocol import Spark
from jupyter_jax_trainer.states import ENDED, State, Unstarted
from jupyter_jax_trainer.text import MAX_REASON, duration, one_line, shorten, uncoloured
from jupyter_jax_trainer.trust import policy
from jupyter_jax_trainer.views.spark import sparkline

if TYPE_CHECKING:
    from jupyter_jax_trainer.capture import Capture
    from jupyter_jax_trainer.jobdir.job import Job
    from jupyter_jax_trainer.options.spec import JobSpec

_COLOURS: dict[str, str] = {
    State.RUNNING: "var(--jp-brand-color1, #1565c0)",
    State.SUCCEEDED: "var(--jp-success-color1, #2e7d32)",
    State.FAILED: "var(--jp-error-color1, #c62828)",
    State.CANCELLED: "var(--jp-ui-font-color2, #757575)",
}
_WAITING = "var(--jp-warn-color1, #b26a00)"
_MUTED = "color:var(--jp-ui-font-color2,#616161)"
_CODE = "var(--jp-code-font-family,monospace)"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What does not change about a job while it is shown.

    Attributes
    ----------
    name
        None for a job that has no name yet.
    created
        When it was submitted, in seconds since the epoch.
    shape
        How large it is: ``4 nodes × 2 CPU devices``.
    sent
        What is sent, largest first: ``x float32[60000,784] 188 MB, train_step function 1.1 kB``.
    in_session
        It is a cell of a session, of which it is shown to the end what was sent and kept.
    remarks
        What is to be said of that.
    notes
        What the user should know about it: an unexpected name, a device that was chosen.
    log
        The file with all that rank 0 prints.
    """

    name: str | None
    created: float
    shape: str
    sent: str
    in_session: bool = False
    remarks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    log: str = ""

    @classmethod
    def before(cls, spec: JobSpec, plan: Plan, capture: Capture) -> Facts:
        """Describe a job that is about to be submitted."""
        return cls(
            name=spec.name,
            created=time.time(),
            shape=shape(spec.to_json(), plan),
            sent=sent_text(
                (
                    Thing(name=sent.name, kind=sent.kind, type=sent.type, size=sent.size)
                    for sent in capture.sent
                ),
                capture.kept,
                capture.held,
            ),
        )

    @classmethod
    def of(cls, job: Job) -> Facts:
        """Describe a job."""
        manifest = job.manifest
        spec, plan = manifest["spec"], manifest["plan"]
        notes = (policy.notice(job), renamed(spec.get("name"), job.name), plan.get("note"))
        return cls(
            name=job.name,
            created=job.created,
            shape=shape(spec, plan),
            sent=sent_text(manifest["sent"], manifest.get("kept", ()), manifest.get("held")),
            remarks=tuple(manifest.get("remarks", ())),
            in_session="cell_of" in manifest,
            notes=tuple(note for note in notes if note),
            log=str(JobDir(job.directory).log(0)),
        )


def line(facts: Facts, snapshot: Snapshot, note: str | None = None) -> str:
    """Return the status in one line of plain text."""
    words = [f"{facts.name or say.NEW_JOB()}: {snapshot['state']}", facts.shape]
    words += _times(facts, snapshot)
    if text := progress_text(snapshot["progress"]):
        words.append(text)
    if snapshot["state"] != State.FAILED and (reason := _reason(snapshot)):
        words.append(reason)
    if note:
        words.append(note)
    if using := used_text(snapshot):
        words.append(using)
    return one_line(" · ".join(words))


def _reason(snapshot: Snapshot) -> str:
    """Return the reason as it stands beside the state."""
    if snapshot["state"] == State.CANCELLED and snapshot["reason"] == CANCELLED:
        return say.BY_USER()
    return shorten(snapshot["reason"] or "", MAX_REASON)


def _times(facts: Facts, snapshot: Snapshot) -> list[str]:
    """Say how long it has taken, and how much is left."""
    if not snapshot["history"]:
        return []
    left = time_left(snapshot)
    return [
        duration(elapsed(facts.created, snapshot)),
        *([] if left is None else [say.TIME_LEFT(time=duration(left))]),
    ]


def text(facts: Facts, snapshot: Snapshot, note: str | None = None) -> str:
    """Return the whole card as plain text, for where HTML is not shown."""
    lines = [line(facts, snapshot, note)]
    if snapshot["state"] == State.FAILED and (reason := _reason(snapshot)):
        lines.append(reason)
    if words := hint(snapshot):
        lines.append(words)
    lines += _footer(facts, snapshot)
    return "\n".join(map(one_line, lines))


def hint(snapshot: Snapshot) -> str:
    """Return what to do about a wait; empty where nothing can be done.

    What to do about a failure stands below the error that ends the cell.
    """
    words = None if snapshot["state"] in ENDED else snapshot["hint"]
    return one_line(shorten(words, MAX_REASON)) if words else ""


def _footer(facts: Facts, snapshot: Snapshot) -> list[str]:
    """Say in single lines what was sent, what came back and what else there is to know."""
    if snapshot["state"] == Unstarted.SENDING:
        return [say.SENDING(things=facts.sent)] if facts.sent else []
    active = snapshot["state"] not in (*ENDED, Unstarted.NOT_STARTED)
    lines = list(facts.notes if active else facts.notes[:1])
    if facts.sent and (active or facts.in_session):
        lines.append(say.SENT(things=facts.sent))
    lines += facts.remarks
    if back := results_text(snapshot["results"]):
        lines.append(say.BROUGHT_BACK(things=back))
    lines += filter(None, [pulse(snapshot)])
    lines += remarks(snapshot)
    if not active and (words := about_restart(snapshot.get("restarts", []), ended=True)):
        lines.append(words)
    if active:
        lines.append(say.KEEPS_RUNNING(name=facts.name))
    return lines


def render(
    facts: Facts,
    snapshot: Snapshot,
    note: str | None = None,
    unfinished: str = "",
    spark: Spark | None = None,
) -> str:
    """Return the card as HTML.

    Parameters
    ----------
    facts
        What the job is.
    snapshot
        Its ``state.json``.
    note
        What is to be said about the wait.
    unfinished
        The line that rank 0 is writing.
    spark
        The course of a series (see `queries.summary`).
    """
    state, reason = snapshot["state"], _reason(snapshot)
    colour = _COLOURS.get(state, _WAITING)  # of dots and bars: as text it would be too pale
    said = " · ".join([facts.shape, *_times(facts, snapshot)])
    rows = [
        f'<div><span style="color:{colour}">●</span> <b>{_e(facts.name or say.NEW_JOB())}</b> · '
        f"{_e(state)} "
        f'<span style="{_MUTED};margin-left:.6em">{_e(said)}</span></div>'
    ]
    if reason:
        rows.append(f"<div>{_e(reason)}</div>")
    if words := hint(snapshot):
        rows.append(f'<div style="{_MUTED}">{_code(_e(words))}</div>')
    if note:
        rows.append(f"<div><b>{_e(note)}</b></div>")
    if progress := snapshot["progress"]:
        rows.append(_progress(progress, colour, sparkline(spark, colour)))
    if unfinished.strip():
        rows.append(
            '<pre style="margin:.3em 0 0;white-space:pre-wrap;'
            f'font-family:{_CODE}">{_e(unfinished)}</pre>'
        )
    if footer := _footer(facts, snapshot):
        rows.append(
            f'<div style="{_MUTED};margin-top:.3em">'
            + "".join(f"<div>{_e(words)}</div>" for words in footer)
            + "</div>"
        )
    style = (
        "border:1px solid var(--jp-border-color2,#ddd);border-radius:4px;padding:.5em .8em;"
        "font-family:var(--jp-ui-font-family,sans-serif);font-size:var(--jp-ui-font-size1,13px);"
        "color:var(--jp-ui-font-color1,inherit);line-height:1.5;max-width:60em;"
        "overflow-wrap:anywhere"
    )
    return f'<div style="{style}" role="status">{"".join(rows)}</div>'


def _progress(progress: ProgressState, colour: str, course: str) -> str:
    fraction = progress["fraction"]
    style = f"font-family:{_CODE};white-space:pre-wrap"
    words = f'<span style="{style}">{_e(progress_text(progress))}</span>'
    if fraction is None:
        return f"<div>{words} {course}</div>"
    percent = f"{100 * fraction:.1f}%"
    bar = (
        '<span style="flex:1 1 10em;height:.4em;border-radius:.2em;'
        'background:var(--jp-border-color2,#ddd);overflow:hidden">'
        f'<span style="display:block;height:100%;width:{percent};background:{colour}"></span>'
        "</span>"
    )
    return (
        '<div style="display:flex;flex-wrap:wrap;column-gap:1em;align-items:center;'
        f'margin:.2em 0">{bar}{words}{course}</div>'
    )


def _code(escaped: str) -> str:
    """Set what stands between backquotes as code."""
    return re.sub(r"`([^`]+)`", rf'<code style="font-family:{_CODE}">\1</code>', escaped)


def _e(text: str) -> str:
    return html.escape(uncoloured(str(text)))
