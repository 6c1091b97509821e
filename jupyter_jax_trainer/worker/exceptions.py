"""From an exception in the cell to the record that the notebook shows."""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Container, Mapping
from pathlib import Path

from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.records import ErrorRecord

# What a rank says when it only lost a peer: never the first cause.
_SECONDARY = re.compile(
    r"Gloo .*(failed|error|timed out)|coordination service|heartbeat timeout"
    r"|Connection (closed|reset) by peer|Socket closed|NCCL .*(abort|remote)",
    re.IGNORECASE,
)
# Byte code in the bundle names its files from the bundle's root.
_OWN = ("jupyter_jax_trainer/", f"{Path(__file__).parents[1]}/")
TRY_AGAIN = 75  # the exit code of a rank that only lost another one (EX_TEMPFAIL of sysexits.h)
# The last line of a rank that stops because another one failed, made and found here alone.
STOPPED_LINE = (
    re.escape(say.STOPPED.text).replace(r"\{rank\}", r"\d+").replace(r"\{summary\}", ".*")
)
_MAX_MESSAGE, _MAX_TRACEBACK = 4_000, 40_000  # characters
_JAX_NOTE = "For simplicity, JAX has removed its internal frames"
# jax tells the error of a callback as the text of its traceback.
_TOLD_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ ].*\n|\n)*")
_TOLD_FRAME = re.compile(r'  File "(?P<file>[^"\n]+)", line .*\n(?:    .*\n)*')
_BELOW_THE_WORKER = re.compile(
    r'(?<=last\):\n)(?:  File "(?:<string>|<frozen runpy>|[^"\n]*/__main__\.py)".*\n(?:    .*\n)*)+'
    r'(?=  File "[^"\n]*jupyter_jax_trainer/)'
)

# Code that we write ourselves: what calls the function of `train()`, and saves a session.
_PLUMBING = ("__jaxtrain_", "__import__('jupyter_jax_trainer.")


def stopped_line(first: int, summary: str) -> str:
    """Return what a rank prints last when it stops because another one failed."""
    return say.STOPPED(rank=first, summary=summary)


class WorkerError(JaxTrainError, RuntimeError):
    """Something that the worker itself refuses or gives up; mostly before the cell runs."""

    def __str__(self) -> str:
        return self.message  # the record of the error has the hint on its own


class NotFiniteError(WorkerError):
    """A metric was reported as NaN or infinite, in a job that is to stop then."""


def is_secondary(text: str) -> bool:
    """Return whether an error says no more than that another rank is gone."""
    return _SECONDARY.search(text) is not None


def describe(
    error: BaseException,
    cell_file: str,
    labels: Mapping[str, str],
    outside: Container[str] = (),
) -> ErrorRecord:
    """Describe an exception for the notebook.

    Parameters
    ----------
    error
        What the cell raised.
    cell_file
        The file name under which the cell was compiled.
    labels
        Names to show in place of file names, for this cell and functions of others.
    outside
        Variables of the notebook that were not sent.
    """
    report = traceback.TracebackException.from_exception(error, compact=True)
    _relabel(report, labels, set())
    text = _without_internals("".join(report.format()))

    for file, label in labels.items():
        for shown in (file, f"<{label}>"):
            text = text.replace(f'  File "{shown}", line', f"  {label}, line")
    try:
        message = str(error)
    except Exception:
        message = say.NO_EXCEPTION_TEXT()
    return {
        "type": type(error).__name__,
        "message": _cut(_TOLD_TRACEBACK.sub("", message), _MAX_MESSAGE),
        "traceback": _cut(text.rstrip("\n"), _MAX_TRACEBACK),
        "cell": labels.get(cell_file, "Cell"),
        "cell_line": _cell_line(error, cell_file),
        "secondary": not isinstance(error, WorkerError)
        and is_secondary(f"{type(error).__name__}: {message}"),
        "hint": _hint(error, outside),
    }


def _hint(error: BaseException, outside: Container[str]) -> str | None:
    """Return what to do about an undefined name that the notebook has but did not send."""
    if isinstance(error, WorkerError):
        return error.hint
    name = error.name if isinstance(error, NameError) else None
    if name is None or name not in outside:
        return None
    return say.NOT_SENT(name=name)


def _cut(text: str, limit: int) -> str:
    """Leave out the middle of a text that is too long for any view."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return say.OMITTED(start=text[:half], count=len(text) - limit, end=text[-half:])


def _cell_line(error: BaseException, cell_file: str) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == cell_file:
        return error.lineno
    line = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == cell_file and not _is_plumbing(cell_file, number):
            line = number
    return line


def _is_plumbing(filename: str, line: int | None) -> bool:
    """Return whether a line is one that no user wrote."""
    text = linecache.getline(filename, line or 0)
    return any(mark in text for mark in _PLUMBING)


def _is_internal(filename: str) -> bool:
    return filename.startswith(_OWN) or "/jax/_src/" in filename


def _without_internals(text: str) -> str:
    """Leave out our frames and jax's of the tracebacks that a text tells."""
    text = _BELOW_THE_WORKER.sub("", text)
    return _TOLD_FRAME.sub(lambda frame: "" if _is_internal(frame["file"]) else frame[0], text)


def _relabel(
    report: traceback.TracebackException, names: Mapping[str, str], seen: set[int]
) -> None:
    """Drop the worker's own frames and name cells as the notebook does, in causes, too."""
    if id(report) in seen:
        return
    seen.add(id(report))
    kept = []
    for frame in report.stack:
        if _is_internal(frame.filename):
            continue

        if _is_plumbing(frame.filename, frame.lineno):
            continue
        _ = frame.line  # read from linecache now: it is keyed by the name that changes below
        if frame.filename in names:
            frame.filename = f"<{names[frame.filename]}>"
        kept.append(frame)
    report.stack = traceback.StackSummary.from_list(kept)
    notes = getattr(report, "__notes__", None)
    if notes:
        report.__notes__ = [note for note in notes if _JAX_NOTE not in str(note)]
    for other in (report.__cause__, report.__context__, *(report.exceptions or [])):
        if other is not None:
            _relabel(other, names, seen)
