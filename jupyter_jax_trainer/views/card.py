"""What is said about a job's state in one line, and the card that shows it in a notebook.

The card is static HTML: no scripts, everything that a job could have written escaped. It takes
JupyterLab's colours, so it fits light and dark.
"""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_jax_trainer.jobdir.layout import ENDED, RETURNED, JobDir, about_restart
from jupyter_jax_trainer.text import MAX_REASON, duration, metric, shorten, size, uncoloured
from jupyter_jax_trainer.trust import policy
from jupyter_jax_trainer.views.spark import sparkline

if TYPE_CHECKING:
    from jupyter_jax_trainer.capture import Capture
    from jupyter_jax_trainer.jobdir.job import Job
    from jupyter_jax_trainer.options.spec import JobSpec

SENDING, NOT_STARTED = "Sending", "Not started"  # before there is a job
_COLOURS = {
    "Running": "var(--jp-brand-color1, #1565c0)",
    "Succeeded": "var(--jp-success-color1, #2e7d32)",
    "Failed": "var(--jp-error-color1, #c62828)",
    "Cancelled": "var(--jp-ui-font-color2, #757575)",
}
_WAITING = "var(--jp-warn-color1, #b26a00)"
_MUTED = "color:var(--jp-ui-font-color2,#616161)"
_CODE = "var(--jp-code-font-family,monospace)"
_MANY = 6  # variables that are named one by one


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
    notes
        What the user should know about it: an unexpected name, a device that was chosen.
    log
        The file with all that rank 0 prints.
    """

    name: str | None
    created: float
    shape: str
    sent: str
    notes: tuple[str, ...] = ()
    log: str = ""

    @classmethod
    def before(cls, spec: JobSpec, plan: Mapping[str, Any], capture: Capture) -> Facts:
        """Describe a job that is about to be submitted."""
        return cls(
            name=spec.name,
            created=time.time(),
            shape=shape(spec.to_json(), plan),
            sent=things_text([vars(sent) for sent in capture.sent]),
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
            sent=things_text(manifest["sent"]),
            notes=tuple(note for note in notes if note),
            log=str(JobDir(job.directory).log(0)),
        )


def shape(spec: Mapping[str, Any], plan: Mapping[str, Any]) -> str:
    """Say how large a job is: ``4 nodes × 2 CPU devices``."""
    nodes = f"{spec['nodes']} node{'s' if spec['nodes'] != 1 else ''}"
    each = plan["devices_per_node"]
    if each == 1 and plan["device"] == "cpu":
        return nodes
    return f"{nodes} × {each} {plan['device'].upper()} device{'s' if each != 1 else ''}"


def renamed(wanted: str | None, name: str) -> str | None:
    """Say why a job is not called what it was to be called."""
    if wanted is None or wanted == name:
        return None
    return f"{wanted} is taken by a job that has ended: this one is {name}"


def elapsed(created: float, snapshot: Mapping[str, Any]) -> float:
    """Give the seconds from submission to now, or to the end."""
    last = snapshot["history"][-1] if snapshot["history"] else None
    end = last["time"] if last and last["state"] in ENDED else time.time()
    return max(0.0, float(end) - created)


def time_left(snapshot: Mapping[str, Any]) -> float | None:
    """Estimate the seconds to the end from the progress so far; None where it isn't known."""
    progress = snapshot["progress"]
    if snapshot["state"] != "Running" or not progress or not progress["fraction"]:
        return None
    began = next((e["time"] for e in snapshot["history"] if e["state"] == "Running"), None)
    fraction = progress["fraction"]
    if began is None or fraction < 0.02:
        return None
    return float((time.time() - began) * (1 - fraction) / fraction)


def progress_text(snapshot: Mapping[str, Any]) -> str:
    """Say how far it is: ``1240/2000  loss 0.0831``."""
    progress = snapshot["progress"]
    if not progress:
        return ""
    step = (
        f"{progress['step']}/{progress['total']}"
        if progress["total"]
        else (f"step {progress['step']}")
    )
    values = [f"{name} {metric(value)}" for name, value in progress["metrics"].items()]
    return "  ".join([step, *values[:6]])


def line(facts: Facts, snapshot: Mapping[str, Any], note: str | None = None) -> str:
    """Give the status in one line of plain text."""
    words = [f"{facts.name or 'New job'}: {snapshot['state']}", facts.shape]
    words += _times(facts, snapshot)
    if text := progress_text(snapshot):
        words.append(text)
    if snapshot["state"] != "Failed" and (reason := _reason(snapshot)):
        words.append(reason)
    if note:
        words.append(note)
    return _one_line(" · ".join(words))


