"""One HTML file that shows a job: it opens anywhere, loads nothing, and has no secrets in it."""

from __future__ import annotations

import html
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jupyter_jax_trainer
from jupyter_jax_trainer import masking
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir.describe import compiled_text
from jupyter_jax_trainer.jobdir.failure import failed
from jupyter_jax_trainer.jobdir.files import LineReader
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.records import Metric
from jupyter_jax_trainer.messages import sharing as say
from jupyter_jax_trainer.options.spec import masked
from jupyter_jax_trainer.sharing import environment
from jupyter_jax_trainer.sharing.plots import MOST_METRICS, plot, series
from jupyter_jax_trainer.text import collapse_carriage_returns, duration, size, uncoloured
from jupyter_jax_trainer.views.card import Facts, render

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.job import Job

_LINES, _LINE, _EVENTS = 200, 2000, 50
_LEAST_SECRET = 6  # characters: shorter ones are everywhere
_STYLE = """
:root { color-scheme: light }
body { font: 14px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em;
  color: #212121; background: #fff; overflow-wrap: anywhere }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin: 1.6em 0 .4em }
table { border-collapse: collapse } td, th { text-align: left; padding: .1em 1.2em .1em 0;
  vertical-align: top } th { font-weight: 600; color: #616161 }
pre { background: #f5f5f5; padding: .6em .8em; overflow: auto; white-space: pre-wrap;
  font-size: 12px }
figure { margin: 1em 0 } svg { width: 100%; max-width: 640px } svg text { font-size: 11px;
  fill: #616161 } .left { text-anchor: end } .axis { stroke: #bdbdbd; fill: none }
polyline { fill: none; stroke-width: 1.5; stroke-linejoin: round }
footer { color: #616161; margin-top: 2em }
"""
_HEAD = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    '<meta name="viewport" content="width=device-width">'
)


def save_report(job: Job | str, path: str | os.PathLike[str] | None = None) -> Path:
    """Write a job's report, one HTML file: card, plots, end of the log, failure, environment.

    It loads nothing from anywhere. What looks like a secret is hidden, as `show` does.

    Parameters
    ----------
    job
        The job, or its name.
    path
        The file; default: ``NAME.html`` in the working directory. An existing one is replaced.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    UsageError
        It can't be written.
    """
    from jupyter_jax_trainer import api

    found = api.job(job) if isinstance(job, str) else job
    target = Path(path).expanduser() if path is not None else Path(f"{found.name}.html")
    try:
        target.write_text(page(found), encoding="utf-8")
    except OSError as error:
        raise UsageError(say.CANNOT_WRITE(path=target, error=error.strerror or error)) from None
    return target


def page(job: Job) -> str:
    """Return the page."""
    clean = _Cleaner(job)
    snapshot = job.snapshot()
    parts = [
        f"{_HEAD}<title>{_e(job.name)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_e(job.name)}</h1>",
        clean.html(render(Facts.of(job), snapshot)),
        _table((), _about(job, clean)),
    ]
    if job.failure is not None:
        told = str(failed(job.name, job.failure))
        parts += [_head(say.FAILURE()), f"<pre>{_e(clean(told))}</pre>"]
    parts += _metrics(job)
    ranks = [(r.rank, r.state, r.exit, r.restarts or None, r.pod or r.host) for r in job.ranks]
    heads = (say.RANK(), say.STATE(), say.EXIT(), say.RESTARTS(), say.HOST())
    parts += [_head(say.RANKS()), _table(heads, ranks)]
    things = (say.NAME(), say.TYPE(), say.SIZE())
    if sent := [(one["name"], one["type"], size(one["size"])) for one in job.sent]:
        parts += [_head(say.SENT()), _table(things, sent)]
    results = [
        (one["name"], clean(one.get("error") or one.get("type", "")), size(one.get("size", 0)))
        for one in job.results_info
    ]
    if results:
        parts += [_head(say.RESULTS()), _table(things, results)]
    events = [(_clock(e["time"]), clean(e["message"])) for e in job.events()[-_EVENTS:]]
    parts += [_head(say.EVENTS()), _table((), events)]
    parts += [_head(say.LOG()), f"<pre>{_log(job, clean)}</pre>"]
    parts += _environment(job, clean)
    made = say.MADE_BY(version=jupyter_jax_trainer.__version__)
    parts.append(f"<footer>{_e(made)}</footer></body></html>\n")
    return "\n".join(parts)


def _about(job: Job, clean: _Cleaner) -> list[tuple[str, str]]:
    rows = [
        (say.CREATED(), time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(job.created))),
        (say.TOOK(), duration(job.elapsed)),
        (say.OPTIONS(), clean(masked(job.spec).to_line())),
        (say.WHERE(), job.backend.place_in_full(job.manifest)),
        (say.COMPILER(), compiled_text(job.snapshot()["ranks"])),
    ]
    return [(title, text) for title, text in rows if text]


def _metrics(job: Job) -> list[str]:
    found = series(LineReader[Metric](JobDir(job.directory).metrics).read())
    plots = [drawn for name, ranks in found.items() if (drawn := plot(name, ranks))]
    if not plots:
        return []
    left = len(plots) - MOST_METRICS
    more = [f"<p>{_e(say.MORE_METRICS(count=left))}</p>"] if left > 0 else []
    return [_head(say.METRICS()), *plots[:MOST_METRICS], *more]


def _log(job: Job, clean: _Cleaner) -> str:
    several = job.spec.nodes > 1
    lines = [
        (f"[{line.rank}] " if several else "") + collapse_carriage_returns(line.text)[:_LINE]
        for line in job.logs(tail=_LINES)
    ]
    return _e(clean("\n".join(lines)) or say.NO_LOG())


def _environment(job: Job, clean: _Cleaner) -> list[str]:
    known = environment.known(job)
    all_of_them = "\n".join(f"{name}=={version}" for name, version in known.packages.items())
    parts = [_head(say.ENVIRONMENT()), _table((), [(n, clean(v)) for n, v in known.rows])]
    if all_of_them:
        summary = _e(say.PACKAGES(count=len(known.packages)))
        parts.append(f"<details><summary>{summary}</summary><pre>{_e(all_of_them)}</pre></details>")
    return parts


class _Cleaner:
    """Hides secrets: text that looks like one, and the values of the job's secret variables."""

    def __init__(self, job: Job) -> None:
        given = [(v, masking.variable(name, v)) for name, v in job.spec.env]
        hidden = [value for value, shown in given if value != shown]
        self._values = sorted((v for v in hidden if len(v) >= _LEAST_SECRET), key=len, reverse=True)

    def html(self, text: str) -> str:
        """Return HTML of ours without the values; what looks like a secret was hidden before."""
        for value in map(html.escape, self._values):
            text = text.replace(value, masking.HIDDEN)
        return text

    def __call__(self, text: str) -> str:
        """Mask the values, and what looks like a secret, in text."""
        for value in self._values:
            text = text.replace(value, masking.HIDDEN)
        return masking.text(text)


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{_e(text)}</th>" for text in heads)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{'' if cell is None else _e(str(cell))}</td>" for cell in row)
        + "</tr>"
        for row in rows
    )
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"


def _head(text: str) -> str:
    return f"<h2>{_e(text)}</h2>"


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def _e(text: str) -> str:
    return html.escape(uncoloured(text))
