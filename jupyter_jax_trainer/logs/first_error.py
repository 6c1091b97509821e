"""Find the line of a log at which a person looks first when a job has failed.

That is the first ``Traceback (most recent call last):``. In a log without one it is the first line
that names an error: ``SomethingError: ...`` as Python writes it, ``Fatal Python error``, what CUDA
and XLA say when memory is short or a device fails, glog's fatal lines, ``Segmentation fault``, and
``ERROR``, ``CRITICAL`` and ``FATAL`` in capitals, which loggers write. glog's own errors
(``E1121 ...``) do not count: XLA writes some of them at each start.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator

from jupyter_jax_trainer.logs.patterns import visible
from jupyter_jax_trainer.logs.span import Span
from jupyter_jax_trainer.logs.view import BLOCKS, LogView

_TRACEBACKS = (b"Traceback (most recent call last):",)
# Each sign has one of these in it; they are found fast.
_HINTS = (
    b"Error",
    b"Exception",
    b"Fatal Python",
    b"CUDA",
    b"RESOURCE_EXHAUSTED",
    b"ut of memory",
    b"OOM",
    b"Segmentation fault",
    b"ERROR",
    b"CRITICAL",
    b"FATAL",
    b"\nF",
)
_SIGN = re.compile(
    rb"(?:^|[\s\])>])[A-Za-z_][\w.]*(?:Error|Exception)(?::\s|$)"
    rb"|\bFatal Python error\b|\bCUDA error\b|\bCUDA_ERROR_\w+|\bRESOURCE_EXHAUSTED\b"
    rb"|\b[Oo]ut of memory\b|\bOOM(?:Killed|-killed)?\b|\bSegmentation fault\b"
    rb"|\b(?:ERROR|CRITICAL|FATAL)\b|^F\d{4} [\d:.]+ "
)


def first_error(view: LogView, seconds: float = math.inf) -> int | None:
    """Return the position of the first line of a view that looks like an error.

    Parameters
    ----------
    view
        The lines; it is advanced to its end.
    seconds
        After which to give up; what was found by then is given.

    Returns
    -------
    int or None
        None where no line looks like one.
    """
    until = time.monotonic() + seconds
    view.advance(seconds)
    # A traceback is what most jobs leave, and it is found much faster than the rest.
    for hints, wanted in ((_TRACEBACKS, _is_traceback), (_HINTS, _is_sign)):
        at = 0
        while at < view.scanned and time.monotonic() <= until:
            span = view.book.span(at, BLOCKS)
            text = b"\n" + span.unordered()
            if any(hint in text for hint in hints):
                found = _first(view, span, wanted)
                if found is not None:
                    return found
            at = span.end
    return None


def _is_traceback(line: bytes) -> bool:
    return _TRACEBACKS[0] in line


def _is_sign(line: bytes) -> bool:
    return _SIGN.search(line) is not None


def _first(view: LogView, span: Span, wanted: Callable[[bytes], bool]) -> int | None:
    """Yield the first position in a span that is in the view and has a line that is wanted."""
    lines = visible(span.merged(times=False).text).split(b"\n")

    def positions() -> Iterator[int]:
        for begin, end in view.within(span.first, span.end):
            yield from range(begin, end)

    return next((at for at in positions() if wanted(lines[at - span.first])), None)
