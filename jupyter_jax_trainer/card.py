"""What is said about a job's state in one line, and the card that shows it in a notebook.

The card is static HTML: no scripts, everything that a job could have written escaped. It takes
JupyterLab's colours, so it fits light and dark.
"""

from __future__ import annotations

import html
import time
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_jax_trainer.jobdir import ENDED
from jupyter_jax_trainer.results import RETURNED
from jupyter_jax_trainer.text import duration, metric, plain, size

_COLOURS = {
    "Running": "var(--jp-brand-color1, #1565c0)",
    "Succeeded": "var(--jp-success-color1, #2e7d32)",
    "Failed": "var(--jp-error-color1, #c62828)",
    "Cancelled": "var(--jp-ui-font-color2, #757575)",
}
_WAITING = "var(--jp-warn-color1, #b26a00)"
_MUTED = "color:var(--jp-ui-font-color2,#616161)"
_MANY = 6  # variables that are named one by one


def shape(spec: Mapping[str, Any], plan: Mapping[str, Any]) -> str:
    """Say how large a job is: ``4 nodes × 2 CPU devices``."""
    nodes = f"{spec['nodes']} node{'s' if spec['nodes'] != 1 else ''}"
    each = plan["devices_per_node"]
    if each == 1 and plan["device"] == "cpu":
        return nodes
    return f"{nodes} × {each} {plan['device'].upper()} device{'s' if each != 1 else ''}"


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
    step = f"{progress['step']}/{progress['total']}" if progress["total"] else (
        f"step {progress['step']}"
    )
    values = [f"{name} {metric(value)}" for name, value in progress["metrics"].items()]
    return "  ".join([step, *values[:6]])


def line(
    name: str, created: float, size_of_job: str, snapshot: Mapping[str, Any], note: str | None
) -> str:
    """Give the status in one line of plain text."""
    words = [f"{name}: {snapshot['state']}", size_of_job, duration(elapsed(created, snapshot))]
    left = time_left(snapshot)
    if left is not None:
        words.append(f"about {duration(left)} left")
    if text := progress_text(snapshot):
        words.append(text)
    if snapshot["reason"] and snapshot["state"] != "Failed":
        words.append(snapshot["reason"])
    if note:
        words.append(note)
    return plain(" · ".join(words))


def sent_text(sent: Sequence[Mapping[str, Any]]) -> str:
    """Say what was sent: ``train_step function, x float32[60000,784] 188 MB``."""
    by_size = sorted(sent, key=lambda entry: -entry["size"])
    named = [
        f"{entry['name']} {entry['type']}"
        + (f" {size(entry['size'])}" if entry["size"] >= 100_000 else "")
        for entry in by_size[:_MANY]
    ]
    more = len(sent) - len(named)
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def results_text(results: Sequence[Mapping[str, Any]] | None) -> str:
    """Say what came back: ``params dict of 4 1.2 MB; history was never set``."""
    came = [
        f"{entry['name']} {entry['type']}"
        + (f" {size(entry['size'])}" if entry["size"] >= 100_000 else "")
        for entry in results or []
        if "error" not in entry and entry["name"] != RETURNED
    ]
    return ", ".join(came)


def render(
    name: str,
    created: float,
    size_of_job: str,
    sent: str,
    snapshot: Mapping[str, Any],
    note: str | None,
    unfinished: str,
) -> str:
    """Give the card as HTML.

    Parameters
    ----------
    name, created, size_of_job, sent
        What the job is.
    snapshot
        Its ``state.json``.
    note
        What is to be said about the wait.
    unfinished
        The line that rank 0 is writing.
    """
    state = snapshot["state"]
    colour = _COLOURS.get(state, _WAITING)
    facts = [size_of_job, duration(elapsed(created, snapshot))]
    left = time_left(snapshot)
    if left is not None:
        facts.append(f"about {duration(left)} left")
    rows = [
        f'<div><span style="color:{colour}">●</span> <b>{_e(name)}</b> · '
        f'<span style="color:{colour}">{_e(state)}</span> '
        f'<span style="{_MUTED};margin-left:.6em">{_e(" · ".join(facts))}</span></div>'
    ]
    reason = snapshot["reason"]
    if note or (reason and state != "Failed"):
        rows.append(f"<div>{_e(note or reason)}</div>")
    if state == "Failed" and reason:
        rows.append(f'<div style="color:{colour}">{_e(reason)}</div>')
    if snapshot["progress"]:
        rows.append(_progress(snapshot, colour))
    if unfinished.strip():
        rows.append(
            f'<pre style="margin:.3em 0 0;white-space:pre-wrap">{_e(_uncoloured(unfinished))}</pre>'
        )
    if sent and state not in ENDED:
        rows.append(f'<div style="{_MUTED};margin-top:.3em">sent {_e(sent)}</div>')
    if back := results_text(snapshot["results"]):
        rows.append(f'<div style="{_MUTED};margin-top:.3em">brought back {_e(back)}</div>')
    if note is None and state not in ENDED:
        rows.append(
            f'<div style="{_MUTED}">the job goes on without this page: '
            f"<code>%jaxtrain attach {_e(name)}</code></div>"
        )
    style = (
        "border:1px solid var(--jp-border-color2,#ddd);border-radius:4px;padding:.5em .8em;"
        "font-family:var(--jp-ui-font-family,sans-serif);font-size:var(--jp-ui-font-size1,13px);"
        "color:var(--jp-ui-font-color1,inherit);line-height:1.5;max-width:60em"
    )
    return f'<div style="{style}" role="status">{"".join(rows)}</div>'


def _progress(snapshot: Mapping[str, Any], colour: str) -> str:
    fraction = snapshot["progress"]["fraction"]
    text = (
        f'<span style="font-family:var(--jp-code-font-family,monospace)">'
        f"{_e(progress_text(snapshot))}</span>"
    )
    if fraction is None:
        return f"<div>{text}</div>"
    percent = f"{100 * fraction:.1f}%"
    bar = (
        '<span style="flex:1 1 10em;height:.4em;border-radius:.2em;'
        'background:var(--jp-border-color2,#ddd);overflow:hidden">'
        f'<span style="display:block;height:100%;width:{percent};background:{colour}">'
        "</span></span>"
    )
    return f'<div style="display:flex;gap:1em;align-items:center">{bar}{text}</div>'


def _uncoloured(text: str) -> str:
    import re

    return re.sub(r"\x1b\[[0-9;:]*m", "", text)


def _e(text: str) -> str:
    return html.escape(plain(str(text)))
