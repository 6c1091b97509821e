"""From an exception in the cell to the record that the notebook shows."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# What a rank says when it only lost a peer: never the first cause.
_SECONDARY = re.compile(
    r"Gloo .*(failed|error|timed out)|coordination service|heartbeat timeout"
    r"|Connection (closed|reset) by peer|Socket closed|NCCL .*(abort|remote)",
    re.IGNORECASE,
)
# Byte code in the bundle names its files from the bundle's root.
_OWN = ("jupyter_jax_trainer/worker/", str(Path(__file__).parent))
_JAX_NOTE = "For simplicity, JAX has removed its internal frames"


def is_secondary(text: str) -> bool:
    """Tell whether an error says no more than that another rank is gone."""
    return _SECONDARY.search(text) is not None


def describe(error: BaseException, cell_file: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Describe an exception for the notebook.

    Parameters
    ----------
    error
        What the cell raised.
    cell_file
        The file name under which the cell was compiled.
    labels
        Names to show in place of file names, for this cell and functions of others.

    Returns
    -------
    dict
        ``type``, ``message``, ``traceback`` (text that starts at the cell), ``cell`` (its label),
        ``cell_line`` (None where the cell isn't in the traceback), ``secondary``.
    """
    report = traceback.TracebackException.from_exception(error, compact=True)
    _relabel(report, labels, set())
    text = "".join(report.format())
    for label in labels.values():
        text = text.replace(f'  File "<{label}>", line', f"  {label}, line")
    try:
        message = str(error)
    except Exception:
        message = "(its message can't be had: str() fails on it)"
    return {
        "type": type(error).__name__,
        "message": message,
        "traceback": text.rstrip("\n"),
        "cell": labels.get(cell_file, "Cell"),
        "cell_line": _cell_line(error, cell_file),
        "secondary": is_secondary(f"{type(error).__name__}: {message}"),
    }


def _cell_line(error: BaseException, cell_file: str) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == cell_file:
        return error.lineno
    line = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == cell_file:
            line = number
    return line


def _relabel(
    report: traceback.TracebackException, names: Mapping[str, str], seen: set[int]
) -> None:
    """Drop the worker's own frames and name cells as the notebook does, in causes, too."""
    if id(report) in seen:
        return
    seen.add(id(report))
    kept = []
    for frame in report.stack:
        if frame.filename.startswith(_OWN) or "/jax/_src/" in frame.filename:
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