def _reason(snapshot: Mapping[str, Any]) -> str:
    """Give the reason as it stands beside the state."""
    reason = shorten(snapshot["reason"] or "", MAX_REASON)
    return reason.removeprefix("cancelled ") if snapshot["state"] == "Cancelled" else reason


def _times(facts: Facts, snapshot: Mapping[str, Any]) -> list[str]:
    """Say how long it has taken, and how much is left."""
    if not snapshot["history"]:
        return []
    left = time_left(snapshot)
    return [
        duration(elapsed(facts.created, snapshot)),
        *([] if left is None else [f"about {duration(left)} left"]),
    ]


def text(facts: Facts, snapshot: Mapping[str, Any], note: str | None = None) -> str:
    """Give the whole card as plain text, for where HTML is not shown."""
    lines = [line(facts, snapshot, note)]
    if snapshot["state"] == "Failed" and (reason := _reason(snapshot)):
        lines.append(reason)
    if words := hint(snapshot):
        lines.append(words)
    lines += _footer(facts, snapshot)
    return "\n".join(map(_one_line, lines))


def hint(snapshot: Mapping[str, Any]) -> str:
    """Say what to do about a wait; empty where nothing can be done.

    What to do about a failure stands below the error that ends the cell.
    """
    words = None if snapshot["state"] in ENDED else snapshot.get("hint")
    return _one_line(shorten(words, MAX_REASON)) if words else ""


def _footer(facts: Facts, snapshot: Mapping[str, Any]) -> list[str]:
    """Say in single lines what was sent, what came back and what else there is to know."""
    if snapshot["state"] == SENDING:
        return [f"sending {facts.sent}"] if facts.sent else []
    active = snapshot["state"] not in (*ENDED, NOT_STARTED)
    lines = list(facts.notes if active else facts.notes[:1])
    if facts.sent and active:
        lines.append(f"sent {facts.sent}")
    if back := results_text(snapshot["results"]):
        lines.append(f"brought back {back}")
    if not active and (words := about_restart(snapshot)):
        lines.append(words.replace(" goes on ", " went on "))
    if active:
        lines.append(
            f"Keeps running if you close this page. Reattach: %jaxtrain attach {facts.name}"
        )
    return lines


def results_text(results: Sequence[Mapping[str, Any]] | None) -> str:
    """Say what came back: ``params dict of 4 1.2 MB, loss float32[] 4 B``."""
    return things_text(
        entry for entry in results or [] if "error" not in entry and entry["name"] != RETURNED
    )


def things_text(entries: Iterable[Mapping[str, Any]]) -> str:
    """Name things with type and size, the largest first."""
    by_size = sorted(entries, key=lambda entry: -entry["size"])
    named = [
        _one_line(f"{entry['name']} {entry['type']} {size(entry['size'])}")
        for entry in by_size[:_MANY]
    ]
    more = len(by_size) - len(named)
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def render(
    facts: Facts,
    snapshot: Mapping[str, Any],
    note: str | None = None,
    unfinished: str = "",
    spark: dict[str, Any] | None = None,
) -> str:
    """Give the card as HTML.

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
        The course of a series (see `views.glance`).
    """
    state, reason = snapshot["state"], _reason(snapshot)
    colour = _COLOURS.get(state, _WAITING)  # of dots and bars: as text it would be too pale
    said = " · ".join([facts.shape, *_times(facts, snapshot)])
    rows = [
        f'<div><span style="color:{colour}">●</span> <b>{_e(facts.name or "New job")}</b> · '
        f"{_e(state)} "
        f'<span style="{_MUTED};margin-left:.6em">{_e(said)}</span></div>'
    ]
    if reason:
        rows.append(f"<div>{_e(reason)}</div>")
    if words := hint(snapshot):
        rows.append(f'<div style="{_MUTED}">{_code(_e(words))}</div>')
    if note:
        rows.append(f"<div><b>{_e(note)}</b></div>")
    if snapshot["progress"]:
        rows.append(_progress(snapshot, colour, sparkline(spark, colour)))
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


def _progress(snapshot: Mapping[str, Any], colour: str, course: str) -> str:
    fraction = snapshot["progress"]["fraction"]
    style = f"font-family:{_CODE};white-space:pre-wrap"
    words = f'<span style="{style}">{_e(progress_text(snapshot))}</span>'
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


def _one_line(text: str) -> str:
    return " ".join(uncoloured(str(text)).split("\n"))


def _e(text: str) -> str:
    return html.escape(uncoloured(str(text)))
